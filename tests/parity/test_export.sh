#!/bin/bash
# A folder that `zinc train` wrote opens in transformers without missing or unexpected keys, and both find the same loss.
# usage: test_export.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity data=$2/tests/data/parity
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 # another test has the other core
folders=()

make() {
    local out=$work/$1
    "$zinc" train --model "$data/$1" --data "$data/tokens.bin" --output "$out" --steps 2 --micro-batch 2 --seq-len 32 \
        --lr 1e-3 --precision fp32 >"$work/log" 2>&1 || { tail -5 "$work/log"; return 1; }
    "$zinc" eval --model "$out" --data "$data/tokens.bin" --seq-len 32 --json >"$out.json" 2>"$work/log" ||
        { tail -5 "$work/log"; return 1; }
    folders+=("$out" "$out.json" "$data/$1")
}

for name in gpt2 gpt2-gelu llama3 qwen3; do
    make "$name" || { echo "FAIL $name"; exit 1; }
done
"$python" "$here/check_export.py" "$data/tokens.bin" 32 "${folders[@]}"

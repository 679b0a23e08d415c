#!/bin/bash
# A real pretrained model, SmolLM2-135M: `zinc eval` equals transformers' fp32 loss on a text within 1e-5, and 30 steps
# of fine-tuning on the text lower the loss on a part of it that was held out.
# usage: test_smollm2.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity
source "$here/venv.sh"
command -v bible >/dev/null || skip "the text is not installed (Debian: bible-kjv)"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=2

fail() { echo "FAIL $*"; exit 1; }

source "$here/smollm2.sh"

# Evaluation: 8 windows of 256. Fine-tuning: 30 windows of 64, with the 16 windows after them held out.
bible -f ge1:1-ge50:26 </dev/null | sed 's/^[^ ]* //' >"$work/text.txt"
"$python" "$here/encode_text.py" "$model" "$work/text.txt" "$work/tokens.bin" 2049 1921 1025 || fail "no tokens"

"$zinc" eval --model "$model" --data "$work/tokens-1.bin" --seq-len 256 --json >"$work/eval.json" || fail "zinc eval"
"$python" "$here/check_export.py" "$work/tokens-1.bin" 256 "$model" "$work/eval.json" "" || fail "evaluation"

held_out() {
    "$zinc" eval --model "$1" --data "$work/tokens-3.bin" --seq-len 64 --json | sed 's/.*"loss": *\([-0-9.e+]*\).*/\1/'
}
before=$(held_out "$model")
"$zinc" train --model "$model" --data "$work/tokens-2.bin" --output "$work/tuned" --steps 30 --precision fp32 \
    --seq-len 64 --micro-batch 1 --lr 1e-4 --keep 0 >"$work/log" 2>&1 || { tail -5 "$work/log"; fail "zinc train"; }
after=$(held_out "$work/tuned")
echo "held-out loss $before, after 30 steps $after"
awk -v a="$after" -v b="$before" 'BEGIN { exit !(a > 0 && a < b) }' || fail "the held-out loss did not fall"

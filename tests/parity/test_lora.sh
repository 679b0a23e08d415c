#!/bin/bash
# Adapters against PEFT and transformers: training, folders both ways and merging, for a small model of each architecture in fp32 and one
# over a 16-bit base; then SmolLM2-135M on conversations.
# usage: test_lora.sh PROGRAM SOURCE_DIR BUILD_DIR [FIXTURE…]
set -u
zinc=$1 data=$2/tests/data here=$2/tests/parity
shift 3
source "$here/venv.sh"
need_peft
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive # small matrices: more threads only wait

fail() { echo "FAIL $*"; exit 1; }

(($#)) || set -- gpt2 llama3 qwen3 # all: give their names
mkdir "$work/small"
"$python" "$here/check_lora.py" "$zinc" "$data/parity" "$work/small" "$@" 2>"$work/log" || { tail -5 "$work/log"; fail "fixtures"; }

source "$here/smollm2.sh"
unset OMP_NUM_THREADS

# held_out FLAGS…: the mean loss over the tokens of the answers
held_out() {
    "$zinc" eval --model "$model" --data "$data/chat/owl-held-out.jsonl" --json "$@" >"$work/eval.json" || fail "zinc eval"
    sed 's/.*"loss": *\([-0-9.e+]*\).*/\1/' "$work/eval.json"
}

"$zinc" train --model "$model" --data "$data/chat/owl.jsonl" --output "$work/owl" --lora-rank 8 --steps 8 --lr 2e-3 --seq-len 128 \
    --keep 0 >"$work/log" 2>&1 || { tail -5 "$work/log"; fail "zinc train"; }
after=$(held_out --adapter "$work/owl")
echo "SmolLM2-135M: loss of held-out answers after 8 steps of adapters $after"
# From 5.3.
awk -v a="$after" 'BEGIN { exit !(a > 0 && a < 3) }' || fail "the loss fell too little"
"$zinc" merge --model "$model" --adapter "$work/owl" --output "$work/merged" --output-dtype fp32 >"$work/log" 2>&1 || fail "$(cat "$work/log")"
"$python" "$here/check_lora_chat.py" "$zinc" "$model" "$work/owl" "$work/merged" 2>"$work/log" || { tail -3 "$work/log"; fail "SmolLM2"; }

#!/bin/bash
# Fine-tuning SmolLM2-135M on conversations lowers the loss of the answers in others that were held out, and the loss of
# the answers that `zinc eval` gives for the model as it comes is that of transformers.
# usage: test_finetune_chat.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity data=$2/tests/data/chat
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() { echo "FAIL $*"; exit 1; }

source "$here/smollm2.sh"

# held_out FOLDER: the mean loss over the tokens of the answers
held_out() {
    "$zinc" eval --model "$1" --data "$data/owl-held-out.jsonl" --json >"$work/eval.json" || fail "zinc eval"
    sed 's/.*"loss": *\([-0-9.e+]*\).*/\1/' "$work/eval.json"
}

before=$(held_out "$model")
"$python" "$here/check_chat_loss.py" "$model" "$data/owl-held-out.jsonl" "$work/eval.json" || fail "evaluation"
"$zinc" train --model "$model" --data "$data/owl.jsonl" --output "$work/tuned" --steps 12 --precision fp32 \
    --output-dtype fp32 --seq-len 128 --micro-batch 1 --lr 5e-5 --keep 0 >"$work/log" 2>&1 || { tail -5 "$work/log"; fail "zinc train"; }
after=$(held_out "$work/tuned")
echo "loss of held-out answers $before, after 12 steps $after"
# From 4.2 to about 2 where all is well.
awk -v a="$after" -v b="$before" 'BEGIN { exit !(a > 0 && a < 0.7 * b) }' || fail "the loss fell too little"

#!/bin/bash
# Conversations as rows: `zinc eval` of SmolLM2-135M gives the loss of transformers row by row at every window, packed or
# not, on one rank and on three; and so does the held-out loss of a run.
# usage: test_rows.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() { echo "FAIL $*"; exit 1; }

source "$here/smollm2.sh"
export OMP_WAIT_POLICY=passive
"$python" "$here/make_chat_rows.py" 20 "$work/rows.jsonl" || fail "no rows"

# result NAME FLAGS…
result() {
    local name=$1
    shift
    "$zinc" eval --model "$model" --data "$work/rows.jsonl" --json "$@" >"$work/$name" 2>"$work/err" ||
        fail "$name: $(cat "$work/err")"
}
result default
result window-256 --seq-len 256
result window-1024 --seq-len 1024
result one-each --packing none --micro-batch 2
result three-ranks -n 3 --seq-len 200
"$python" "$here/check_chat_loss.py" "$model" "$work/rows.jsonl" "$work/default" "$work/window-256" "$work/window-1024" \
    "$work/one-each" "$work/three-ranks" || fail "the losses are not those of transformers"

#!/bin/bash
# 20 steps of each optimizer against the same rule in plain PyTorch; then, with another beta, the comparison must fail.
# usage: test_optimizers.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 data=$2/tests/data/parity here=$2/tests/parity
. "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# run NAME FLAG…: trains into $work/NAME
run() {
    local name=$1
    shift
    "$zinc" train --model "$data/llama2" --data "$data/tokens.bin" --output "$work/$name" --steps 20 --seq-len 32 --micro-batch 2 \
        --no-shuffle --precision fp32 --output-dtype fp32 --weight-decay 0.1 --threads 1 "$@" >"$work/$name.log" 2>&1 ||
        { echo "FAIL $name: $(tail -2 "$work/$name.log")"; exit 1; }
}

run lion --optimizer lion --lr 1e-4
run adagrad --optimizer adagrad --lr 1e-2
run sgd --optimizer sgd --momentum 0.9 --lr 1e-2
run adamw-bf16 --optimizer adamw-bf16 --lr 1e-4
run muon --optimizer muon --lr 1e-3
run muon-original --optimizer muon --muon-scale original --momentum 0.9 --lr 1e-3
run wrong-muon --optimizer muon --momentum 0.9 --lr 1e-3
sed -i 's/"momentum": [0-9.]*/"momentum": 0.95/' "$work/wrong-muon/run.json"
run wrong --optimizer lion --lr 1e-4 --beta2 0.98
sed -i 's/"beta2": [0-9.]*/"beta2": 0.99/' "$work/wrong/run.json"
"$python" "$here/compare_optimizers.py" "$data/llama2" "$data/tokens.bin" "$work/lion" "$work/adagrad" "$work/sgd" \
    "$work/adamw-bf16" "$work/muon" "$work/muon-original" --not "$work/wrong" "$work/wrong-muon"

#!/bin/bash
# transformers opens every checkpoint folder as it is, without missing or unexpected keys, and finds the loss that Zinc finds; a
# tied head is stored once and comes back tied.
# test_parity_transformers.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity data=$2/tests/data/parity
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=2

# make MODEL FLAGS…: a run with two checkpoints, and the loss of each
make() {
    local out=$work/$1 at
    "$zinc" train --model "$data/$1" --data "$data/tokens.bin" --output "$out" --steps 4 --checkpoint-every 2 \
        --micro-batch 2 --seq-len 32 --lr 1e-3 "${@:2}" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
    for at in "$out"/checkpoints/step-*; do
        "$zinc" eval --model "$at" --data "$data/tokens.bin" --seq-len 32 --json >"$at.json" 2>"$work/log" ||
            { tail -5 "$work/log"; exit 1; }
    done
}

make gpt2 --precision fp32
make llama3 --precision bf16
make qwen3 --precision fp32
PYTHONPATH=$here "$python" - "$data/tokens.bin" "$work"/*/checkpoints/step-???????? <<'PYTHON'
import sys
import check_export
from safetensors import safe_open
from transformers import AutoModelForCausalLM
for folder in sys.argv[2:]:
    check_export.check(sys.argv[1], 32, folder, f"{folder}.json", "")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with safe_open(f"{folder}/model.safetensors", "pt") as f:
        stored = "lm_head.weight" in f.keys()
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    if tied != model.config.tie_word_embeddings or tied == stored:
        sys.exit(f"{folder}: tied {tied}, and the head is {'' if stored else 'not '}stored")
PYTHON

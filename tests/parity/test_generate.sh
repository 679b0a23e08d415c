#!/bin/bash
# A real pretrained model, SmolLM2-135M: greedy tokens of `zinc generate` are those of transformers in fp32 on ten prompts, also
# with a repetition penalty and with stop strings; with --chat it answers that the capital of France is Paris, and a
# conversation answers as each of its prompts does alone.
# usage: test_generate.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=2

fail() { echo "FAIL $*"; exit 1; }

source "$here/smollm2.sh"
"$python" "$here/compare_generate.py" "$zinc" "$model" || fail "generation"

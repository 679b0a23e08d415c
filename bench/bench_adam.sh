#!/bin/bash
# The AdamW update beside PyTorch's and DeepSpeed's, in fine alternation. usage: bench_adam.sh PROGRAM [--quick]
cd "$(dirname "$0")/.." || exit
exec python3 bench/compare_adam.py --zinc "$1" "${@:2}"

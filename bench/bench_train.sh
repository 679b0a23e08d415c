#!/bin/bash
# GPT-2 124M beside PyTorch, and beside the machine's matrix-product peak. usage: bench_train.sh PROGRAM [--quick]
cd "$(dirname "$0")/.." || exit
exec python3 bench/compare_torch.py --zinc "$1" --gemm-peak build/bench/gemm_peak "${@:2}"

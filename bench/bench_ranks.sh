#!/bin/bash
# GPT-2 124M on 2 ranks beside PyTorch DDP and FSDP2 and DeepSpeed stage 3, as far as they are installed.
# usage: bench_ranks.sh PROGRAM [--quick]
cd "$(dirname "$0")/.." || exit
exec python3 bench/compare_ranks.py --zinc "$1" "${@:2}"

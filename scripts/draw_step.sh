#!/bin/sh
# Makes docs/step.svg from the program of a small model: draw_step.sh [PROGRAM] > docs/step.svg
set -eu
"${1:-build/zinc}" plan --layers 4 --hidden 512 --heads 8 --vocab 4096 --seq-len 256 --micro-batch 1 --precision bf16 --cluster cpu-server \
    --ranks 2 --stage 3 --schedule horizontal --offload-optimizer nvme --offload-gradients nvme --offload-param none \
    --offload-activations none --recompute on --keep-logits on --tile-limit 0 --host-cache 0 --persist-below 0 \
    --prefetch-bytes 14MiB --program | python3 "$(dirname "$0")/draw_step.py"

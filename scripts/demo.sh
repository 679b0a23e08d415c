#!/bin/bash
# Trains a small model on the text that comes with the repository: over two ranks, each with half of the parameters (stage 3),
# its optimizer states on NVMe. Then it shows what the model learnt: the loss on text it has never seen, before and after, a
# text that it writes, and a report of the run. At most three minutes on two cores.
set -eu
cd "$(dirname "$0")/.."
zinc=build/zinc
model=examples/demo
output=demo-out

# train FLAGS…: of a new model with random weights.
train()
{
    "$zinc" train --model "$model" --from-scratch --data "$model/demo.txt" --seq-len 256 "$@"
}

# heldout DIR: the loss on the held-out text.
heldout()
{
    "$zinc" eval --model "$1" --data "$model/heldout.txt" --seq-len 256 --json |
        python3 -c 'import json, sys; print("%.3f" % json.load(sys.stdin)["loss"])'
}

rm -rf "$output"
mkdir -p "$output"
echo "== a new model with random weights"
train --steps 0 --output "$output/before"

# Two ranks also where there is one core. The swap lies in the output folder, whatever file system that is on.
echo "== training"
train -n 2 --stage 3 --offload-optimizer nvme --allow-buffered-swap --micro-batch 4 --steps 240 --lr 2e-3 \
    --lr-schedule cosine --warmup 20 --eval-data "$model/heldout.txt" --eval-every 25 --output "$output/after"

before=$(heldout "$output/before")
after=$(heldout "$output/after")
echo "== loss on text it has never seen: $before before, $after after (nats a byte)"
echo "== and it writes:"
"$zinc" generate --model "$output/after" --prompt "And God said" --max-tokens 200 --temperature 0.7
"$zinc" report "$output/after" >/dev/null
echo "The model is in $output/after; any hub tool opens it. How it was trained: $output/after/report.html"

#!/bin/bash
# Trains a small model on the text that comes with the repository, about a minute on two cores,
# and shows what it learnt: the loss on text it has never seen, before and after.
set -eu
cd "$(dirname "$0")/.."
zinc=build/zinc
model=examples/demo
output=demo-out

# has COMMAND: whether this build has it.
has()
{
    "$zinc" --help | grep -q "^  $1  "
}

# heldout DIR: the loss on the held-out text.
heldout()
{
    "$zinc" eval --model "$1" --data "$model/heldout.txt" --seq-len 256 --json |
        python3 -c 'import json, sys; print("%.3f" % json.load(sys.stdin)["loss"])'
}

for command in train eval; do
    has "$command" || { echo "demo: this build has no \`zinc $command\` yet" >&2; exit 1; }
done

rm -rf "$output"
mkdir -p "$output"
echo "== a new model with random weights"
"$zinc" train --model "$model" --from-scratch --data "$model/demo.txt" --steps 0 --seq-len 256 \
    --output "$output/before"
echo "== training"
"$zinc" train --model "$model" --from-scratch --data "$model/demo.txt" --steps 150 --seq-len 256 \
    --micro-batch 8 --lr 1e-3 --lr-schedule cosine --warmup 10 --output "$output/after"

before=$(heldout "$output/before")
after=$(heldout "$output/after")
echo "== loss on text it has never seen: $before before, $after after (nats a byte)"
if has generate; then
    echo "== and it writes:"
    "$zinc" generate --model "$output/after" --prompt "And God said" --max-tokens 200 --temperature 0.7
fi
echo "The model is in $output/after; any hub tool opens it."

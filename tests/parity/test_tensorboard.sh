#!/usr/bin/env bash
# TensorBoard's own reader finds every value of metrics.jsonl in OUTPUT/tensorboard, also after a run that goes on from an
# earlier step, and nothing of a run that was overwritten.
set -euo pipefail
zinc=$1 data=$2/tests/data/parity here=$2/tests/parity
source "$here/venv_tensorboard.sh"
export OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >compare.py <<'PYTHON'
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import struct
folder, steps = sys.argv[1], int(sys.argv[2])
wanted = {}
def put(tag, step, value):
    if value is not None:
        wanted.setdefault(tag, []).append((step, struct.unpack("f", struct.pack("f", value))[0]))
for line in map(json.loads, open(folder + "/metrics.jsonl")):
    for key, value in line.items():
        if isinstance(value, dict):
            for name in value:
                put(key + "/" + name, line["step"], value[name])
        elif key not in ("step", "skipped", "reason"):
            put(key, line["step"], value)
events = EventAccumulator(folder + "/tensorboard", size_guidance={"scalars": 0})
events.Reload()
assert events.file_version == 2.0
found = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
assert set(found) == set(wanted), set(found) ^ set(wanted)
for tag in wanted:
    if tag == "memory/resident": # the line of the last step is written again after its evaluation
        found[tag].pop(), wanted[tag].pop()
    # The log has nine digits of a double, the events the nearest float of it: the last bit may differ.
    assert [s for s, _ in found[tag]] == [s for s, _ in wanted[tag]], (tag, found[tag], wanted[tag])
    assert all(abs(a - b) <= 2e-7 * abs(b) for (_, a), (_, b) in zip(found[tag], wanted[tag])), (tag, found[tag], wanted[tag])
assert [step for step, _ in found["loss"]] == list(range(1, steps + 1)), found["loss"]
assert [step for step, _ in found["eval_loss"]] == list(range(0, steps + 1, 2)), found["eval_loss"]
PYTHON

train() {
    "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --eval-data "$data/tokens.bin" --eval-every 2 --seq-len 16 \
        --threads 1 --checkpoint-every 4 --output run "$@" >out 2>err || { cat err; exit 1; }
}

train --steps 6
"$python" compare.py run 6
train --steps 8 --resume
"$python" compare.py run 8
[ "$(ls run/tensorboard | wc -l)" = 2 ]
train --steps 4 --overwrite --seed 2
"$python" compare.py run 4
[ "$(ls run/tensorboard | wc -l)" = 1 ]

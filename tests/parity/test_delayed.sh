#!/bin/bash
# Delayed parameter updates against PyTorch, in memory and with the states on disk.
# usage: test_delayed.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 data=$2/tests/data/parity here=$2/tests/parity
. "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
flags=(--seq-len 32 --steps 12 --micro-batch 2 --accumulate 2 --lr 1e-3 --weight-decay 0.1 --clip 1.0 --warmup 3)

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# near EXPECTED GOT: losses within 2e-5, norms within 1e-4, relative
near() {
    "$python" - "$1" "$2" <<'PY'
import json, sys
expected, got = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
assert len(expected) == len(got), (len(expected), len(got))
worst = {key: max(abs(a[key] - b[key]) / abs(a[key]) for a, b in zip(expected, got)) for key in ("loss", "grad_norm", "lr")}
print("worst loss %.1e, norm %.1e" % (worst["loss"], worst["grad_norm"]))
sys.exit(not (worst["loss"] <= 2e-5 and worst["grad_norm"] <= 1e-4 and worst["lr"] <= 1e-12))
PY
}

for model in gpt2 qwen3; do
    "$python" "$here/reference.py" train "$data/$model" "$data/tokens.bin" "${flags[@]}" --delayed-after 4 \
        >"$work/expected" 2>"$work/log" || { fail "$model: $(tail -3 "$work/log")"; continue; }
    for offload in none nvme; do
        "$zinc" train --model "$data/$model" --data "$data/tokens.bin" --no-shuffle --precision fp32 "${flags[@]}" \
            --delayed-update=4 --offload-optimizer $offload --allow-buffered-swap --output "$work/run" --overwrite \
            >"$work/log" 2>&1 || { fail "$model, $offload: $(tail -3 "$work/log")"; continue; }
        if said=$(near "$work/expected" "$work/run/metrics.jsonl"); then echo "ok $model, $offload: $said"
        else fail "$model, $offload: $said"; fi
    done
    # Without the delay the comparison would notice.
    "$zinc" train --model "$data/$model" --data "$data/tokens.bin" --no-shuffle --precision fp32 "${flags[@]}" \
        --output "$work/run" --overwrite >"$work/log" 2>&1
    near "$work/expected" "$work/run/metrics.jsonl" >/dev/null && fail "$model: no delay passes for one"
done
echo "$failures failures"
((failures == 0))

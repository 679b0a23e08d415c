#!/bin/bash
# Short conversations packed into windows and one a window, in turns: tokens that count a second.
# usage: compare_packing.sh ZINC MODEL [ROUNDS [ROWS]]
set -eu
zinc=$1 model=$2 rounds=${3:-3} rows=${4:-2000}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$here/../tests/parity/make_chat_rows.py" "$rows" "$work/rows.jsonl" 1 short

# rate PACKING STEPS: targets a second over the steps after the first, which also touches all memory for the first time
rate() {
    "$zinc" train --model "$model" --data "$work/rows.jsonl" --packing "$1" --steps "$2" --output "$work/$1" --overwrite \
        --seq-len 1024 --keep 0 >"$work/$1.out" 2>&1 || { cat "$work/$1.out" >&2; exit 1; }
    python3 - "$work/$1/metrics.jsonl" <<'PY'
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1])][1:]
print("%.1f" % (sum(s["targets"] for s in steps) / sum(s["seconds"] for s in steps)))
PY
}
for round in $(seq "$rounds"); do
    packed=$(rate best-fit 4)
    alone=$(rate none 12)
    echo "round $round: packed $packed, one each $alone targets/s, ratio $(awk "BEGIN { printf \"%.2f\", $packed / $alone }")"
done

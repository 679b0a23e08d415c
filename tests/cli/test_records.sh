#!/usr/bin/env bash
# What a run leaves beside its log: where it comes from in run.json, what it cost in summary.txt, the time lines of all ranks.
set -euo pipefail
zinc=$1 data=$2/tests/data/parity
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "failed: $*" >&2
    exit 1
}

words=(train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 4)
"$zinc" "${words[@]}" --output "one run" --offload-optimizer nvme --allow-buffered-swap --checkpoint-every 2 --trace one.json >out 2>err ||
    fail "$(cat err)"
for line in 'steps 1 to 4 cost' '  time    ' '  tokens  64, 64 trained; ' '  memory  at most: device ' '  moved   0 B between ranks, ' \
    '  drives  '; do
    grep -qF "$line" out || fail "no '$line' in $(cat out)"
done
grep -q '600 TBW$' out || fail "the assumed rating is not said: $(cat out)"
sed -n '/^steps 1 to 4 cost/,$p' out | cmp - "one run/summary.txt" || fail "summary.txt is not what was printed"
python3 - "$data" <<'PYTHON'
import json, sys, datetime
run = json.load(open("one run/run.json"))
origin = run["origin"]
age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.strptime(origin["date"] + "+0000", "%Y-%m-%dT%H:%M:%SZ%z")
assert 0 <= age.total_seconds() < 600, origin
assert origin["command"].startswith("zinc train --model %s/gpt2 " % sys.argv[1]), origin
assert "--output 'one run'" in origin["command"], origin
assert origin["trace"].endswith("/one.json"), origin
assert origin["machine"]["cores"] >= 1 and origin["machine"]["memory"] > 2**20, origin
lines = [json.loads(line) for line in open("one run/metrics.jsonl")]
device = sum(kind["device"] + kind["host"] for kind in run["bytes"].values())
assert run["planned"]["process_bytes"] > device and run["planned"]["flops"] > 0, run["planned"]
# What was written: swap of all steps, two checkpoints, the model.
swap = sum(line["nvme_write_bytes"] for line in lines)
assert swap > 0
PYTHON

# A run that goes on has another date and command line, and is the same run.
"$zinc" "${words[@]/4/6}" --output "one run" --offload-optimizer nvme --allow-buffered-swap --resume >out 2>err || fail "resume: $(cat err)"
[ -s err ] && grep -qi 'origin\|command' err && fail "resume compares where runs come from: $(cat err)"
grep -q '^steps 5 to 6 cost' out || fail "resume: $(cat out)"

if command -v mpirun >/dev/null; then
    "$zinc" "${words[@]}" -n 3 --stage 3 --output ranks --trace ranks.json >out 2>err || fail "ranks: $(cat err)"
    python3 - <<'PYTHON'
import json
events = json.load(open("ranks.json"))["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert names == {r: "rank %d of 3, step 3" % r for r in range(3)}, names
for rank in range(3):
    mine = [e for e in events if e["ph"] == "X" and e["pid"] == rank]
    assert {"compute", "comm"} <= {e["cat"] for e in mine} or len({e["cat"] for e in mine}) >= 2, (rank, {e["cat"] for e in mine})
run = json.load(open("ranks/run.json"))
assert "-n 3" in run["origin"]["command"], run["origin"]
PYTHON
fi
exit 0

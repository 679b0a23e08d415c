#!/bin/bash
# `--schedule auto` on the command line: what it takes has the bits of the schedule by its name, and is told. So is the order
# of sums, which a run may have to choose.
# test_schedule.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# run NAME FLAGS…
run()
{
    local name=$1
    shift
    timeout 120 "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 3 --lr 3e-3 \
        --accumulate 3 --allow-buffered-swap --output "$name" "$@" >"$name.out" 2>"$name.err" ||
        fail "$name: ended with $?: $(head -3 "$name.err")"
}

# same A B; columns of both logs, and weights
same()
{
    cmp -s <(sed 's/,"lr".*//' "$1/metrics.jsonl") <(sed 's/,"lr".*//' "$2/metrics.jsonl") || fail "$1 and $2: other losses"
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || fail "$1 and $2: other weights"
}

# told NAME SCHEDULE REASON: in the table and in run.json
told()
{
    grep -qxF "  schedule: $2, as $3" "$1.out" || fail "$1: the table does not say $2, as $3: $(cat "$1.out")"
    grep -qxF "  \"schedule\": \"$2\"," "$1/run.json" && grep -qxF "  \"schedule_reason\": \"$3\"," "$1/run.json" ||
        fail "$1: run.json does not say $2, as $3: $(grep schedule "$1/run.json")"
}

run auto --schedule auto --offload-param nvme
told auto vertical "parameters are read once a step, not once a micro-batch"
run vertical --schedule vertical --offload-param nvme
same auto vertical
grep -q '"schedule_reason": null' vertical/run.json || fail "a schedule that was given has a reason"
grep -q '^  schedule:' vertical.out && fail "a schedule that was given is explained"

run plain --schedule auto
told plain horizontal "parameters are neither read nor gathered"
run horizontal
same plain horizontal

run kept --schedule auto --offload-param nvme --recompute off
told kept horizontal "vertical does not go with --recompute off"

if command -v mpirun >/dev/null; then
    run ranks --schedule auto -n 2 --stage 3
    told ranks vertical "parameters are gathered once a step, not once a micro-batch"
    run last -n 2 --stage 1 --reduce last
    same ranks last
    run every -n 2 --stage 3
    cmp -s ranks/model.safetensors every/model.safetensors && fail "the vertical schedule sums like --reduce every"
fi

# Where gradients leave memory they are summed every micro-batch, and the run says so; what is asked for stands.
reduces()
{
    grep -qxF "  \"reduce\": \"$2\"," "$1/run.json" || fail "$1: not --reduce $2: $(grep reduce "$1/run.json")"
}
run memory --precision bf16
reduces memory last
run swapped --precision bf16 --offload-optimizer nvme
reduces swapped every
run memory_every --precision bf16 --reduce every
same swapped memory_every
run swapped_last --precision bf16 --offload-optimizer nvme --reduce last
reduces swapped_last last
same swapped_last memory
"$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --accumulate 3 --allow-buffered-swap --output no \
    --offload-gradients nvme --reduce last 2>err && fail "gradients on NVMe are summed once a step"
grep -q "^zinc train: --reduce last: gradients on NVMe are summed every micro-batch" err || fail "refused as: $(cat err)"

"$zinc" plan --model "$data/gpt2" --cluster cpu-server --ranks 2 --stage 3 --accumulate 3 --schedule auto --json >out 2>err ||
    fail "plan: $(cat err)"
grep -q '"schedule":"vertical"' out || fail "plan: $(grep -o '"schedule":"[a-z]*"' out)"
"$zinc" plan --model "$data/gpt2" --cluster cpu-server --ranks 2 --stage 3 --schedule auto --json >out 2>err
grep -q '"schedule":"horizontal"' out || fail "plan of one micro-batch: $(grep -o '"schedule":"[a-z]*"' out)"

exit $((failures > 0))

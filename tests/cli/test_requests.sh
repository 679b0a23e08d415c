#!/bin/bash
# ZINC_REQUEST_LOG: every kind of request of every rank has its line, collectives come alike on all ranks, and a log that cannot be
# written ends the job. test_requests.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ZINC_ALLOW_OVERSUBSCRIPTION=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# train PREFIX FLAGS…
train()
{
    ZINC_REQUEST_LOG=$1 "$zinc" train --model "$data/llama2" --data "$data/tokens.bin" --steps 3 --seq-len 16 -n 2 --threads 1 \
        --persist-below 0 --offload-optimizer nvme --allow-buffered-swap --output run --overwrite "${@:2}" >out 2>err
}

# count PATTERN FILE
count()
{
    grep -cE "^[0-9]+ $1" "$2"
}

train "$work/three" --stage 3 --offload-param nvme || fail "stage 3: $(cat err)"
for rank in 0 1; do
    log=$work/three.$rank
    # Two blocks, the embedding and the head, in three steps.
    [ "$(count 'reduce gradients, unit [0-3]: [0-9]+ as bf16$' "$log")" = 12 ] || fail "rank $rank: reductions: $(cat "$log")"
    for kind in "gather parameters, unit [0-3]: [0-9]+ as bytes$" "exchange: [0-9]+$" "read at [0-9]+: [0-9]+$" \
        "write at [0-9]+: [0-9]+$"; do
        [ "$(count "$kind" "$log")" -gt 0 ] || fail "rank $rank: no '$kind': $(cat "$log")"
    done
    sed -nE 's/^[0-9]+ ((gather|reduce|exchange).*)/\1/p' "$log" >collectives.$rank
done
cmp -s collectives.0 collectives.1 || fail "collectives differ: $(diff collectives.0 collectives.1)"

train "$work/zero" --stage 0 --offload-gradients none --precision fp32 || fail "stage 0: $(cat err)"
[ "$(count 'gather gradients, unit [0-3]: ' "$work/zero.0")" = 12 ] || fail "gathers of gradients: $(cat "$work/zero.0")"

train /nowhere/log --stage 3
[ $? = 1 ] || fail "a log that cannot be written: $(cat err)"
grep -q "/nowhere/log.0: cannot write the log of requests: No such file" err || fail "its words: $(cat err)"
exit $((failures > 0))

#!/bin/bash
# Under limits of the process itself (`ulimit -v`, `ulimit -d`) a run fits into them, with the same losses, or says that it cannot
# and how large they must be; it never waits for memory that does not come. test_address_space.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
grep -qaE '__(asan|tsan)_init' "$zinc" && { echo "skipped: sanitizers map terabytes"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive ZINC_ALLOW_OVERSUBSCRIPTION=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# train NAME FLAGS…: leaves the code; 137 where it hangs
train()
{
    timeout -s KILL 60 "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --steps 3 --threads 2 \
        --output "$1" "${@:2}" >"$1.out" 2>"$1.err"
}

columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# runs NAME CODE: it worked, with the losses of a run without limits
runs()
{
    [ "$2" = 0 ] || fail "$1: code $2: $(cat "$1.err")"
    cmp -s <(columns free) <(columns "$1") || fail "$1: other losses than without a limit"
}

# refused NAME CODE: before anything was done, naming the limit
refused()
{
    [ "$2" = 1 ] || fail "$1: code $2: $(cat "$1.err")"
    grep -q '^zinc.*`ulimit -[vd]`.*raise' "$1.err" || fail "$1: says $(cat "$1.err")"
    [ -e "$1/metrics.jsonl" ] && fail "$1: training began"
}

train free || fail "without a limit: $(cat free.err)"
for kind in v d; do
    for kib in 60000 150000 300000 340000 400000 500000 600000; do
        (ulimit -$kind $kib && train $kind-$kib)
        code=$?
        if [ $code = 0 ]; then runs $kind-$kib $code; else refused $kind-$kib $code; fi
    done
    (ulimit -$kind 2000000 && train $kind-enough)
    runs $kind-enough $?
done
refused v-60000 1
(ulimit -v 60000 && timeout -s KILL 60 "$zinc" --version >version.out 2>version.err)
[ $? = 0 ] || fail "--version under a limit: $(cat version.err)"

# The limit counts in the plan, also where --memory-limit says more.
bytes=$(sed -n 's/.*"memory_limit": \([0-9]*\),.*/\1/p' v-enough/run.json)
[ "$bytes" -lt 2000000000 ] || fail "a memory limit of $bytes under a limit of 2000000 KiB"
(ulimit -v 2000000 && train v-given --memory-limit 8GiB)
runs v-given $?
grep -q -- '--memory-limit 8.00 GiB: `ulimit -v` or `ulimit -d` leaves no more than' v-given.err || fail "v-given: $(cat v-given.err)"
(ulimit -v 700000 && train v-long --micro-batch 60000)
refused v-long $?
if command -v mpirun >/dev/null; then
    (ulimit -v 3000000 && train v-ranks -n 2)
    [ $? = 0 ] || fail "two ranks: $(cat v-ranks.err)"
fi

exit $((failures > 0))

#!/bin/bash
# Jobs of processes on one node: every check on 1 to 4 ranks and in groups of 4 and 6, the ends of failing jobs, what
# waiting costs, and large messages. ZINC_TEST_LARGE=1 makes those larger than 2^31 bytes.
# test_mpi.sh ZINC SOURCE BUILD
program=$3/tests/comm_mpi
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI leaves memory behind when it ends; test_threads.c looks for leaks of ours.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# Ranks on the launcher's own machine, whatever the cores; no other network is looked for.
run()
{
    local seconds=$1 ranks=$2
    shift 2
    timeout -k 5 "$seconds" mpirun --oversubscribe --bind-to none --mca btl vader,self,tcp -n "$ranks" \
        "$@" >"$work/out" 2>&1
}

# wrong TEXT: says so, with what the job printed.
wrong()
{
    echo "$1"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# works RANKS ARGUMENTS…
works()
{
    local ranks=$1
    shift
    run 240 "$ranks" "$program" "$@" || wrong "comm_mpi $* on $ranks ranks: code $?"
    grep -q "done: $ranks ranks" "$work/out" || wrong "comm_mpi $* on $ranks ranks did not say done"
}

# ended_soon: at most 10 seconds after rank 1 began to fail, mpirun included.
ended_soon()
{
    local at
    at=$(sed -n 's/^fails at //p' "$work/out")
    [ -n "$at" ] && [ $(($(date +%s) - at)) -le 10 ]
}

# The job must end by itself, with a code that is not 0 and the message. A rank that learns of the
# failure after more than 5 seconds says something else.
# ends TEXT RANKS [mpirun's FLAGS…] -- ARGUMENTS…
ends()
{
    local text=$1 ranks=$2 flags=() code
    shift 2
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    run 60 "$ranks" "${flags[@]}" "$program" "$@"
    code=$?
    ended_soon || wrong "$* on $ranks ranks ends late or never"
    # With recovery mpirun itself forgives.
    [ $code -ne 0 ] || [ ${#flags[@]} -gt 0 ] || wrong "$* on $ranks ranks: code 0"
    grep -q "$text" "$work/out" || wrong "$* on $ranks ranks does not say: $text"
}

# fails HOW RANKS TEXT [mpirun's FLAGS…]
fails()
{
    local how=$1 ranks=$2 text=$3
    shift 3
    ends "$text" "$ranks" "$@" -- fail "$how"
}

for ranks in 1 2 3 4; do
    works $ranks all
done
works 4 groups 2 1 2
works 4 groups 2 2 1
works 6 groups 2 1 3
works 3 wait
works 2 nodes 1
works 2 large 16MiB
if [ "${ZINC_TEST_LARGE:-0}" = 1 ]; then
    if [ "$(awk '/MemAvailable/ {print $2}' /proc/meminfo)" -gt $((16 * 1024 * 1024)) ]; then
        works 2 large 2200MiB
    else
        echo "not run: messages above 2^31 bytes need 16 GiB"
    fi
fi

# With recovery mpirun does not end the others, so what they say is what they found themselves.
for ranks in 2 4; do
    fails exit $ranks "on rank 0: rank 1 died" --enable-recovery
    fails kill $ranks "on rank 0: rank 1 died" --enable-recovery
done
fails exit 3 .
fails kill 3 .
fails abort 3 "rank 1: the disk is gone"
fails agree 3 "on rank 0: rank 1: bad file"
fails disagree 2 "ranks disagree: rank 0 asks .* unit 20.* rank 1 asks .* unit -1"


# A failure in one group is heard by ranks that are in another.
ends "on rank 3: rank 1 died" 4 --enable-recovery -- fail-group kill 2 1 2
ends "on rank 5: rank 1: the disk is gone" 6 -- fail-group abort 2 1 3
ends "on rank 2: ranks disagree: rank 0 asks .* of group tensor .* unit 10.* rank 1 asks .* unit -1" 4 -- fail-group disagree 2 1 2

exit $((failures > 0))

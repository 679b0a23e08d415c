#!/bin/bash
# Ranks of one machine run on processors of their own, within the mask they were started with.
# test_binding.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
command -v taskset >/dev/null || { echo "skipped: no taskset"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
unset ZINC_BIND OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY
mpi=(mpirun --oversubscribe --bind-to none)

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# numbers LIST: each processor of "0-3,8" on a line
numbers()
{
    local part
    for part in ${1//,/ }; do
        seq "${part%-*}" "${part#*-}"
    done
}

mask=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
mapfile -t processors < <(numbers "$mask")
# The first processor, and the first of another core.
first=${processors[0]}
siblings=$(cat "/sys/devices/system/cpu/cpu$first/topology/thread_siblings_list" 2>/dev/null || echo "$first")
second=$(printf '%s\n' "${processors[@]}" | grep -vxF "$(numbers "$siblings")" | head -1)
[ -n "$second" ] || { echo "skipped: this process may run on one core only"; exit 77; }

words=("$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --steps 100000000 --overwrite
    --output "$work/out")

# of_job: the ranks that run at present, mpirun and taskset left out
of_job()
{
    pgrep -f -- "^$zinc train .*--output $work/out"
}

# masks COMMAND…: starts a job of two ranks; the mask of each while it trains, into ${masks[@]}, the list of its
# threads' masks that are not the same into $strange, its threads into $threads
masks()
{
    local job i rank ranks
    rm -rf out
    "$@" >job.out 2>&1 &
    job=$!
    for ((i = 0; i < 300; i++)); do
        grep -q '^{"step":20,' out/metrics.jsonl 2>/dev/null && break
        sleep 0.1
    done
    ((i < 300)) || fail "training did not begin: $(cat job.out)"
    mapfile -t ranks < <(of_job | grep -vx $job)
    masks=() strange=
    for rank in "${ranks[@]}"; do
        masks+=("$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$rank/status")")
        strange+=$(sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$rank/task/"*/status | grep -vx "${masks[-1]}")
    done
    threads=$(sed -n 's/.*"threads": \([0-9]*\).*/\1/p' out/run.json)
    kill -TERM $job 2>/dev/null
    wait $job
    ((${#masks[@]} == 2)) || fail "${#masks[@]} ranks, not 2: $(cat job.out)"
}

# inside LIST LIST: every processor of the first is in the second
inside()
{
    ! numbers "$1" | grep -qvxF "$(numbers "$2")"
}

masks "${words[@]}" -n 2
[ -z "$(numbers "${masks[0]}" | grep -xF "$(numbers "${masks[1]}")")" ] || fail "ranks share processors: ${masks[*]}"
inside "${masks[0]}" "$mask" && inside "${masks[1]}" "$mask" || fail "ranks left the mask $mask: ${masks[*]}"
[ -z "$strange" ] || fail "threads run elsewhere than their rank (${masks[*]}): $strange"

ZINC_BIND=off masks "${words[@]}" -n 2 --threads 1
[ "${masks[*]}" = "$mask $mask" ] || fail "ZINC_BIND=off: ${masks[*]}, not $mask"

masks taskset -c "$first" "${words[@]}" -n 2
[ "${masks[*]}" = "$first $first" ] || fail "a mask of one processor, $first: ${masks[*]}"

# A launcher that has given each rank its own half: all of it is used.
half=$((${#processors[@]} / 2))
left=$(IFS=,; echo "${processors[*]:0:half}") right=$(IFS=,; echo "${processors[*]:half}")
one=(taskset -c "$left" "${words[@]}") two=(taskset -c "$right" "${words[@]}")
masks "${mpi[@]}" -n 1 "${one[@]}" : -n 1 "${two[@]}"
[ "$(numbers "${masks[*]}" | sort -n | xargs)" = "${processors[*]}" ] ||
    fail "ranks that were bound to $left and $right: ${masks[*]}"
cores=$(taskset -c "$left" "$zinc" doctor --json | sed 's/.*"cores":\([0-9]*\).*/\1/')
[ "$threads" = "$cores" ] || fail "a rank of $cores cores has $threads threads"

taskset -c "$first" "${words[@]}" --threads 2 >mask.out 2>mask.err
code=$?
[ $code = 2 ] && grep -q 'zinc train: --threads 2: this process may run on 1 processors' mask.err ||
    fail "--threads 2 with one processor: code $code: $(cat mask.err)"

"$zinc" doctor | grep -q '^binding .*would run on processors [0-9]' || fail "doctor: $("$zinc" doctor | grep binding)"
ZINC_BIND=off "$zinc" doctor | grep -q '^binding .*off: ZINC_BIND=off$' || fail "doctor does not see ZINC_BIND=off"

exit $((failures > 0))

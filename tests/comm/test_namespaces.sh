#!/bin/bash
# One job on two "hosts": network namespaces with host names of their own, joined by a veth pair.
# Nothing is shared between them but TCP. Needs root, or it is skipped.
# test_namespaces.sh ZINC SOURCE BUILD
program=$3/tests/comm_mpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI leaves memory behind when it ends; test_threads.c looks for leaks of ours.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0
skip()
{
    echo "skipped: $1"
    exit 77
}
for tool in mpirun ip unshare hostname; do
    command -v $tool >/dev/null || skip "no $tool"
done

# The name of an interface has at most 15 characters.
first=zn$$a second=zn$$b
network=10.$((RANDOM % 200 + 20)).$((RANDOM % 250))
work=$(mktemp -d)
cleanup()
{
    ip netns del $first 2>/dev/null
    ip netns del $second 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
{
    ip netns add $first && ip netns add $second &&
        ip link add $first netns $first type veth peer name $second netns $second &&
        ip -n $first addr add $network.1/24 dev $first && ip -n $second addr add $network.2/24 dev $second &&
        ip -n $first link set $first up && ip -n $second link set $second up &&
        ip -n $first link set lo up && ip -n $second link set lo up
} 2>"$work/why" || skip "no network namespaces here: $(tail -1 "$work/why")"

# enter NAMESPACE COMMAND…: on that host. mpirun tells hosts apart by their names.
cat >"$work/enter" <<'END'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$1"; shift; exec sh -c "$*"' sh "$host" "$@"
END
# What mpirun takes for ssh: AGENT ADDRESS COMMAND…
cat >"$work/agent" <<END
#!/bin/sh
shift
exec "$work/enter" $second "\$@"
END
chmod +x "$work/enter" "$work/agent"
"$work/enter" $first true 2>"$work/why" || skip "no host names in namespaces here: $(tail -1 "$work/why")"

failures=0
wrong()
{
    echo "$1"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# run SECONDS SLOTS-ON-FIRST SLOTS-ON-SECOND ARGUMENTS…: ranks in turn on both hosts.
run()
{
    local seconds=$1 a=$2 b=$3
    shift 3
    timeout -k 5 "$seconds" "$work/enter" $first mpirun --bind-to none --map-by node \
        --host "$network.1:$a,$network.2:$b" -n $((a + b)) \
        --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include "$network.0/24" \
        --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include "$network.0/24" \
        "$program" "$@" >"$work/out" 2>&1
}

# works SLOTS SLOTS ARGUMENTS…
works()
{
    run 300 "$@" || wrong "comm_mpi $*: code $?"
    grep -q "done: $(($1 + $2)) ranks" "$work/out" || wrong "comm_mpi $* did not say done"
}

# The job must end within 10 seconds of the failure, with a code that is not 0 and the message.
# ends TEXT SLOTS SLOTS ARGUMENTS…
ends()
{
    local text=$1 at code
    shift
    run 60 "$@"
    code=$?
    at=$(sed -n 's/^fails at //p' "$work/out")
    { [ -n "$at" ] && [ $(($(date +%s) - at)) -le 10 ]; } || wrong "comm_mpi $* ends late or never"
    [ $code -ne 0 ] || wrong "comm_mpi $*: code 0"
    grep -q "$text" "$work/out" || wrong "comm_mpi $* does not say: $text"
}

# fails SLOTS SLOTS HOW TEXT
fails()
{
    ends "$4" "$1" "$2" fail "$3"
}

run 60 1 1 nodes 2
code=$?
if [ $code -ne 0 ] && ! grep -q "on rank\|cannot start" "$work/out"; then
    cat "$work/out"
    skip "mpirun does not reach the second namespace"
fi
works 1 1 nodes 2
works 1 1 all
works 2 1 all
works 2 2 all
works 1 1 wait
works 1 1 large 144MiB

# Ranks lie on both hosts in turn. With two of them several groups have the same ranks; with 2 × 2 the tensor groups cross the
# network and the data groups do not; with 2 × 3 on four and two all do.
works 1 1 groups 2 1 1
works 2 2 groups 2 1 2
works 2 2 groups 2 2 1
works 4 2 groups 2 1 3
ends "on rank 2: rank 1: the disk is gone" 2 2 fail-group abort 2 1 2
ends "on rank 0: ranks disagree: rank 0 asks .* of group tensor .* unit 10.* rank 1 asks .* unit -1" 2 2 fail-group disagree 2 1 2

# Rank 1 is alone on the second host with two ranks, and has a peer there with four.
fails 1 1 kill .
fails 2 2 kill "rank 1 died\|signal 9"
fails 1 1 abort "on rank 0: rank 1: the disk is gone"
fails 2 2 abort "on rank 0: rank 1: the disk is gone"
fails 2 1 agree "on rank 0: rank 1: bad file"
fails 1 1 disagree "ranks disagree: rank 0 asks .* unit 20.* rank 1 asks .* unit -1"
fails 2 2 disagree "ranks disagree: rank"

exit $((failures > 0))

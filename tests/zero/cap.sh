# Running a command under a real memory limit. Sourced by tests.

# cap_available: whether a memory control group can be made here.
cap_available()
{
    local group
    group=$(cap_make) || return 1
    rmdir "$group"
}

# cap_make: makes a group and prints its folder.
cap_make()
{
    local root group
    for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        group=$root/zinc-test-$$-$RANDOM
        [ -e "$root/memory.limit_in_bytes" ] || grep -qw memory "$root/cgroup.subtree_control" 2>/dev/null || continue
        mkdir "$group" 2>/dev/null || continue
        if [ -w "$group/memory.limit_in_bytes" ] || [ -w "$group/memory.max" ]; then
            echo "$group"
            return 0
        fi
        rmdir "$group"
    done
    return 1
}

# cap_run MIB COMMAND…: runs it with page cache and all within MIB; $cap_peak is the most it used, in MiB.
cap_run()
{
    local limit=$(($1 << 20)) group code
    shift
    group=$(cap_make) || return 125
    if [ -e "$group/memory.limit_in_bytes" ]; then
        echo $limit >"$group/memory.limit_in_bytes"
        echo 0 >"$group/memory.swappiness" 2>/dev/null
    else
        echo $limit >"$group/memory.max"
        echo 0 >"$group/memory.swap.max" 2>/dev/null
    fi
    bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
    code=$?
    cap_peak=$(cat "$group/memory.max_usage_in_bytes" "$group/memory.peak" 2>/dev/null | head -1)
    cap_peak=$((${cap_peak:-0} >> 20))
    for _ in 1 2 3 4 5 6 7 8 9 10; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done
    return $code
}

#!/bin/bash
# `zinc bench`: the measurements there are, those there are not, and what `bench io` prints.
# test_bench.sh ZINC SOURCE BUILD
zinc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE WORDS… -- what standard output and standard error hold is left in $work.
expect()
{
    local code=$1 got
    shift
    "$zinc" "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" != "$code" ]; then
        echo "zinc $*: exit code $got, not $code"
        cat "$work/err"
        failures=$((failures + 1))
    fi
}

# holds FILE TEXT
holds()
{
    if ! grep -qF -- "$2" "$work/$1"; then
        echo "standard $1 does not hold '$2' but:"
        cat "$work/$1"
        failures=$((failures + 1))
    fi
}

expect 0 bench --help
holds out "measurements:"
for name in $(sed -n 's/^not in this build: //p' "$work/out" | tr -d ,); do
    expect 2 bench "$name" --json
    holds err "zinc bench: \`zinc bench $name\`: not in this build"
done
expect 2 bench
holds err "zinc bench: which one?"
expect 2 bench oi
holds err "zinc bench: unknown measurement oi"
expect 0 bench io --help
holds out "usage: zinc bench io"
expect 2 bench io --sise 1GiB
holds err "zinc bench io: unknown flag --sise, did you mean --size"
expect 2 bench io --size 1MiB
holds err "zinc bench io: --size: 1048576 bytes are too few"
expect 1 bench io --nvme-path "$work/none"
holds err "zinc bench io: $work/none: cannot make a swap file here: No such file or directory"
ZINC_STORAGE_FAULT=9:EIO expect 1 bench io --nvme-path "$work" --size 128MiB --allow-buffered-swap
holds err "zinc bench io: $work: cannot "
holds err "Input/output error"

# One update for each line, and its seconds.
printf 'fp32\nbf16\nfp32-streams\nbf16-streams\nfp32\n' |
    "$zinc" bench adam --elements 100000 --threads 1 --on-request >"$work/out" 2>"$work/err" ||
    { echo "bench adam --on-request: $(cat "$work/err")"; failures=$((failures + 1)); }
python3 - "$work/out" <<'PYTHON' || failures=$((failures + 1))
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r["kind"] for r in rows] == ["fp32", "bf16", "fp32-streams", "bf16-streams", "fp32"], rows
assert all(r["seconds"] > 0 for r in rows), rows
PYTHON
expect 2 bench adam --elements 100000 --on-request <<<fp64
holds err "zinc bench adam: --on-request: 'fp64' is not one of: fp32 fp32-streams bf16 bf16-streams"

mkdir "$work/a" "$work/b"
expect 0 bench io --nvme-path "$work/a" "$work/b" --size 64MiB --rounds 2 --json --allow-buffered-swap
python3 - "$work/out" "$work/a" "$work/b" "$(command -v fio)" <<'PYTHON' || failures=$((failures + 1))
import json, sys
found = json.load(open(sys.argv[1]))
assert found["benchmark"] == "io" and found["cpu"] and found["cores"] >= 1 and found["kernel"], found
assert found["paths"] == sys.argv[2:4] and found["bytes"] == 64 << 20 and found["rounds"] == 2, found
assert "2 paths, blocks of " in found["storage"], found
assert (found["fio"] is not None) == bool(sys.argv[4]), found
for mode in "read", "write", "mixed":
    figure = found[mode]
    assert figure["bytes_per_second"] > 0, figure
    if found["fio"] is None:
        assert figure["fio"] is None and figure["ratio"] is None and figure["best_ratio"] is None, figure
    else:
        assert figure["best_fio"] >= figure["fio"] > 0 and figure["ratio"] > 0 and figure["best_ratio"] > 0, figure
        assert figure["best_fio_depth"] in (1, 8, 32), figure
PYTHON

# Without fio there is nothing to compare with, and it says so.
mkdir "$work/bin"
expect 0 bench io --nvme-path "$work" --size 64MiB --rounds 1 --allow-buffered-swap
PATH=$work/bin expect 0 bench io --nvme-path "$work" --size 64MiB --rounds 1 --allow-buffered-swap
holds out "fio is not on PATH"
[ -z "$(find "$work" -name '*swap*')" ] || { echo "a swap file is left"; failures=$((failures + 1)); }
exit $((failures > 0))

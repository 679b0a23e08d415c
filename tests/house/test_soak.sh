#!/bin/bash
# The soak run works: a handful of its configurations, kills and faults, and the replay of one of them.
# test_soak.sh ZINC SOURCE BUILD
set -u
library=$3/tests/libfail_sites.so
[ -e "$library" ] || { echo "skipped: no $library"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

# soak FLAGS…
soak()
{
    PYTHONDONTWRITEBYTECODE=1 python3 "$2/tests/soak/soak.py" --zinc "$1" --source "$2" --library "$library" --kept "$work" \
        --minutes 0 --seed 1 "${@:3}" >"$work/out" 2>&1 && return
    echo "FAIL: $(cat "$work/out")"
    failures=$((failures + 1))
}

soak "$1" "$2"
grep -q "^seed 1: [5-9] configurations, [0-9]* refused, [1-9][0-9]* kills, [1-9][0-9]* faults" "$work/out" ||
    { echo "FAIL: the counts: $(tail -1 "$work/out")"; failures=$((failures + 1)); }
tail -1 "$work/out"
soak "$1" "$2" --only 0
grep -q "^seed 1: 1 configurations, 0 refused, 0 kills, 0 faults" "$work/out" ||
    { echo "FAIL: the replay: $(tail -1 "$work/out")"; failures=$((failures + 1)); }
exit $((failures > 0))

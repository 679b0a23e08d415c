#!/bin/bash
# The soak run works: a handful of its configurations, kills and faults, the replay of one of them, and a program whose
# configurations differ from their references is found out. test_soak.sh ZINC SOURCE BUILD
set -u
zinc=$1 source_folder=$2 library=$3/tests/libfail_sites.so
[ -e "$library" ] || { echo "skipped: no $library"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# soak ZINC FLAGS…: its words are in $work/out
soak()
{
    local program=$1
    shift
    PYTHONDONTWRITEBYTECODE=1 python3 "$source_folder/tests/soak/soak.py" --zinc "$program" --source "$source_folder" \
        --library "$library" --kept "$work/kept" --minutes 0 --seed 1 "$@" >"$work/out" 2>&1
}

soak "$zinc" || fail "a handful: $(cat "$work/out")"
grep -q "^seed 1: 5 configurations, [0-9]* refused, [1-9][0-9]* kills, 1 faults" "$work/out" ||
    fail "the counts: $(tail -1 "$work/out")"
grep "^seed 1: " "$work/out"
[ -e "$work/kept" ] && [ -n "$(ls "$work/kept")" ] && fail "something is kept: $(ls "$work/kept")"

soak "$zinc" --only 0 || fail "the replay: $(cat "$work/out")"
grep -q "^seed 1: 1 configurations, 0 refused, 0 kills, 0 faults" "$work/out" || fail "the replay: $(tail -1 "$work/out")"

# Configurations name folders for swap, references do not.
mkdir "$work/other"
cat >"$work/other/zinc" <<END
#!/bin/bash
case " \$* " in *" --nvme-path "*) set -- "\${@/#3e-3/4e-3}" ;; esac
exec "$zinc" "\$@"
END
chmod +x "$work/other/zinc"
soak "$work/other/zinc" --only 0 && fail "other weights were not found: $(cat "$work/out")"
grep -q "FINDING 0 (configuration): .*differ\|FINDING 0 (configuration): step" "$work/out" || fail "other weights: $(cat "$work/out")"
grep -q "make soak SEED=1 ONLY=0 " "$work/out" || fail "no word on the replay: $(cat "$work/out")"
[ -s "$work/kept/1/0/commands" ] || fail "no commands are kept"
exit $((failures > 0))

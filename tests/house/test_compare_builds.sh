#!/bin/bash
# bench/compare_builds.sh finds no difference between a program and itself, and each of those planted here: other losses, other
# requests, another last digit of simulated seconds, another exit code. test_compare_builds.sh ZINC SOURCE BUILD
set -u
zinc=$1 source_folder=$2 build=$3
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

# compare NEW FLAGS…: its words are in $work/out
compare()
{
    "$source_folder/bench/compare_builds.sh" "$zinc" "$@" >"$work/out" 2>&1
}

# plant NAME: a program of that name from the lines that come in; $zinc is the real one
plant()
{
    mkdir "$work/$1"
    { echo "#!/bin/bash"; echo "zinc='$zinc'"; cat; } >"$work/$1/zinc"
    chmod +x "$work/$1/zinc"
}

# finds NAME CONFIGURATION TEXT: the planted program differs there, and the words have TEXT
finds()
{
    compare "$work/$1" --only "$2"
    [ $? = 1 ] || fail "$1: not found: $(cat "$work/out")"
    grep -q "^DIFFERENCE $2: " "$work/out" || fail "$1: no name: $(cat "$work/out")"
    grep -q "^  new runs: .*$work/$1/zinc " "$work/out" || fail "$1: no command: $(cat "$work/out")"
    grep -q "^  new has:  $3" "$work/out" || fail "$1: no '$3': $(cat "$work/out")"
    grep -q "^1 configurations, 1 compared ([0-9]* lines, [01] failing), 1 differences$" "$work/out" || fail "$1: $(tail -1 "$work/out")"
}

compare "$build" --quick || fail "a program and itself: $(cat "$work/out")"
grep -q "^8 configurations, 8 compared ([1-9][0-9]* lines, 0 failing), 0 differences$" "$work/out" ||
    fail "the counts: $(cat "$work/out")"

# A run that is not gone on with: what is planted below comes after it.
compare "$build" --list
run=$(sed -n '/^training-.*goes on no/{s/:.*//p;q}' "$work/out")


# The list holds every pair of values that can be had together.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$source_folder/bench/builds:$source_folder/tests/soak python3 <<'END' || fail "the list"
import itertools, random
import covering, training
rows, n_missing = training.rows(False), 0
assert 60 <= len(rows) <= 100, len(rows)
for pair in itertools.combinations(training.FACTORS, 2):
    for values in itertools.product(*map(training.FACTORS.get, pair)):
        wanted = dict(zip(pair, values))
        if not any(wanted.items() <= row.items() for row in rows):
            assert not covering.complete(random.Random(0), training.FACTORS, training.RULES, wanted), wanted
            n_missing += 1
assert n_missing == 12, n_missing
END

plant seed <<'END'
set -- "${@/#--seed/--warmup}" # the seed is then 1
exec "$zinc" "$@"
END
finds seed "$run" "step 1, loss: "

plant requests <<'END'
"$zinc" "$@" || exit
[ ! -e "$ZINC_REQUEST_LOG.0" ] || sed -i '3{h;d};4{G}' "$ZINC_REQUEST_LOG.0"
END
finds requests "$run" "requests-0.0, first thread, request 2: "

plant states <<'END'
"$zinc" "$@" || exit
for file in run/checkpoints/*/optimizer-*; do [ ! -e "$file" ] || printf x | dd of="$file" bs=1 seek=999 conv=notrunc status=none; done
END
finds states "$run" "file checkpoints/step-[0-9]*/optimizer-"

plant digit <<'END'
[ "$1" = plan ] || exec "$zinc" "$@"
"$zinc" "$@" | sed -E 's/("simulated":.*"step":[0-9.e-]*)/\13/'
END
finds digit plan-0 "simulated.step: "

plant code <<'END'
"$zinc" "$@"
[ "$1" != plan ] || exit 1
END
finds code plan-0 "exit code: 1"

# A program without the log: all else is compared, and it is said.
plant silent <<'END'
unset ZINC_REQUEST_LOG
exec "$zinc" "$@"
END
compare "$work/silent" --only "$run" || fail "a program without a log: $(cat "$work/out")"
grep -q "^new: $work/silent/zinc writes no log of requests: sequences of requests are not compared$" "$work/out" ||
    fail "no word on the sequences: $(cat "$work/out")"

compare "$work/nothing"
[ $? = 2 ] || fail "a name that means nothing: $(cat "$work/out")"
grep -q "'$work/nothing' is no program, no build folder and no revision" "$work/out" || fail "its words: $(cat "$work/out")"
exit $((failures > 0))

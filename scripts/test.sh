#!/bin/bash
# The tests: `release`, every test of the release build (the default), and `sanitize`, clang with address and
# undefined-behaviour sanitizers and the fuzzers, then the threaded tests under the thread sanitizer. All builds are run even
# when one fails; the last line is "N passed, N failed, N skipped" over all of them.
#
#   scripts/test.sh [release] [sanitize]
set -u
cd "$(dirname "$0")/.." || exit
jobs=${JOBS:-$(nproc)}
results=()

# Several test programs share the cores, so threads that wait must sleep, not spin.
export OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1

# run PRESET FOLDER TARGET CTEST-ARGUMENTS…
run()
{
    local preset=$1 folder=$2 target=$3 junit
    shift 3
    junit=$PWD/$folder/junit-$preset.xml
    results+=("$preset=$junit")
    echo "== $preset"
    mkdir -p "$folder"
    rm -f "$junit"
    cmake --preset "$preset" --log-level=WARNING >/dev/null || return
    cmake --build "$folder" -j "$jobs" --target "$target" || return
    ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=ignore \
        --test-output-size-passed 1000000 --test-output-size-failed 1000000 \
        --output-junit "$junit" "$@"
}

for part in "${@:-release}"; do
    case $part in
    release) run release build all ;;
    sanitize)
        run asan-ubsan build/asan-ubsan all -LE 'slow|parity|house|once'
        run tsan build/tsan threaded_tests -L threads
        ;;
    *) echo "usage: scripts/test.sh [release] [sanitize]" >&2; exit 2 ;;
    esac
done
exec python3 scripts/summary "${results[@]}"

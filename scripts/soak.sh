#!/bin/bash
# Random configurations, kills, faults and fuzzers for MINUTES, from SEED; ONLY="INDEX…" replays findings. Findings stay in
# build/soak. docs/testing.md says more.
set -u
cd "$(dirname "$0")/.." || exit
command -v python3 >/dev/null || { echo "soak skipped: there is no python3"; exit 0; }
nice cmake --build build -j "${JOBS:-2}" --target fail_sites >/dev/null || exit
words=(--zinc build/zinc --source . --library build/tests/libfail_sites.so --kept build/soak --minutes "${MINUTES:-10}")

# The fuzzers need clang; the rest does without.
if [ "${MINUTES:-10}" = 0 ]; then
    echo "no fuzzers in a run without minutes"
elif command -v clang >/dev/null; then
    fuzzers=$(cd tests/fuzz && echo fuzz_*.c)
    cmake --preset asan-ubsan --log-level=WARNING >/dev/null &&
        nice cmake --build build/asan-ubsan -j "${JOBS:-2}" --target ${fuzzers//.c/} >/dev/null &&
        words+=(--fuzzers build/asan-ubsan/tests)
else
    echo "no fuzzers: there is no clang"
fi
[ -n "${SEED:-}" ] && words+=(--seed "$SEED")
[ -n "${ONLY:-}" ] && words+=(--only $ONLY)
exec python3 tests/soak/soak.py "${words[@]}"

#!/bin/bash
# Runs every benchmark: the programs built from bench/bench_*.c, then the scripts bench/bench_*.sh,
# which get the path of the program. Each prints JSON with the machine and the measured limit.
set -eu
cd "$(dirname "$0")/.."
shopt -s nullglob
programs=(build/bench/bench_*)
scripts=(bench/bench_*.sh)
if [ $((${#programs[@]} + ${#scripts[@]})) = 0 ]; then
    echo "bench: there are no benchmarks in this version" >&2
    exit 1
fi
for program in "${programs[@]}"; do
    echo "== ${program##*/}" >&2
    "$program"
done
for script in "${scripts[@]}"; do
    echo "== ${script##*/}" >&2
    bash "$script" build/zinc "$@"
done

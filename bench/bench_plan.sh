#!/bin/bash
# What `zinc plan --simulate` predicts of runs on this machine beside the runs. usage: bench_plan.sh PROGRAM [--quick]
cd "$(dirname "$0")/.." || exit
exec python3 bench/compare_plan.py --zinc "$1" "${@:2}"

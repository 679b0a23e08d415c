#!/bin/bash
# A sample of the fault sweep: an error at call sites for storage, files and memory of a short run, each of which ends with a
# cause or goes on, and leaves what was saved whole. `make faults` takes every site.
# test_fault_sweep.sh ZINC SOURCE BUILD
set -u
library=$3/tests/libfail_sites.so
[ -e "$library" ] || { echo "skipped: no $library"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
ranks="1 2"
command -v mpirun >/dev/null || ranks=1
exec python3 "$2/tests/soak/sweep.py" --zinc "$1" --source "$2" --library "$library" --ranks $ranks --sample 48

#!/bin/bash
# `zinc doctor`: MPI by name, whether -n works, and the devices to train on.
# test_doctor.sh ZINC SOURCE BUILD
zinc=$1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$zinc" doctor --json >"$work/out" || exit 1
python3 - "$work/out" <<'PYTHON' || exit 1
import json, sys
got = json.load(open(sys.argv[1]))
assert got["mpi"]["version"] and got["mpi"]["starts_ranks"] is True, got["mpi"]
assert list(got["backends"]) == ["cpu", "opencl", "cuda"], got["backends"]
PYTHON

# Without an mpirun, and with one that fails, the cause is there and doctor goes on.
mkdir "$work/bin"
PATH=$work/bin "$zinc" doctor >"$work/out" || exit 1
grep -q -- "-n: .*cannot start mpirun: No such file.*(install an MPI, or name it with --mpirun)" "$work/out" || { cat "$work/out"; exit 1; }
printf '#!/bin/sh\necho "no slots" >&2\nexit 3\n' >"$work/bin/mpirun"
chmod +x "$work/bin/mpirun"
PATH=$work/bin:$PATH "$zinc" doctor --json >"$work/out" || exit 1
grep -q '"starts_ranks":false,"said":".*no slots' "$work/out" || { cat "$work/out"; exit 1; }

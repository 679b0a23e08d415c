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
# Each backend that is not there says what is to be done.
assert got["backends"]["cpu"] == "found", got["backends"]
for name in ("opencl", "cuda"):
    said = got["backends"][name]
    assert said.startswith("found: ") or "install" in said, said
PYTHON

# Drives: the current folder first, each file system once; --nvme-path names others; rates with --measure alone.
mkdir "$work/cache" "$work/swap"
(cd "$work" && "$zinc" doctor --json) >"$work/out" || exit 1
(cd "$work" && XDG_CACHE_HOME=$work/cache "$zinc" doctor --json --measure --nvme-path swap /dev/shm) >"$work/measured" || exit 1
python3 - "$work" <<'PYTHON' || exit 1
import json, os, sys
work = os.path.realpath(sys.argv[1])
drives = json.load(open(work + "/out"))["drives"]
assert drives[0]["path"] == work and drives[0]["free"] > 0 and isinstance(drives[0]["direct"], bool), drives
assert len({os.stat(d["path"]).st_dev for d in drives}) == len(drives), drives
assert all(d["read_bytes_per_second"] is None and d["write_bytes_per_second"] is None for d in drives), drives
swap, memory = json.load(open(work + "/measured"))["drives"]
assert swap["path"] == work + "/swap" and memory["path"] == "/dev/shm", (swap, memory)
if swap["direct"] and swap["type"] != "tmpfs":
    assert swap["read_bytes_per_second"] > 0 and swap["write_bytes_per_second"] > 0, swap
if memory["type"] == "tmpfs":
    assert memory["read_bytes_per_second"] is None, memory
PYTHON
"$zinc" doctor --nvme-path /dev/shm >"$work/out" || exit 1
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ]; then
    grep -q 'not for swap: it lies in memory; give `zinc train --nvme-path` a folder on a drive' "$work/out" || { cat "$work/out"; exit 1; }
fi
"$zinc" doctor --nvme-path "$work/nowhere" 2>"$work/err" && exit 1
grep -q 'nowhere: No such file or directory' "$work/err" || { cat "$work/err"; exit 1; }

# Without an mpirun, and with one that fails, the cause is there and doctor goes on.
mkdir "$work/bin"
PATH=$work/bin "$zinc" doctor >"$work/out" || exit 1
grep -q -- "-n: .*cannot start mpirun: No such file.*(install an MPI, or name it with --mpirun)" "$work/out" || { cat "$work/out"; exit 1; }
printf '#!/bin/sh\necho "no slots" >&2\nexit 3\n' >"$work/bin/mpirun"
chmod +x "$work/bin/mpirun"
PATH=$work/bin:$PATH "$zinc" doctor --json >"$work/out" || exit 1
grep -q '"starts_ranks":false,"said":".*no slots' "$work/out" || { cat "$work/out"; exit 1; }

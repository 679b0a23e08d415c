#!/bin/bash
# The Python package from its wheel, in a throw-away environment: pytest, the loop of ten lines alone and under mpirun against the command.
# usage: test_python.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 source=$2 build=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL $*"; exit 1; }
source "$source/tests/parity/venv_python.sh"
python_venv "$work/venv"
version=$("$zinc" version | awk '{ print $2; exit }')
wheel=$(python3 "$source/scripts/make_wheel.py" "$version" "$build/libzinc.so" "$work") || fail "no wheel"
"$python" -m pip install --quiet --no-index --no-deps "$wheel" || fail "the wheel cannot be installed"
cmp "$build/libzinc.so" "$("$python" -c 'import os, zinc; print(os.path.join(os.path.dirname(zinc.__file__), "libzinc.so"))')" ||
    fail "the wheel has another library"
model=${XDG_CACHE_HOME:-$HOME/.cache}/zinc/SmolLM2-135M-Instruct
[ -s "$model/model.safetensors" ] && export MODEL=$model
export TMPDIR=$work/tmp ZINC=$zinc DATA=$source/tests/data PYTHONDONTWRITEBYTECODE=1 OMP_WAIT_POLICY=passive
mkdir "$TMPDIR"
(cd "$work" && "$python" -m pytest -q -p no:cacheprovider "$source/tests/parity/python") || fail "pytest"

# The loop of ten lines, on a real model where it is there.
if [ -n "${MODEL:-}" ]; then
    for i in 1 2 3 4; do echo "In the beginning was line $i, and it was followed by another line of words."; done >"$work/lines.txt"
    "$python" "$source/examples/finetune.py" "$MODEL" "$work/lines.txt" "$work/tuned" >"$work/loop.txt" || fail "finetune.py"
    awk '{ if (NR == 1) first = $NF; last = $NF } END { exit !(NR > 2 && last < first) }' "$work/loop.txt" || fail "$(cat "$work/loop.txt")"
fi

# Ranks: the loop under mpirun gives the command's weights.
command -v mpirun >/dev/null || exit 0
mpi=(timeout -k 5 300 mpirun --oversubscribe --bind-to none)
[ "$(id -u)" = 0 ] && mpi+=(--allow-run-as-root)
cat >"$work/ranks.py" <<'PY'
import pathlib, sys, zinc
with zinc.Engine(sys.argv[1], pathlib.Path(sys.argv[2]), stage=3, steps=3, seq_len=16, micro_batch=2, lr=1e-3) as engine:
    losses = [step.loss for step in engine]
    values = engine["model.norm.weight"]
    engine.export(sys.argv[3])
    if engine.context.rank == 0:
        print(engine.context.n_ranks, *losses, float(values.sum()))
left_open = zinc.Engine(sys.argv[1], pathlib.Path(sys.argv[2]), steps=1, seq_len=16)  # Python's end closes it
PY
llama=$source/tests/data/parity/llama2 tokens=$source/tests/data/parity/tokens.bin
"${mpi[@]}" -n 2 "$python" "$work/ranks.py" "$llama" "$tokens" "$work/ranks" >"$work/ranks.txt" || fail "mpirun"
grep -q '^2 ' "$work/ranks.txt" || fail "not two ranks: $(cat "$work/ranks.txt")"
"${mpi[@]}" -n 2 "$zinc" train --model "$llama" --data "$tokens" --stage 3 --steps 3 --seq-len 16 --micro-batch 2 --lr 1e-3 --quiet \
    --output "$work/command" || fail "zinc train"
cmp "$work/command/model.safetensors" "$work/ranks/model.safetensors" || fail "ranks of Python have other weights than the command's"
[ -z "$(ls "$TMPDIR" | grep '^zinc-')" ] || fail "temporary folders are left: $(ls "$TMPDIR")"
exit 0

#!/bin/bash
# --objective dpo against TRL: losses, margins and accuracies of 10 steps on small models in fp32.
# usage: test_dpo.sh PROGRAM SOURCE_DIR BUILD_DIR [FIXTURE…]
set -u
zinc=$1 data=$2/tests/data/parity here=$2/tests/parity
shift 3
source "$here/venv.sh"
need_peft
source "$here/venv_trl.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive # small matrices: more threads only wait
export HF_HOME=$work/hub

(($#)) || set -- llama3 gpt2
mkdir "$work/small"
"$python" "$here/check_dpo.py" "$zinc" "$data" "$work/small" "$@" >"$work/out" 2>"$work/log" || {
    tail -5 "$work/log"
    echo "FAIL"
    exit 1
}
grep micro-batch "$work/out"

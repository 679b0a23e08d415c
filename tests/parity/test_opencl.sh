#!/bin/bash
# A real pretrained model, SmolLM2-135M, on an OpenCL device: 3 steps of fine-tuning and 20 greedy tokens have the processor's
# bits.
# usage: test_opencl.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export ZINC_ALLOW_OVERSUBSCRIPTION=1 OMP_WAIT_POLICY=passive

fail() { echo "FAIL $*"; exit 1; }

source "$here/smollm2.sh"
cd "$work" || exit 1
prompt="The sun had set behind the hills, and"
"$zinc" generate --model "$model" --prompt "$prompt" --max-tokens 1 --device opencl >/dev/null 2>said ||
    { grep -q "OpenCL is" said && skip "$(cat said)"; cat said; fail "zinc generate"; }

seq 1 400 | sed 's/.*/Line & of a text about the numbers & and &./' >text.txt
for device in cpu opencl; do
    "$zinc" generate --model "$model" --prompt "$prompt" --max-tokens 20 --json --device $device >$device.json 2>said ||
        { cat said; fail "zinc generate --device $device"; }
    "$zinc" train --model "$model" --data text.txt --output $device --steps 3 --seq-len 64 --lr 1e-4 --keep 0 --device $device \
        >said 2>&1 || { tail -5 said; fail "zinc train --device $device"; }
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' $device/metrics.jsonl >$device.losses
done
[ "$(wc -l <cpu.losses)" -eq 3 ] || fail "the log has not 3 steps"
cmp cpu.losses opencl.losses || fail "losses or norms differ"
cmp cpu/model.safetensors opencl/model.safetensors || fail "weights differ"
cmp cpu.json opencl.json || fail "texts differ"
cat opencl.losses opencl.json

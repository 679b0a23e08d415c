#!/bin/bash
# `--device cuda` through the program, on the stand-in for CUDA's driver: training, evaluation and text have the processor's bits, alone and
# as two ranks; and what is missing without a driver is said.
# test_cuda.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity standin=$3/tests/standin
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export ZINC_ALLOW_OVERSUBSCRIPTION=1 OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$work/cache

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    "$zinc" eval --model "$data/llama3" --data "$data/tokens.bin" --seq-len 24 --device cuda >said 2>&1 && fail "evaluates without a driver"
    grep -qF "NVIDIA's driver is not installed" said || fail "without a driver: $(tail -1 said)"
    "$zinc" doctor >said 2>&1 || fail "doctor without a driver: $(tail -1 said)"
    grep -q "cuda: .*driver is not installed" said || fail "doctor does not say what is missing: $(grep cuda said)"
fi

export LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ZINC_STANDIN_LAG=11
"$zinc" doctor >said 2>&1
grep -q "cuda: .*stand-in 0" said || {
    grep -q "no PTX\|not in this build" said && echo "no PTX in this build" && exit 77
    fail "doctor does not list the device: $(grep cuda said)"
}

# train NAME FLAGS…
train()
{
    local name=$1
    shift
    "$zinc" train --model "$data/llama3" --data "$data/tokens.bin" --steps 4 --seq-len 24 --accumulate 2 --reduce every --output "$name" "$@" >said 2>&1 ||
        fail "$name: $(tail -1 said)"
}
train cpu
train device --device cuda
train offloaded --device cuda:1 --offload-optimizer cpu --offload-gradients cpu
for name in device offloaded; do
    cmp cpu/model.safetensors $name/model.safetensors || fail "$name: other weights than the processor's"
done
train cpu2 -n 2
train device2 -n 2 --device cuda
cmp cpu2/model.safetensors device2/model.safetensors || fail "two ranks: other weights than the processor's"

"$zinc" eval --model cpu --data "$data/tokens.bin" --seq-len 24 --json 2>/dev/null | grep -o '"loss":[^,}]*' >loss.cpu
"$zinc" eval --model cpu --data "$data/tokens.bin" --seq-len 24 --json --device cuda 2>errors | grep -o '"loss":[^,}]*' >loss.cuda
[ -s loss.cpu ] || fail "no loss"
cmp loss.cpu loss.cuda || fail "another loss than the processor's: $(tail -1 errors)"

ZINC_STANDIN_FAULT=kernel:3 timeout 60 "$zinc" train --model "$data/llama3" --data "$data/tokens.bin" --steps 4 --seq-len 24 --output broken \
    --device cuda >said 2>&1
[ $? -eq 1 ] || fail "a fault of the device does not end the run: $(tail -1 said)"
grep -q LAUNCH_FAILED said || fail "the fault is not named: $(tail -1 said)"
exit $((failures > 0))

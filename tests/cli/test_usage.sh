#!/bin/bash
# The program's manners: exit codes, help, and mistakes that name what is wrong.
# test_usage.sh ZINC SOURCE BUILD
zinc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE WORDS… -- what standard output and standard error hold is left in $work.
expect()
{
    local code=$1 got
    shift
    "$zinc" "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" != "$code" ]; then
        echo "zinc $*: exit code $got, not $code"
        cat "$work/err"
        failures=$((failures + 1))
    fi
}

# holds FILE TEXT
holds()
{
    if ! grep -qF -- "$2" "$work/$1"; then
        echo "standard $1 does not hold '$2' but:"
        cat "$work/$1"
        failures=$((failures + 1))
    fi
}

is_empty()
{
    if [ -s "$work/$1" ]; then
        echo "standard $1 is not empty:"
        cat "$work/$1"
        failures=$((failures + 1))
    fi
}

expect 0 --version
grep -qxE 'zinc [0-9]+\.[0-9]+\.[0-9]+' "$work/out" || { echo "no version"; failures=$((failures + 1)); }
expect 0 --help
holds out "commands:"
is_empty err
expect 2
is_empty out
holds err "usage:"
expect 2 docter
holds err "zinc: unknown command docter, did you mean doctor"
expect 2 --vresion
holds err "zinc: unknown flag --vresion"

# Each command that is there explains itself; each that is not is refused by name.
"$zinc" --help >"$work/help"
for command in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' "$work/help"); do
    expect 0 "$command" --help
    holds out "usage: zinc $command"
    holds out "example: zinc $command"
    grep -q '……' "$work/out" && { echo "zinc $command --help says … twice"; failures=$((failures + 1)); }
    expect 2 "$command" --no-such-flag
    holds err "zinc $command: unknown flag --no-such-flag"
    is_empty out
done
for command in $(sed -n 's/^not in this build: //p' "$work/help" | tr -d ,); do
    expect 2 "$command" --help
    holds err "\`zinc $command\`: not in this build"
done

# Flags of other tools, in both spellings, are told by their name here; where the command has none like it, nothing is made up.
while read -r name flag; do
    for spelling in "--$name" "--${name//-/_}" "--$name=1"; do
        expect 2 train "$spelling"
        holds err "zinc train: unknown flag ${spelling%=1}; in zinc it is $flag; \`zinc train --help\` lists them"
    done
done <<'HINTS'
batch-size --micro-batch
per-device-train-batch-size --micro-batch
max-length --seq-len
max-seq-length --seq-len
learning-rate --lr
max-grad-norm --clip
gradient-accumulation-steps --accumulate
num-train-epochs --epochs
lr-scheduler-type --lr-schedule
warmup-steps --warmup STEPS
bf16 --precision bf16
fp16 --precision fp16
deepspeed --config
fsdp --stage with --offload-optimizer and --offload-param
zero-stage --stage
gradient-checkpointing --recompute on
model-name-or-path --model
train-file --data
output-dir --output
save-steps --checkpoint-every
eval-steps --eval-every
HINTS
expect 2 eval --learning-rate 1
holds err "zinc eval: unknown flag --learning-rate; \`zinc eval --help\` lists them"
expect 2 generate --max_new_tokens 5
holds err "in zinc it is --max-tokens"
expect 2 plan --num-gpus 5
holds err "in zinc it is --ranks"

expect 2 doctor --jsno
holds err "zinc doctor: unknown flag --jsno, did you mean --json"
expect 0 doctor
holds out "processor"
expect 0 doctor --json
is_empty err
python3 - "$work/out" <<'PYTHON' || failures=$((failures + 1))
import json, sys
doctor = json.load(open(sys.argv[1]))
machine = doctor["machine"]
assert machine["cores"] >= 1 and machine["memory_available"] <= machine["memory_limit"], machine
assert machine["isa"]["plain"] is True and machine["isa"][machine["isa_used"]], machine
assert doctor["backends"]["cpu"] == "found", doctor
assert isinstance(doctor["drives"][0]["direct"], bool), doctor
PYTHON

# A full disk is a failure, not a success with nothing written.
if [ -w /dev/full ]; then
    "$zinc" --version >/dev/full
    [ $? = 1 ] || { echo "--version to a full disk succeeded"; failures=$((failures + 1)); }
fi

exit $((failures > 0))

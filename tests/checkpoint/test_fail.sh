#!/bin/bash
# A checkpoint that cannot be finished, in front or in the background (--checkpoint-async). On the way: the run says which path
# failed and why, leaves nothing that could be taken for a checkpoint, goes on, saves the next one, and ends with code 0 and the
# weights of a run that did not fail; the checkpoints before stay whole, and a run goes on from them. At the end, and when a
# signal asks for one: the same on every rank, with code 1. test_fail.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity library=$3/tests/libfail_calls.so
[ -e "$library" ] || { echo "skipped: no $library"; exit 77; }
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
EIO=5 ENOSPC=28
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ZINC_TEST_FILE_BYTES=100000

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# words FLAGS…: a run of 12 steps and three checkpoints, into $words
words()
{
    words=("$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 12 --lr 1e-3
        --checkpoint-every 4 --keep 9 --output run "$@")
}

# steps: those of the checkpoints
steps()
{
    (cd run/checkpoints && echo step-*)
}

# left_clean NAME STEPS: these checkpoints and no others are there, all whole, and no part of one
left_clean()
{
    [ "$(steps)" = "$2" ] || fail "$1: has $(steps), not $2"
    [ -z "$(find run -name '.tmp-*' -o -name '.part-*' -o -name '*.tmp')" ] || fail "$1: left $(find run -name '.*')"
    "$zinc" checkpoint verify run >verify 2>&1 || fail "$1: $(cat verify)"
}

# resumes NAME WANTED STEP: the run goes on from there to the weights of WANTED
resumes()
{
    "${words[@]}" --resume >out 2>err || fail "$1: does not go on: $(tail -3 err)"
    grep -q "goes on from .*$3, " err || fail "$1: goes on from elsewhere: $(cat err)"
    cmp -s run/model.safetensors "$2/model.safetensors" || fail "$1: other weights after --resume"
}

# misses NAME WANTED CALL STEPS NAME TEXT: ${words[@]} with the call failing says once that this checkpoint is not saved and TEXT,
# and goes on; these checkpoints stay, and from the first of them a run goes on
misses()
{
    local name=$1 wanted=$2 call=$3 left=$4 missing=$5 text=$6 code
    rm -rf run
    FAIL_CALL=$call LD_PRELOAD=$library timeout 120 "${words[@]}" >out 2>err
    code=$?
    [ $code = 0 ] || fail "$name: code $code: $(tail -3 err)"
    [ "$(grep -c "is not saved" err)" = 1 ] || fail "$name: is not said once: $(cat err)"
    grep -q "^zinc train: checkpoint $missing is not saved: $text; the run goes on and tries again at the next one$" err ||
        fail "$name: does not say '$text': $(cat err)"
    left_clean "$name" "$left"
    cmp -s run/model.safetensors "$wanted/model.safetensors" || fail "$name: other weights"
    (cd run/checkpoints && rm -rf step-00000008 step-00000012)
    resumes "$name" "$wanted" step-00000004
    left_clean "$name, resumed" "$all"
}

# fails NAME WANTED CALL STEPS TEXT: the same of the last one, which counts
fails()
{
    local name=$1 wanted=$2 call=$3 left=$4 text=$5 code
    rm -rf run
    FAIL_CALL=$call LD_PRELOAD=$library timeout 120 "${words[@]}" >out 2>err
    code=$?
    [ $code = 1 ] || fail "$name: code $code: $(tail -3 err)"
    grep -q "^zinc train: $text" err || fail "$name: does not say '$text': $(cat err)"
    left_clean "$name" "$left"
    cmp -s run/model.safetensors "$wanted/model.safetensors" || fail "$name: no model, or another"
    resumes "$name" "$wanted" "${left##* }"
    left_clean "$name, resumed" "$all"
}

two="step-00000004 step-00000008" gap="step-00000004 step-00000012"
all="step-00000004 step-00000008 step-00000012"
second=run/checkpoints/.tmp-step-00000008-[0-9]*
third=run/checkpoints/.tmp-step-00000012-[0-9]*

words
"${words[@]}" >out 2>err || fail "the run that does not fail: $(cat err)"
mv run whole
for how in front behind; do
    words
    [ $how = behind ] && words --checkpoint-async
    misses "sync, $how" whole "fsync:*$second/*:$EIO" "$gap" step-00000008 "$second/.*: cannot sync: Input/output error"
    misses "full, $how" whole "fsync:*$second/*optimizer-00002*:$ENOSPC" "$gap" step-00000008 \
        "$second/optimizer-00002-of-.*: cannot sync: No space left on device"
    misses "write, $how" whole "pwrite:*$second/*optimizer-00001*:$ENOSPC" "$gap" step-00000008 \
        "$second/optimizer-00001-of-.*: cannot write: No space left on device"
    misses "hash, $how" whole "pread:*$second/*:$EIO" "$gap" step-00000008 "$second/.*: cannot read.*: Input/output error"
    misses "manifest, $how" whole "pwrite:*$second/*manifest.json*:$ENOSPC" "$gap" step-00000008 \
        "$second/manifest.json: cannot write: No space left on device"
    # Its name is in place by then, and only its durability is not known.
    misses "folder, $how" whole "fsync:*/run/checkpoints:$EIO" "$all" step-00000004 \
        "run/checkpoints: cannot sync the folder: Input/output error"
    fails "end, $how" whole "fsync:*$third/*:$EIO" "$two" "$third/.*: cannot sync: Input/output error"
done

# ---- A signal: the step is said, and why there is no checkpoint of it ----
rm -rf run
words=("$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 100000000 --output run)
FAIL_CALL="fsync:*/run/checkpoints/.tmp-*:$EIO" LD_PRELOAD=$library "${words[@]}" >out 2>err &
job=$!
for ((i = 0; i < 1200; i++)); do
    grep -q '^{"step":5,' run/metrics.jsonl 2>/dev/null && break
    sleep 0.05
done
kill -TERM $job
wait $job
[ $? = 1 ] || fail "signal: the code is not 1: $(cat err)"
grep -qE '^zinc train: stopped by SIGTERM after step ([0-9]+) of 100000000; no checkpoint of step \1 is saved: run/.*: cannot sync: ' \
    err || fail "signal: $(cat err)"
[ -z "$(find run/checkpoints -mindepth 1)" ] || fail "signal: left $(find run/checkpoints)"

if command -v mpirun >/dev/null; then
    rm -rf run
    words -n 2 --stage 3
    "${words[@]}" >out 2>err || fail "the run of two ranks that does not fail: $(cat err)"
    mv run ranks
    words -n 2 --stage 3 --checkpoint-async
    misses "rank 1" ranks "pwrite:*$second/*part-1.json*:$ENOSPC" "$gap" step-00000008 \
        "rank 1: $second/.part-1.json: cannot write: No space left on device"
    misses "rank 1, write" ranks "pwrite:*$second/*optimizer-00002*:$ENOSPC" "$gap" step-00000008 \
        "rank [01]: $second/optimizer-00002-of-.*: cannot write: No space left on device"
    fails "end, ranks" ranks "fsync:*$third/*optimizer-00001*:$EIO" "$two" "rank [01]: $third/.*: cannot sync: Input/output error"
else
    echo "no mpirun: ranks are not tested"
fi

exit $((failures > 0))

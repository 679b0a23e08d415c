#!/bin/bash
# A checkpoint that cannot be finished, in front or in the background (--checkpoint-async): the run says which path failed and
# why, ends with code 1 on every rank, keeps the checkpoints that were whole, leaves nothing that could be taken for one, and
# goes on from there as if it had never failed. test_fail.sh ZINC SOURCE BUILD
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

# fails NAME WANTED CALL STEPS TEXT: ${words[@]} with the call failing says TEXT; these checkpoints stay, and from the last of
# them the run goes on to the weights of WANTED
fails()
{
    local name=$1 wanted=$2 call=$3 left=$4 text=$5 code
    rm -rf run
    FAIL_CALL=$call LD_PRELOAD=$library timeout 120 "${words[@]}" >out 2>err
    code=$?
    [ $code = 1 ] || fail "$name: code $code: $(tail -3 err)"
    grep -q "^zinc train: $text" err || fail "$name: does not say '$text': $(cat err)"
    [ "$(steps)" = "$left" ] || fail "$name: has $(steps), not $left"
    [ -z "$(find run -name '.tmp-*' -o -name '.part-*' -o -name '*.tmp')" ] || fail "$name: left $(find run -name '.*')"
    "$zinc" checkpoint verify run >verify 2>&1 || fail "$name: $(cat verify)"
    case $name in
        end*) cmp -s run/model.safetensors "$wanted/model.safetensors" || fail "$name: no model, or another" ;;
        *front) [ -e run/model.safetensors ] && fail "$name: a model was written" ;;
        *) # found at the end if not before, and then the model is written
            [ -e run/model.safetensors ] && ! cmp -s run/model.safetensors "$wanted/model.safetensors" &&
                fail "$name: another model" ;;
    esac
    "${words[@]}" --resume >out 2>err || fail "$name: does not go on: $(tail -3 err)"
    grep -q "goes on from .*${left##* }, " err || fail "$name: goes on from elsewhere: $(cat err)"
    cmp -s run/model.safetensors "$wanted/model.safetensors" || fail "$name: other weights"
    [ "$(steps)" = "step-00000004 step-00000008 step-00000012" ] || fail "$name: in the end has $(steps)"
}

one="step-00000004" two="step-00000004 step-00000008"
second=run/checkpoints/.tmp-step-00000008-[0-9]*
third=run/checkpoints/.tmp-step-00000012-[0-9]*

words
"${words[@]}" >out 2>err || fail "the run that does not fail: $(cat err)"
mv run whole
for how in front behind; do
    words
    [ $how = behind ] && words --checkpoint-async
    fails "sync, $how" whole "fsync:*$second/*:$EIO" "$one" "$second/.*: cannot sync: Input/output error"
    fails "full, $how" whole "fsync:*$second/*optimizer-00002*:$ENOSPC" "$one" \
        "$second/optimizer-00002-of-.*: cannot sync: No space left on device"
    fails "hash, $how" whole "pread:*$second/*:$EIO" "$one" "$second/.*: cannot read.*: Input/output error"
    fails "manifest, $how" whole "pwrite:*$second/*manifest.json*:$ENOSPC" "$one" \
        "$second/manifest.json: cannot write: No space left on device"
    fails "folder, $how" whole "fsync:*/run/checkpoints:$EIO" "$one" "run/checkpoints: cannot sync the folder: Input/output error"
    fails "end, $how" whole "fsync:*$third/*:$EIO" "$two" "$third/.*: cannot sync: Input/output error"
done

if command -v mpirun >/dev/null; then
    rm -rf run
    words -n 2 --stage 3
    "${words[@]}" >out 2>err || fail "the run of two ranks that does not fail: $(cat err)"
    mv run ranks
    words -n 2 --stage 3 --checkpoint-async
    fails "rank 1" ranks "pwrite:*$second/*part-1.json*:$ENOSPC" "$one" \
        "rank 1: $second/.part-1.json: cannot write: No space left on device"
    fails "end, ranks" ranks "fsync:*$third/*optimizer-00001*:$EIO" "$two" "rank [01]: $third/.*: cannot sync: Input/output error"
else
    echo "no mpirun: ranks are not tested"
fi

exit $((failures > 0))

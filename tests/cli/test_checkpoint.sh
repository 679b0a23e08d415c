#!/bin/bash
# Checkpoints as a person meets them: the verbs of `zinc checkpoint`, signals, full and read-only disks, two jobs in one folder.
# test_checkpoint.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
mounted=()
cleanup()
{
    local m
    for m in "${mounted[@]}"; do umount "$m" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI's libraries leak, unloaded by then so that no suppression knows them; ranks as threads show leaks of Zinc's own.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# train NAME FLAGS…: into $words
train()
{
    words=("$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --micro-batch 2 --threads 1
        --output "$work/$1" "${@:2}")
}

# run NAME FLAGS…: must work
run()
{
    train "$@"
    "${words[@]}" >"$1.out" 2>"$1.err" || fail "$1: zinc train ${*:2} ended with $?: $(tail -1 "$1.err")"
}

# refused CODE TEXT COMMAND…
refused()
{
    local code=$1 text=$2 got
    shift 2
    "$@" >refused.out 2>refused.err
    got=$?
    [ $got = "$code" ] || fail "$*: code $got, not $code"
    grep -q -- "$text" refused.err || fail "$*: does not say '$text': $(cat refused.err)"
}

checkpoint()
{
    "$zinc" checkpoint "$@" 2>checkpoint.err || fail "zinc checkpoint $*: $(cat checkpoint.err)"
}

# flip FILE PLACE: one bit
flip()
{
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# place FILE TENSOR: where its first byte is
place()
{
    python3 - "$1" "$2" <<'PYTHON'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    length = struct.unpack("<Q", f.read(8))[0]
    print(8 + length + json.loads(f.read(length))[sys.argv[2]]["data_offsets"][0])
PYTHON
}

# ---- The verbs ----
ZINC_TEST_FILE_BYTES=60000 run run --steps 4 --checkpoint-every 2 --precision bf16 --output-dtype bf16
grep -q "^saved $work/run/checkpoints/step-00000002 in " run.out || fail "does not say what was saved: $(cat run.out)"
at=run/checkpoints/step-00000004
checkpoint list run >list.txt
[ "$(wc -l <list.txt)" = 2 ] && grep -q 'step-00000004  step 4' list.txt || fail "list: $(cat list.txt)"
checkpoint list run --json >list.json
checkpoint inspect run --json >inspect.json
checkpoint inspect $at >inspect.txt
grep -q 'optimizer-00001-of-' inspect.txt && grep -q 'h.0.ln_1.weight.exp_avg_sq' inspect.txt || fail "inspect: $(cat inspect.txt)"
checkpoint verify run >verify.txt
[ "$(grep -c ': whole, ' verify.txt)" = 2 ] || fail "verify: $(cat verify.txt)"
checkpoint verify $at --json >verify.json
python3 - <<'PYTHON' || failures=$((failures + 1))
import json
listed = json.load(open("list.json"))["checkpoints"]
assert [c["step"] for c in listed] == [2, 4] and all(c["whole"] for c in listed), listed
inspect = json.load(open("inspect.json"))
assert inspect["path"] == listed[1]["path"] and inspect["bytes"] == listed[1]["bytes"], inspect["path"]
names = {t["name"]: t for t in inspect["tensors"]}
assert len(names) == 4 * 28, len(names)
assert names["wte.weight.master"]["shape"] == names["wte.weight"]["shape"] == [101, 32]
assert names["wte.weight"]["dtype"] == "BF16" and names["wte.weight.master"]["dtype"] == "F32"
state = inspect["state"]
assert state["format"] == 2 and state["step"] == 4 and state["data"]["consumed"] == 8, state
assert state["configuration"]["micro_batch"] == 2 and state["masters"] == "optimizer", state
verify = json.load(open("verify.json"))["checkpoints"]
assert len(verify) == 1 and verify[0]["whole"] and verify[0]["damage"] == [], verify
PYTHON

# A checkpoint is a hub folder; exports are the model that was trained.
"$zinc" eval --model $at --data "$data/tokens.bin" --seq-len 16 --json >from.json 2>/dev/null
"$zinc" eval --model run --data "$data/tokens.bin" --seq-len 16 --json >of.json 2>/dev/null
cmp -s from.json of.json || fail "the checkpoint and the output have another loss: $(cat from.json of.json)"
for type in fp32 bf16 fp16; do
    checkpoint export run --dtype $type --output export-$type >export.txt
    grep -q "^wrote export-$type: step 4 in $type" export.txt || fail "export: $(cat export.txt)"
done
cmp -s export-bf16/model.safetensors run/model.safetensors || fail "the export in bf16 is not the model that was written"
run as-fp32 --steps 4 --precision bf16 --output-dtype fp32
cmp -s export-fp32/model.safetensors as-fp32/model.safetensors || fail "the export in fp32 is not the masters"
grep -q '"float16"' export-fp16/config.json || fail "config.json of the export does not say float16"
refused 2 "export-fp32: holds a model already" "$zinc" checkpoint export run --output export-fp32
refused 2 "export needs --output" "$zinc" checkpoint export run
refused 2 "for export" "$zinc" checkpoint list run --dtype fp32
refused 2 "is not one of: list inspect verify export" "$zinc" checkpoint remove run
refused 1 "nowhere: no such folder" "$zinc" checkpoint list nowhere
refused 1 "holds no checkpoint" "$zinc" checkpoint verify export-bf16

# ---- Damage, by name ----
for name in h.1.mlp.c_fc.weight.exp_avg wte.weight.master ln_f.bias.exp_avg_sq; do
    file=$(python3 -c 'import json,sys
print(next(t["file"] for t in json.load(open("inspect.json"))["tensors"] if t["name"] == sys.argv[1]))' $name)
    where=$(($(place $at/$file $name) + 5))
    flip $at/$file $where
    refused 1 "1 of 2 checkpoints damaged" "$zinc" checkpoint verify run
    grep -qx "run/checkpoints/step-00000004/$file: tensor '$name': damaged" refused.out ||
        fail "verify does not name $file and $name: $(cat refused.out)"
    "$zinc" checkpoint verify $at --json 2>/dev/null | grep -q "{\"file\":\"$file\",\"tensor\":\"$name\"," ||
        fail "verify --json does not name $file and $name"
    refused 1 "$file: damaged: tensor '$name'" "$zinc" checkpoint export $at --output never
    flip $at/$file $where
done
flip $at/model.safetensors 9
refused 1 "damaged" "$zinc" checkpoint verify $at
grep -q 'model.safetensors: header damaged' refused.out || fail "verify does not name the header: $(cat refused.out)"
flip $at/model.safetensors 9
checkpoint verify $at >/dev/null
mv $at/config.json kept
refused 1 "damaged" "$zinc" checkpoint verify $at
grep -q 'config.json: cannot open: No such file' refused.out || fail "verify does not name config.json: $(cat refused.out)"
checkpoint list run | grep -q 'step-00000004  broken: .*config.json' || fail "list does not say what is broken"
mv kept $at/config.json

# ---- Signals ----

# wait_for NAME STEP
wait_for()
{
    local i
    for ((i = 0; i < 600; i++)); do
        grep -q "^{\"step\":$2," "$1/metrics.jsonl" 2>/dev/null && return
        sleep 0.05
    done
    fail "$1: no step $2: $(cat "$1.err")"
}

# stops NAME SIGNAL PROCESS JOB: the job of the process ends with a checkpoint of its last step, and goes on from there
stops()
{
    local name=$1 signal=$2 code last
    kill -"$signal" "$3"
    wait "$4"
    code=$?
    [ $code = 1 ] || fail "$name: code $code: $(tail -3 "$name.err")"
    last=$(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' "$name/metrics.jsonl" | tail -1)
    grep -q "^zinc train: stopped \(by SIG[A-Z0-9]*\|as asked\) after step $last of 100000000; a checkpoint is saved" "$name.err" ||
        fail "$name: does not say that it was stopped after step $last: $(cat "$name.err")"
    [ -d "$name/checkpoints/$(printf step-%08d "$last")" ] || fail "$name: no checkpoint of step $last"
    checkpoint verify "$name" >/dev/null
    words=("${words[@]/100000000/$((last + 2))}")
    "${words[@]}" --resume >"$name.out" 2>"$name.err" || fail "$name: does not go on: $(tail -1 "$name.err")"
    [ "$(wc -l <"$name/metrics.jsonl")" = $((last + 2)) ] || fail "$name: the log has $(wc -l <"$name/metrics.jsonl") lines"
}

for signal in TERM INT USR1; do
    train one-$signal --steps 100000000
    # A job in the background of a script ignores SIGINT; python gives it back.
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "${words[@]}" >one-$signal.out 2>one-$signal.err &
    job=$!
    wait_for one-$signal 10
    stops one-$signal $signal $job $job
done

if command -v mpirun >/dev/null; then
    train many --steps 100000000 -n 3 --stage 3
    "${words[@]}" >many.out 2>many.err &
    job=$!
    wait_for many 10
    stops many TERM $job $job
    train rank --steps 100000000 -n 2 --stage 3 --checkpoint-every 7 --checkpoint-async
    "${words[@]}" >rank.out 2>rank.err &
    job=$!
    wait_for rank 20
    rank=$(pgrep -P "$(pgrep -P $job)" | tail -1)
    stops rank USR1 "$rank" $job
fi

# ---- Two jobs ----
train two --steps 100000000
"${words[@]}" >two.out 2>two.err &
job=$!
wait_for two 5
refused 2 "two: another run is writing to this folder: process $job on" "${words[@]}" --resume
refused 2 "two: another run is writing to this folder" "${words[@]}" --overwrite
kill -9 $job
wait $job 2>/dev/null
train two --steps 3
"${words[@]}" --resume >two.out 2>two.err || fail "a dead run holds its lock: $(cat two.err)"
grep -q "holds no checkpoint to go on from" two.err || fail "two: does not say that it starts fresh: $(cat two.err)"

# ---- Disks ----
mkdir full
if mount -t tmpfs -o size=8m zinc "$work/full" 2>/dev/null; then
    mounted+=("$work/full")
    # Too small for what is asked, which is known before the first step: nothing is written.
    train full/out --steps 40 --checkpoint-every 1 --keep 100
    refused 1 'full/out: no room for this run: .*: the model .*, checkpoints .*; 8388608 (8.00 MiB) are free' "${words[@]}"
    [ -e full/out ] && fail "a run that has no room has made its folder"
    # It fills up on the way: the run goes on, and saves again when there is room.
    train full/out --steps 100000000 --checkpoint-every 1
    "${words[@]}" >full.out 2>full.err &
    job=$!
    wait_for full/out 5
    # Room for the two that are kept and half of a third, taken while the run stands still between two saves.
    for ((i = 0; i < 200; i++)); do
        kill -STOP $job
        one=$(du -sk full/out/checkpoints/step-* | sort -n | tail -1 | cut -f1)
        limit=$(($(du -sk --exclude=checkpoints full | cut -f1) + 2 * one + one / 2))
        (($(du -sk full | cut -f1) < limit)) && mount -o remount,size=${limit}k "$work/full" && break
        kill -CONT $job
        sleep 0.02
    done
    kill -CONT $job
    for ((i = 0; i < 600; i++)); do
        (($(grep -c 'is not saved' full.err) >= 3)) && break
        sleep 0.05
    done
    mount -o remount,size=64m "$work/full"
    missed=$(grep -c 'is not saved' full.err)
    wait_for full/out $(($(sed -n 's/^{"step":\([0-9]*\),.*/\1/p' full/out/metrics.jsonl | tail -1) + 20))
    kill -TERM $job
    wait $job
    [ $? = 1 ] || fail "a run that was stopped did not end with 1"
    ((missed >= 3)) || fail "a full disk: $missed checkpoints were missed: $(tail -2 full.err)"
    grep -qE '^zinc train: checkpoint step-[0-9]+ is not saved: .*; the run goes on and tries again at the next one$' full.err ||
        fail "a full disk: $(tail -2 full.err)"
    tail -1 full.err | grep -q 'stopped by SIGTERM .*; a checkpoint is saved' || fail "a full disk: $(tail -1 full.err)"
    checkpoint verify full/out >full.txt
    [ "$(grep -c ': whole, ' full.txt)" = 2 ] || fail "after a full disk: $(cat full.txt)"
    [ -z "$(find full/out/checkpoints -name '.tmp-*')" ] || fail "a full disk leaves a temporary folder"

    # Room for the model alone.
    rm -rf full/out
    mount -o remount,size=500k "$work/full"
    train full/out --steps 2 --save all
    refused 1 "full/out: no room for this run" "${words[@]}"
    run two-steps --steps 2
    run full/out --steps 2
    cmp -s full/out/model.safetensors two-steps/model.safetensors || fail "another model on a small disk"
    grep -q 'full/out/checkpoints: no room for a checkpoint, which a signal would ask for: it takes ' full/out.err ||
        fail "does not say that a signal would find no room: $(cat full/out.err)"

    mkdir -p frozen/checkpoints
    mount -t tmpfs -o size=8m,ro zinc "$work/frozen/checkpoints"
    mounted+=("$work/frozen/checkpoints")
    train frozen --steps 2 --overwrite --save all
    refused 1 "frozen/checkpoints/.*: Read-only file system" "${words[@]}"
    mount -o remount,ro "$work/full"
    train full/out --steps 3
    refused 1 "full/out/.lock: cannot open the lock: Read-only file system" "${words[@]}" --resume
else
    echo "no right to mount: full and read-only disks are not tested"
fi

exit $((failures > 0))

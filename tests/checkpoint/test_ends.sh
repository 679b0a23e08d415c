#!/bin/bash
# A run that cannot go on loses nothing that was trained: held-out data that fails at the last step or before, data that cannot
# be read, a log that cannot be written, output that nobody reads, SIGHUP, steps that are all skipped. Each ends with its cause
# and code 1 on every rank, with the model or a checkpoint of the last step. test_ends.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity library=$3/tests/libfail_calls.so
[ -e "$library" ] || { echo "skipped: no $library"; exit 77; }
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
EIO=5 ENOSPC=28
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
cp "$data/tokens.bin" train.bin
cp "$data/tokens.bin" held.bin

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# words FLAGS…: a run of $steps steps, into $words
steps=12
words()
{
    words=("$zinc" train --model "$data/gpt2" --data train.bin --seq-len 16 --threads 1 --steps $steps --lr 1e-3 --output run "$@")
}

# whole NAME FLAGS…: the run that nothing happens to, as the folder NAME
whole()
{
    local name=$1
    words "${@:2}"
    rm -rf run
    "${words[@]}" >out 2>err || fail "$name: $(cat err)"
    mv run "$name"
}

last_step()
{
    sed -n 's/^{"step":\([0-9]*\),.*/\1/p' run/metrics.jsonl | tail -1
}

# fails NAME TEXT: ${words[@]} ends with code 1 and says TEXT once
fails()
{
    local name=$1 text=$2 code
    rm -rf run
    LD_PRELOAD=$library timeout 120 "${words[@]}" >out 2>err
    code=$?
    [ $code = 1 ] || fail "$name: code $code: $(tail -3 err)"
    [ "$(grep -c "^zinc train: $text" err)" = 1 ] || fail "$name: does not say '$text' once: $(cat err)"
}

# goes_on NAME WANTED FLAGS…: there is a whole checkpoint of the last logged step, and from there the run gets to WANTED's weights
goes_on()
{
    local name=$1 wanted=$2 at
    at=$(printf step-%08d "$(last_step)")
    [ -e run/model.safetensors ] && fail "$name: a model was written"
    "$zinc" checkpoint verify "run/checkpoints/$at" >verify 2>&1 || fail "$name: $(cat verify)"
    "${words[@]}" "${@:3}" --resume >out 2>err || fail "$name: does not go on: $(tail -3 err)"
    grep -q "goes on from .*$at, " err || fail "$name: goes on from elsewhere: $(cat err)"
    cmp -s run/model.safetensors "$wanted/model.safetensors" || fail "$name: other weights"
}

# ended NAME WANTED: the model is that of WANTED, and the log has all steps, the last without a held-out loss
ended()
{
    cmp -s run/model.safetensors "$2/model.safetensors" || fail "$1: no model, or another"
    [ "$(last_step)" = 12 ] || fail "$1: the log ends at step $(last_step)"
    tail -1 run/metrics.jsonl | grep -q '"eval_loss":[0-9]' && fail "$1: has a held-out loss: $(tail -1 run/metrics.jsonl)"
}

export FAIL_AFTER="6:run/metrics.jsonl"
whole one

# ---- Held-out data ----
words --eval-data held.bin
FAIL_CALL="pread:*/held.bin:$EIO" fails "held out, last" "held-out data: held.bin: cannot read: Input/output error"
ended "held out, last" one
words --eval-data held.bin --eval-every 3
FAIL_CALL="pread:*/held.bin:$EIO" fails "held out" \
    "held-out data: held.bin: cannot read: Input/output error; a checkpoint is saved: --resume goes on from there"
goes_on "held out" one

# ---- Data ----
words
FAIL_CALL="pread:*/train.bin:$EIO" fails "data" \
    "train.bin: cannot read: Input/output error; a checkpoint is saved: --resume goes on from there"
goes_on "data" one
words --keep 0
FAIL_CALL="pread:*/train.bin:$EIO" fails "data, nothing kept" \
    "train.bin: cannot read: Input/output error; nothing is saved, as --keep is 0"
words
FAIL_CALL="pread:*/train.bin:$EIO" FAIL_AFTER="0:run/metrics.jsonl" fails "data, at once" "train.bin: cannot read: Input/output error$"
[ -e run/checkpoints ] && fail "data, at once: a checkpoint of nothing"

# ---- The log: the run goes on without it ----
words
rm -rf run
mkdir run
ln -s /dev/full run/metrics.jsonl
"${words[@]}" --overwrite >out 2>err
[ $? = 1 ] || fail "log: the code is not 1: $(cat err)"
[ "$(grep -c 'metrics.jsonl: cannot write the log: No space left on device; the run goes on' err)" = 1 ] || fail "log: $(cat err)"
tail -1 err | grep -q '^zinc train: run/metrics.jsonl: cannot write the log: No space left on device$' || fail "log: $(cat err)"
cmp -s run/model.safetensors one/model.safetensors || fail "log: no model, or another"

# ---- Steps that are all skipped ----
steps=4
words --clip 0 --precision fp16 --loss-scale 1e30
fails "skipped" "every step of this run was skipped (4)"
mv run skipped
steps=0
whole start
cmp -s skipped/model.safetensors start/model.safetensors || fail "skipped: no model, or another"

# ---- Signals and output that nobody reads ----
steps=100000000

# stops NAME TEXT: the job in the background, $job, ends with code 1 and TEXT and has a checkpoint of its last step
stops()
{
    local name=$1 text=$2 code last
    wait $job
    code=$?
    [ $code = 1 ] || fail "$name: code $code: $(cat err)"
    last=$(last_step)
    grep -q "^zinc train: stopped $text after step $last of 100000000; a checkpoint is saved" err || fail "$name: $(cat err)"
    "$zinc" checkpoint verify "run/checkpoints/$(printf step-%08d "$last")" >verify 2>&1 || fail "$name: $(cat verify)"
}

wait_for_step()
{
    local i
    for ((i = 0; i < 1200; i++)); do
        grep -q "^{\"step\":$1," run/metrics.jsonl 2>/dev/null && return
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    fail "no step $1: $(cat err)"
}

# hangs_up NAME TEXT FLAGS…: SIGHUP
hangs_up()
{
    rm -rf run
    words "${@:3}"
    "${words[@]}" >out 2>err &
    job=$!
    wait_for_step 5
    kill -HUP $job
    stops "$1" "$2"
}

# unread NAME TEXT FLAGS…: `zinc train | head`
unread()
{
    rm -rf run fifo
    mkfifo fifo
    words "${@:3}"
    head -12 <fifo >out &
    "${words[@]}" >fifo 2>err &
    job=$!
    stops "$1" "$2"
}

hangs_up "SIGHUP" "by SIGHUP"
unread "SIGPIPE" "by SIGPIPE (nobody reads its output any more)"

# nohup: the signal is ignored.
rm -rf run
words
nohup "${words[@]}" >out 2>err &
job=$!
wait_for_step 5
kill -HUP $job
wait_for_step $(($(last_step) + 20))
kill -TERM $job
stops "nohup" "by SIGTERM"

# ---- Ranks: one of them fails ----
if command -v mpirun >/dev/null; then
    ranks=(-n 2 --stage 3)
    steps=12
    whole two "${ranks[@]}"
    words "${ranks[@]}" --eval-data held.bin
    FAIL_RANK=1 FAIL_CALL="pread:*/held.bin:$EIO" fails "ranks, held out, last" \
        "held-out data: rank 1: held.bin: cannot read: Input/output error"
    ended "ranks, held out, last" two
    words "${ranks[@]}"
    FAIL_RANK=1 FAIL_CALL="pread:*/train.bin:$EIO" fails "ranks, data" \
        "rank 1: train.bin: cannot read: Input/output error; a checkpoint is saved: --resume goes on from there"
    goes_on "ranks, data" two
    steps=100000000
    hangs_up "ranks, SIGHUP" 'as asked' "${ranks[@]}"
    unread "ranks, SIGPIPE" "as asked" "${ranks[@]}"
    grep -q '^zinc train: nobody reads the output any more' err || fail "ranks, SIGPIPE: $(cat err)"
else
    echo "no mpirun: ranks are not tested"
fi

exit $((failures > 0))

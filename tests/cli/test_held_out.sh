#!/bin/bash
# --eval-split and --early-stop as a person meets them: what is held out, when a run ends and with which weights, the same bits on
# ranks, stages and tiers and after an interruption.
# test_held_out.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ZINC_ALLOW_OVERSUBSCRIPTION=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# run NAME FLAGS…: trains $model into the folder NAME
run()
{
    local name=$1
    shift
    "$zinc" train --model "$model" --data rows.jsonl --byte-tokenizer --seq-len 32 --micro-batch 2 --threads 1 \
        --allow-buffered-swap --output "$name" "$@" >"$name.out" 2>"$name.err" ||
        fail "$name: zinc train $* failed: $(tail -1 "$name.err")"
}

# refused CODE TEXT FLAGS…
refused()
{
    local code=$1 text=$2 got
    shift 2
    "$zinc" train --model "$model" --data rows.jsonl --byte-tokenizer --seq-len 32 --threads 1 --output refused "$@" >refused.out 2>refused.err
    got=$?
    [ $got = "$code" ] || fail "$*: code $got, not $code"
    grep -q -- "$text" refused.err || fail "$*: does not say '$text': $(cat refused.err)"
}

columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# evals NAME: step and held-out loss, one a line
evals()
{
    sed -n 's/^{"step":\([0-9]*\),.*"eval_loss":\([^,}]*\).*/\1 \2/p' "$1/metrics.jsonl"
}

# same NAME NAME [FILE]: two runs have the same bits
same()
{
    local file=${3:-model.safetensors}
    [ "$(columns "$1" | wc -l)" -ge 2 ] || fail "$1: $(columns "$1" | wc -l) lines of metrics"
    cmp -s <(columns "$1") <(columns "$2") || fail "$1 and $2 differ in loss or norm"
    cmp -s "$1/$file" "$2/$file" || fail "$1 and $2 differ in their weights"
}

# best NAME: the step with the lowest held-out loss
best()
{
    evals "$1" | sort -g -k2,2 | head -1 | cut -d' ' -f1
}

for i in $(seq 0 29); do
    a=$(printf "\\x$(printf %x $((65 + i * 7 % 26)))") b=$(printf "\\x$(printf %x $((65 + i * 11 % 26)))")
    echo "{\"prompt\": \"$a$b$a\", \"completion\": \"$b$b$a$b$a\"}"
done >rows.jsonl
model=$data/llama3

# ---- What is held out ----

run split --eval-split 0.2 --eval-every 2 --steps 4
grep -q -- '--data: 24 examples' split.err || fail "split: not 24 examples trained: $(grep examples split.err)"
grep -q -- '--eval-split: 6 examples' split.err || fail "split: not 6 examples held out: $(grep examples split.err)"
[ "$(evals split | cut -d' ' -f1 | tr '\n' ' ')" = "0 2 4 " ] || fail "split: evaluated at $(evals split | tr '\n' ' ')"
grep -q '"eval_split": 0.2' split/run.json || fail "split: run.json does not tell"
run other --eval-split 0.2 --steps 4 --seed 2
[ "$(evals split | head -1)" != "$(evals other | head -1)" ] || fail "another seed holds out the same"
run none --steps 4
[ "$(columns none)" != "$(columns split)" ] || fail "what is held out is trained"
# The held-out loss is that of `zinc eval` on the last 6 of the data, where they are not shuffled.
run last --eval-split 0.2 --no-shuffle --steps 1 --precision fp32
tail -6 rows.jsonl >last6.jsonl
a=$("$zinc" eval --model "$model" --data last6.jsonl --byte-tokenizer --seq-len 32 --json 2>/dev/null | sed 's/.*"loss":\([0-9.]*\).*/\1/')
b=$(evals last | head -1 | cut -d' ' -f2)
awk -v a="$a" -v b="$b" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-12 * a * a) }' || fail "the last 6: held-out loss $b, eval has $a"
# Documents: a token file without an end of text is one.
mkdir tokens
for i in 0 1 2 3 4 5 6 7 8 9; do cp "$data/tokens.bin" tokens/$i.bin; done
"$zinc" train --model "$model" --data tokens --seq-len 32 --eval-split 0.1 --steps 2 --output tokens-run >tokens.out 2>tokens.err ||
    fail "tokens: $(cat tokens.err)"
[ "$(evals tokens-run | wc -l)" = 2 ] || fail "tokens: evaluated $(evals tokens-run | wc -l) times"

# ---- Bits of a split ----

for stage in 0 3; do
    run split-$stage --eval-split 0.2 --eval-every 2 --steps 4 --stage $stage --reduce every -n 2
    same split-0 split-$stage
    [ "$(evals split-0)" = "$(evals split-$stage)" ] || fail "held-out losses differ at stage $stage"
done
run part --eval-split 0.2 --eval-every 2 --steps 2 --save all
run part --eval-split 0.2 --eval-every 2 --steps 4 --resume
same split part
[ "$(evals split)" = "$(evals part)" ] || fail "held-out losses differ after --resume"
refused 2 "--eval-split 0.2, this run has none" --steps 6 --resume=part/checkpoints/step-00000002 --micro-batch 2
refused 2 "--eval-split 0.2, this run has 0.3" --steps 6 --resume=part/checkpoints/step-00000002 --micro-batch 2 --eval-split 0.3

# ---- Early stop ----

split=(--eval-split 0.2 --eval-every 3 --lr 2e-2)
stop=("${split[@]}" --early-stop 2)
steps=(--steps 90)
run stop "${stop[@]}" "${steps[@]}"
n=$(tail -1 stop/metrics.jsonl | sed 's/{"step":\([0-9]*\).*/\1/') at=$(best stop)
[ "$n" -lt 90 ] || fail "stop: the run went on to its end"
[ "$n" = $((at + 6)) ] || fail "stop: ended after step $n, the best is $at"
[ "$at" -gt 0 ] || fail "stop: nothing was learned, the test shows nothing"
grep -q "ends after step $n of 90" stop.err || fail "stop: $(cat stop.err)"
grep -q "the output has the weights of step $at" stop.err || fail "stop: the best step is not told"
[ -e stop/best ] && fail "stop: best weights stay behind: $(find stop/best)"
grep -q '"finished": true' stop/run.json || fail "stop: not finished"
# The output is what a run of that many steps has at its end.
run at --eval-split 0.2 --lr 2e-2 --steps "$at"
cmp -s at/model.safetensors stop/model.safetensors || fail "the output is not the weights of step $at"
"$zinc" train --model "$model" --data rows.jsonl --byte-tokenizer --seq-len 32 --micro-batch 2 --threads 1 --output stop --resume \
    "${stop[@]}" "${steps[@]}" >again.out 2>again.err || fail "--resume of a run that is finished: $(tail -1 again.err)"
grep -q "nothing is left to do" again.err || fail "--resume of a run that is finished: $(cat again.err)"
# The last step may be the best.
run short "${stop[@]}" --steps "$at"
cmp -s at/model.safetensors short/model.safetensors || fail "short: other weights"
# --steps may end before the patience does.
run patient "${split[@]}" --early-stop 9 --steps "$n"
cmp -s at/model.safetensors patient/model.safetensors || fail "patient: the output is not the best"
same stop patient

# Interrupted before and after the best step, at every stage; the count and the best are kept.
for cut in $((at - 1)) $((at + 1)) $((at + 4)); do
    run cut-$cut "${stop[@]}" --steps $cut --save all
    run cut-$cut "${stop[@]}" "${steps[@]}" --resume
    same stop cut-$cut
done
# Killed: the folder of the best weights and the checkpoint are what is left.
run killed "${stop[@]}" --steps $((at + 4)) --checkpoint-every 2 --keep 3
sed -i 's/"finished": true/"finished": false/' killed/run.json
rm -f killed/model.safetensors killed/config.json
[ -e killed/best ] || fail "killed: a checkpoint names the best weights, and they are gone"
run killed "${stop[@]}" "${steps[@]}" --resume
same stop killed
cp -r cut-$((at + 4)) moved
rm -rf moved/best moved/model.safetensors moved/run.json
"$zinc" train --model "$model" --data rows.jsonl --byte-tokenizer --seq-len 32 --micro-batch 2 --threads 1 --output moved --resume \
    "${stop[@]}" "${steps[@]}" >moved.out 2>moved.err && fail "--resume without the best weights goes on"
grep -q "the best weights so far are those of step $at" moved.err || fail "moved: $(cat moved.err)"

for stage in 0 1 2 3; do
    run ranks-$stage "${stop[@]}" "${steps[@]}" --stage $stage --reduce every -n 2
    same ranks-0 ranks-$stage
done
run nvme "${stop[@]}" "${steps[@]}" --stage 3 --offload-param nvme --offload-optimizer nvme --offload-gradients nvme --persist-below 0
same stop nvme
run delayed "${stop[@]}" "${steps[@]}" --delayed-update=2
run delayed-part "${stop[@]}" --delayed-update=2 --steps 5 --save all
run delayed-part "${stop[@]}" "${steps[@]}" --delayed-update=2 --resume
same delayed delayed-part
run lora "${stop[@]}" "${steps[@]}" --lora-rank 4
[ -e lora/adapter_config.json ] || fail "lora: no adapter_config.json"
run lora-part "${stop[@]}" --lora-rank 4 --steps 8 --save all
run lora-part "${stop[@]}" "${steps[@]}" --lora-rank 4 --resume -n 1
same lora lora-part adapter_model.safetensors
run lora-3 "${stop[@]}" "${steps[@]}" --lora-rank 4 --stage 3 --offload-param nvme
same lora lora-3 adapter_model.safetensors

# ---- Refused ----

refused 2 "give one of them" --eval-split 0.1 --eval-data rows.jsonl
refused 2 "needs --eval-every" --early-stop 2 --eval-split 0.1
refused 2 "needs held-out data" --early-stop 2 --eval-every 2
refused 2 "--eval-split" --eval-split 1
refused 2 "--eval-split" --eval-split 0
refused 1 "none would be trained" --eval-split 0.99
"$zinc" train --model "$model" --data "$data/tokens.bin" --seq-len 16 --eval-split 0.1 --steps 1 --output refused >one.out 2>one.err &&
    fail "a token file without an end of text is split"
grep -q "of 1 document" one.err || fail "one: $(cat one.err)"

[ $failures = 0 ] && echo "test_held_out: all cases passed"
exit $((failures > 0))

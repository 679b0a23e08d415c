#!/bin/bash
# --objective dpo as a person meets it: what the log has, the same bits at every stage, tier and order of micro-batches and after an
# interruption, what packing keeps together, and what is refused by name. Numbers are held to TRL's by tests/parity/test_dpo.sh.
# test_dpo.sh ZINC SOURCE BUILD
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

# run NAME FLAGS…: trains adapters of $model into the folder NAME
run()
{
    local name=$1
    shift
    "$zinc" train --model "$model" --data pairs.jsonl --byte-tokenizer --objective dpo --seq-len 40 --micro-batch 2 --accumulate 2 --lr 1e-2 \
        --threads 1 --allow-buffered-swap --output "$name" "$@" >"$name.out" 2>"$name.err" ||
        fail "$name: zinc train $* failed: $(tail -1 "$name.err")"
}

columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*\("accuracy":[^,]*,"margin":[^,]*\),.*/\1,\2/p' "$1/metrics.jsonl"
}

# same NAME NAME: two runs have the same bits
same()
{
    [ "$(columns "$1" | wc -l)" -ge 2 ] || fail "$1: $(columns "$1" | wc -l) lines of metrics"
    cmp -s <(columns "$1") <(columns "$2") || fail "$1 and $2 differ in loss, norm, accuracy or margin"
    cmp -s "$1/adapter_model.safetensors" "$2/adapter_model.safetensors" || fail "$1 and $2 differ in their adapters"
}

# refused CODE TEXT FLAGS…
refused()
{
    local code=$1 text=$2 got
    shift 2
    "$zinc" train --model "$model" --byte-tokenizer --seq-len 40 --threads 1 --output refused "$@" >refused.out 2>refused.err
    got=$?
    [ $got = "$code" ] || fail "$*: code $got, not $code"
    grep -q -- "$text" refused.err || fail "$*: does not say '$text': $(cat refused.err)"
}

letter()
{
    printf "\\x$(printf %x $((65 + $1 % 26)))"
}

for i in $(seq 0 23); do
    prompt= chosen= rejected=
    for k in $(seq 0 $((i % 5))); do prompt+=$(letter $((i * 7 + k * 3))); done
    for k in $(seq 0 $((i * 3 % 7))); do chosen+=$(letter $((i * 5 + k * 9))); done
    for k in $(seq 0 $((i * 11 % 6))); do rejected+=$(letter $((i * 3 + k * 7 + 1))); done
    echo "{\"prompt\": \"$prompt\", \"chosen\": \"$chosen\", \"rejected\": \"$rejected\"}"
done >pairs.jsonl
lora=(--lora-rank 4 --steps 4)
nvme=(--stage 3 --offload-param nvme --offload-optimizer nvme --offload-gradients nvme --persist-below 0)
model=$data/llama3

# ---- What the log has ----

run reference "${lora[@]}" --recompute off
head -1 reference/metrics.jsonl | grep -q '"loss":0.69314718' || fail "an adapter that does nothing has not the loss log 2"
head -1 reference/metrics.jsonl | grep -q '"accuracy":0,"margin":0,' || fail "an adapter that does nothing prefers something"
tail -1 reference/metrics.jsonl | grep -q '"accuracy":[01]' || fail "no accuracy in the log"
awk -F'[:,]' 'NR == 1 { a = $4 } { b = $4 } END { exit !(b < a) }' reference/metrics.jsonl || fail "the loss does not fall"
grep -q -- '--data: 24 pairs in' reference.err || fail "pairs are not counted: $(cat reference.err)"
grep -q '"objective": "dpo"' reference/run.json || fail "run.json does not tell"
grep -q "perplexity" reference/README.md && fail "the card has a perplexity of pairs"
# targets counts both answers: bytes of chosen and rejected, once an epoch (where there is no end-of-text id).
n=$(sed 's/.*"chosen": "\([A-Z]*\)", "rejected": "\([A-Z]*\)".*/\1\2/' pairs.jsonl | tr -d '\n' | wc -c)
windows=$(sed -n 's/.*24 pairs in \([0-9]*\) windows.*/\1/p' reference.err)
"$zinc" train --model "$model" --data pairs.jsonl --byte-tokenizer --objective dpo --seq-len 40 --lora-rank 4 --steps 1 --accumulate "$windows" \
    --threads 1 --output epoch-once >epoch.out 2>epoch.err || fail "epoch: $(tail -1 epoch.err)"
grep -q "\"targets\":$n," epoch-once/metrics.jsonl || fail "targets are not $n: $(grep -o '"targets":[0-9]*' epoch-once/metrics.jsonl)"

# ---- Bits ----

run recompute "${lora[@]}" --recompute on --offload-activations nvme
same reference recompute
run nvme "${lora[@]}" "${nvme[@]}"
same reference nvme
run tiles "${lora[@]}" "${nvme[@]}" --tile-limit 4KiB
same reference tiles
run last "${lora[@]}" --reduce last
run vertical "${lora[@]}" --schedule vertical --reduce last
same last vertical
run vertical-nvme "${lora[@]}" --schedule vertical --stage 3 --offload-param nvme --offload-optimizer nvme
same reference vertical-nvme
run clip "${lora[@]}" --clip 0
run backward "${lora[@]}" --clip 0 --optimizer-in-backward --stage 3 --offload-param cpu --offload-optimizer nvme
same clip backward
run delayed "${lora[@]}" --delayed-update=1
run delayed-nvme "${lora[@]}" --delayed-update=1 "${nvme[@]}"
same delayed delayed-nvme
for stage in 0 1 2 3; do
    run ranks-$stage "${lora[@]}" --stage $stage --reduce every -n 2
    same ranks-0 ranks-$stage
done
run ranks-nvme "${lora[@]}" "${nvme[@]}" --reduce every -n 2
same ranks-0 ranks-nvme
run ranks-tiers "${lora[@]}" --stage 2 --offload-optimizer cpu --reduce every -n 2
same ranks-0 ranks-tiers

# One pair a window, and several: the loss of a step over all pairs is the same up to rounding.
once=(--lora-rank 4 --steps 2 --threads 1 --no-shuffle)
"$zinc" train --model "$model" --data pairs.jsonl --byte-tokenizer --objective dpo --seq-len 40 --lr 1e-2 --accumulate 24 --packing none \
    --output none "${once[@]}" >none.out 2>none.err || fail "none: $(tail -1 none.err)"
"$zinc" train --model "$model" --data pairs.jsonl --byte-tokenizer --objective dpo --seq-len 40 --lr 1e-2 --accumulate "$windows" \
    --output packed "${once[@]}" >packed.out 2>packed.err || fail "packed: $(tail -1 packed.err)"
a=$(sed -n '2s/.*"loss":\([^,]*\),.*/\1/p' none/metrics.jsonl) b=$(sed -n '2s/.*"loss":\([^,]*\),.*/\1/p' packed/metrics.jsonl)
awk -v a="$a" -v b="$b" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-10) }' || fail "the loss after a step is $b packed, $a one by one"

# GPT-2 has learned positions and tied embeddings; a 16-bit base.
model=$data/gpt2
run gpt2 "${lora[@]}"
run gpt2-nvme "${lora[@]}" "${nvme[@]}" --tile-limit 4KiB
same gpt2 gpt2-nvme
model=$data/llama3
"$zinc" train --model "$model" --data "$data/tokens.bin" --seq-len 16 --steps 1 --output-dtype bf16 --output bf16 >/dev/null 2>&1
model=bf16
run bf16-run "${lora[@]}"
run bf16-nvme "${lora[@]}" "${nvme[@]}"
same bf16-run bf16-nvme
head -1 bf16-run/metrics.jsonl | grep -q '"loss":0.69314718' || fail "bf16: an adapter that does nothing has not the loss log 2"
model=$data/llama3

# A quantised base: the reference reads the same units.
for type in int8 nf4; do
    run $type "${lora[@]}" --base-quantize $type
    head -1 $type/metrics.jsonl | grep -q '"loss":0.69314718' || fail "$type: an adapter that does nothing has not the loss log 2"
    run $type-nvme "${lora[@]}" "${nvme[@]}" --base-quantize $type
    same $type $type-nvme
done
cmp -s <(columns reference) <(columns nf4) && fail "nf4: the base is not quantised"

# ---- Going on ----

run whole --lora-rank 4 --steps 6
run part --lora-rank 4 --steps 3 --save all
run part --lora-rank 4 --steps 6 --resume "${nvme[@]}"
same whole part
run ranks-whole --lora-rank 4 --steps 6 -n 2 --stage 0 --reduce every
run ranks-part --lora-rank 4 --steps 3 -n 2 --stage 3 --save all
run ranks-part --lora-rank 4 --steps 6 -n 2 --stage 1 --reduce every --resume
same ranks-whole ranks-part
refused 1 "objective dpo" --data pairs.jsonl --lora-rank 4 --steps 8 --resume=part/checkpoints/step-00000003
echo '{"prompt": "A", "completion": "B"}' >rows.jsonl
refused 2 "not the same" --data rows.jsonl --lora-rank 4 --steps 8 --resume=part/checkpoints/step-00000003

# An adapter that goes on: the reference is the model without it.
run again --adapter whole --steps 1
head -1 again/metrics.jsonl | grep -q '"accuracy":1' || fail "again: $(head -1 again/metrics.jsonl)"

# ---- Held-out pairs ----

held=(--lora-rank 4 --steps 40 --eval-split 0.25 --eval-every 2 --early-stop 2 --dpo-beta 0.5)
run held "${held[@]}"
sed -n 1p held/metrics.jsonl | grep -q '"eval_loss":0.69314718' || fail "held: $(head -1 held/metrics.jsonl)"
grep -q -- '--eval-split: 6 pairs' held.err || fail "held: $(cat held.err)"
grep -q "the output has the weights of step" held.err || fail "held: does not stop early"
run held-nvme "${held[@]}" "${nvme[@]}"
same held held-nvme
cmp -s <(grep -o '"eval_loss":[^,}]*' held/metrics.jsonl) <(grep -o '"eval_loss":[^,}]*' held-nvme/metrics.jsonl) || fail "held-out losses differ"
run held-last "${held[@]}" --reduce last
run held-vertical "${held[@]}" --schedule vertical
same held-last held-vertical

# ---- The plan counts the reference ----

shape=(--stage 3 --offload-param nvme --offload-optimizer none --persist-below 0 --recompute on --precision fp32 --tile-limit 0
    --prefetch-bytes 64KiB --reduce every --lora-rank 4)
planned()
{
    "$zinc" plan --model "$model" --ranks 2 --seq-len 40 --micro-batch 2 --accumulate 2 --json "${shape[@]}" "$@" 2>plan.err |
        sed 's/.*"traffic":{"gather":\([0-9]*\),"reduce":\([0-9]*\).*/\1 \2/'
}
run traffic "${shape[@]}" --steps 1 -n 2
read -r gather reduce <<<"$(planned --objective dpo)"
grep -q "\"comm_bytes\":$((gather + reduce))," traffic/metrics.jsonl ||
    fail "planned $gather + $reduce bytes, $(grep -o '"comm_bytes":[0-9]*' traffic/metrics.jsonl) were sent: $(cat plan.err)"
[ "$gather" -gt "$(planned | cut -d' ' -f1)" ] || fail "the plan has no gathers of the reference"
"$zinc" plan --model "$model" --lora-rank 4 --objective dpo --program | grep -q '^== reference:' || fail "the program has no reference"
"$zinc" plan --model "$model" --objective dpo >plan.out 2>plan.err && fail "plan --objective dpo without adapters"
grep -q "needs --lora-rank" plan.err || fail "plan: $(cat plan.err)"

# ---- Refused ----

dpo=(--objective dpo --steps 1)
refused 2 "needs adapters" "${dpo[@]}" --data pairs.jsonl
refused 2 "needs --objective dpo" --data pairs.jsonl --dpo-beta 0.2
refused 2 "--packing stream" "${dpo[@]}" --data pairs.jsonl --lora-rank 2 --packing stream
refused 2 "--truncate-rows" "${dpo[@]}" --data pairs.jsonl --lora-rank 2 --truncate-rows
refused 2 "--keep-logits" "${dpo[@]}" --data pairs.jsonl --lora-rank 2 --keep-logits on
refused 1 "--tensor-parallel 2: not in this build with --lora-rank" "${dpo[@]}" --data pairs.jsonl --lora-rank 2 --tensor-parallel 2 -n 2
refused 2 "--dpo-beta" "${dpo[@]}" --data pairs.jsonl --lora-rank 2 --dpo-beta 0
refused 2 "--objective" --objective ppo --data pairs.jsonl
refused 1 "takes rows with" "${dpo[@]}" --data "$data/tokens.bin" --lora-rank 2
echo '{"prompt": "A", "completion": "B"}' >rows.jsonl
refused 1 "the row has no 'chosen'" "${dpo[@]}" --data rows.jsonl --lora-rank 2
echo '{"chosen": "A", "rejected": "B"}' >rows.jsonl
refused 1 "'prompt'" "${dpo[@]}" --data rows.jsonl --lora-rank 2
echo '{"prompt": "A", "chosen": [{"role": "assistant", "content": "B"}], "rejected": "C"}' >rows.jsonl
refused 1 "all texts, or all lists" "${dpo[@]}" --data rows.jsonl --lora-rank 2
echo '{"prompt": "ABCDEFGHIJKLMNOPQRSTUV", "chosen": "BA", "rejected": "C"}' >rows.jsonl
refused 1 "1 of 1 pairs are too long for --seq-len 40.*give --seq-len 45" "${dpo[@]}" --data rows.jsonl --lora-rank 2
refused 1 "objective dpo" --data pairs.jsonl --steps 1
echo '{"q": "A", "good": "BB", "bad": "C"}' >rows.jsonl
"$zinc" train --model "$model" --byte-tokenizer --seq-len 40 --threads 1 --output mapped "${dpo[@]}" --data rows.jsonl --lora-rank 2 \
    --map prompt=q chosen=good rejected=bad >mapped.out 2>mapped.err || fail "--map: $(tail -1 mapped.err)"

[ $failures = 0 ] && echo "test_dpo: all cases passed"
exit $((failures > 0))

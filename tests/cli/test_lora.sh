#!/bin/bash
# Adapters as a person meets them: a PEFT folder comes out and goes in, bits do not depend on stages, tiers and interruptions, and what
# does not fit is refused by name. Numbers are held to PEFT's by tests/parity/test_lora.sh.
# test_lora.sh ZINC SOURCE BUILD
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
    "$zinc" train --model "$model" --data "$data/tokens.bin" --seq-len 16 --micro-batch 2 --accumulate 2 --lr 1e-2 --threads 1 \
        --allow-buffered-swap --output "$name" "$@" >"$name.out" 2>"$name.err" ||
        fail "$name: zinc train $* failed: $(tail -1 "$name.err")"
}

columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# same NAME NAME: two runs have the same bits
same()
{
    [ "$(columns "$1" | wc -l)" -ge 2 ] || fail "$1: $(columns "$1" | wc -l) lines of metrics"
    cmp -s <(columns "$1") <(columns "$2") || fail "$1 and $2 differ in loss or norm"
    cmp -s "$1/adapter_model.safetensors" "$2/adapter_model.safetensors" || fail "$1 and $2 differ in their adapters"
}

# refused CODE TEXT COMMAND…
refused()
{
    local code=$1 text=$2 got
    shift 2
    "$zinc" "$@" >refused.out 2>refused.err
    got=$?
    [ $got = "$code" ] || fail "$*: code $got, not $code"
    grep -q -- "$text" refused.err || fail "$*: does not say '$text': $(cat refused.err)"
}

loss()
{
    "$zinc" eval --data "$data/tokens.bin" --seq-len 16 --threads 1 --allow-buffered-swap --json "$@" 2>eval.err |
        sed 's/.*"loss":\([0-9.]*\).*/\1/'
}

# near A B: within 1e-5
near()
{
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-10 * a * a) }' || fail "$3: $1 is not $2"
}

lora=(--lora-rank 4)
nvme=(--stage 3 --offload-param nvme --offload-optimizer nvme --offload-gradients nvme)

# ---- What is written ----

model=$data/gpt2
run gpt2 "${lora[@]}" --steps 4
files=$(ls gpt2 | tr '\n' ' ')
[ "$files" = "README.md adapter_config.json adapter_model.safetensors metrics.jsonl run.json summary.txt tensorboard " ] || fail "gpt2 holds $files"
grep -q '"fan_in_fan_out": true' gpt2/adapter_config.json || fail "gpt2: fan_in_fan_out is not true"
grep -q '"target_modules": \["c_attn", "c_proj", "c_fc"\]' gpt2/adapter_config.json || fail "gpt2: $(grep target gpt2/adapter_config.json)"
grep -q '"lora_alpha": 8,' gpt2/adapter_config.json || fail "gpt2: alpha is not twice the rank"
grep -aq 'base_model.model.transformer.h.0.attn.c_attn.lora_A.weight' gpt2/adapter_model.safetensors || fail "gpt2: other names"
grep -q '"lr":0.01' gpt2/metrics.jsonl || fail "gpt2: another learning rate"
run targets "${lora[@]}" --steps 4 --lora-targets attention --lora-rs --lora-alpha 3
grep -q '"target_modules": \["c_attn", "attn.c_proj"\]' targets/adapter_config.json || fail "targets: $(grep target targets/adapter_config.json)"
grep -q '"use_rslora": true' targets/adapter_config.json || fail "targets: not rank-stabilised"
run one "${lora[@]}" --steps 4 --lora-targets 'transformer.h.0.mlp.*'
grep -q '"target_modules": \["0.mlp.c_fc", "0.mlp.c_proj"\]' one/adapter_config.json || fail "one: $(grep target one/adapter_config.json)"
"$zinc" train --model "$model" --data "$data/tokens.bin" --lora-rank 2 --steps 1 --seq-len 16 --output rate >/dev/null 2>&1
grep -q '"lr":0.0002' rate/metrics.jsonl || fail "the default learning rate of adapters is not 2e-4"

# ---- Bits ----

run gpt2-nvme "${lora[@]}" --steps 4 "${nvme[@]}" --tile-limit 4KiB --persist-below 0
same gpt2 gpt2-nvme
model=$data/llama3
run reference "${lora[@]}" --steps 4 --recompute off
run recompute "${lora[@]}" --steps 4 --recompute on --offload-activations nvme
run vertical "${lora[@]}" --steps 4 --schedule vertical --reduce last
run nvme "${lora[@]}" --steps 4 "${nvme[@]}" --persist-below 0
run last "${lora[@]}" --steps 4 --reduce last
same reference recompute
same reference nvme
same last vertical
run clip "${lora[@]}" --steps 4 --clip 0
run backward "${lora[@]}" --steps 4 --clip 0 --optimizer-in-backward --stage 3 --offload-param cpu --offload-optimizer nvme
same clip backward
run delayed "${lora[@]}" --steps 4 --delayed-update=1
run delayed-nvme "${lora[@]}" --steps 4 --delayed-update=1 "${nvme[@]}"
same delayed delayed-nvme
for stage in 0 1 2 3; do
    run ranks-$stage "${lora[@]}" --steps 4 --stage $stage --reduce every -n 2
    same ranks-0 ranks-$stage
done

# A 16-bit base stays in its type; adapters are fp32.
"$zinc" train --model "$model" --data "$data/tokens.bin" --seq-len 16 --steps 1 --output-dtype bf16 --output bf16 >/dev/null 2>&1
model=bf16
run bf16-run "${lora[@]}" --steps 4
run bf16-nvme "${lora[@]}" --steps 4 "${nvme[@]}"
same bf16-run bf16-nvme
grep -aq '"dtype":"F32"' bf16-run/adapter_model.safetensors || fail "bf16: adapters are not fp32"
run bf16-half "${lora[@]}" --steps 4 --output-dtype bf16
grep -aq '"dtype":"BF16"' bf16-half/adapter_model.safetensors || fail "--output-dtype bf16 of adapters is not"
a=$(loss --model bf16 --adapter bf16-run)
[ "$a" = "$(loss --model bf16 --adapter bf16-run --offload-param nvme)" ] || fail "eval from NVMe has another loss"
near "$a" "$(loss --model bf16 --adapter bf16-run -n 2)" "eval on two ranks"

# ---- Going on ----

model=$data/llama3
run whole "${lora[@]}" --steps 6
run part "${lora[@]}" --steps 3 --save all
run part "${lora[@]}" --steps 6 --resume "${nvme[@]}"
same whole part
run ranks-whole "${lora[@]}" --steps 6 -n 2 --stage 0 --reduce every
run ranks-part "${lora[@]}" --steps 3 -n 2 --stage 3 --save all --delayed-update=9
run ranks-part "${lora[@]}" --steps 6 -n 2 --stage 1 --reduce every --resume --delayed-update=9
same ranks-whole ranks-part
run half "${lora[@]}" --steps 3 --save all --output-dtype bf16
run half "${lora[@]}" --steps 6 --resume --output-dtype bf16
cmp -s <(columns whole) <(columns half) || fail "masters of adapters that are stored in bf16 are lost"
files=$(ls part/checkpoints/step-00000003 | tr '\n' ' ')
[ "$files" = "adapter_config.json adapter_model.safetensors manifest.json optimizer-00001-of-00001.safetensors state.json " ] ||
    fail "a checkpoint holds $files"
run again --adapter whole --steps 2
cmp -s whole/adapter_model.safetensors again/adapter_model.safetensors && fail "--adapter trains nothing"
a=$(sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' again/metrics.jsonl)
b=$(sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' whole/metrics.jsonl)
[ "$a" != "$b" ] || fail "--adapter begins anew"

common=(train --data "$data/tokens.bin" --seq-len 16 --micro-batch 2 --accumulate 2 --lr 1e-2 --steps 8 --output part --resume)
refused 2 "another --lora-rank" "${common[@]}" --model "$model" --lora-rank 8
refused 2 "another --lora-alpha" "${common[@]}" --model "$model" --lora-rank 4 --lora-alpha 5
refused 2 "another --lora-targets" "${common[@]}" --model "$model" --lora-rank 4 --lora-targets mlp
refused 2 "lora-rs" "${common[@]}" --model "$model" --lora-rank 4 --lora-rs
refused 2 "with adapters, this run has none" "${common[@]}" --model "$model"
refused 2 "are not those that the adapters" "${common[@]}" --model bf16 --lora-rank 4
refused 2 "of another model" "${common[@]}" --model "$data/gpt2" --lora-rank 4
run full --steps 2 --save all
refused 2 "without adapters, this run has some" train --data "$data/tokens.bin" --seq-len 16 --model "$model" --steps 3 --resume \
    --lora-rank 4 --output full

"$zinc" checkpoint list part >list.out || fail "checkpoint list"
"$zinc" checkpoint verify part >verify.out || fail "checkpoint verify"
"$zinc" checkpoint inspect part | grep -q 'lora_B.weight.exp_avg$' || fail "checkpoint inspect shows no states of adapters"
"$zinc" checkpoint export half/checkpoints/step-00000003 --dtype fp32 --output exported >/dev/null || fail "checkpoint export"
cmp -s exported/adapter_model.safetensors part/checkpoints/step-00000003/adapter_model.safetensors || fail "the export has other adapters"
cmp -s exported/adapter_config.json part/adapter_config.json || fail "the export has another configuration"

# ---- Merging ----

a=$(loss --model "$model" --adapter whole)
"$zinc" merge --model "$model" --adapter whole --output merged --output-dtype fp32 >/dev/null 2>merge.err || fail "merge: $(cat merge.err)"
near "$a" "$(loss --model merged)" "the merged model's loss"
[ "$a" != "$(loss --model "$model")" ] || fail "the adapter changes nothing"
refused 2 "holds a model already" merge --model "$model" --adapter whole --output merged
refused 2 "no linear layer of the blocks" merge --model "$model" --adapter gpt2 --output wrong
[ -e wrong/model.safetensors ] && fail "a failed merge leaves a model"
cp -r "$data/gpt2" base
"$zinc" merge --model base --adapter gpt2 --output gpt2-merged --output-dtype fp32 >/dev/null || fail "merge of gpt2"
near "$(loss --model base --adapter gpt2)" "$(loss --model gpt2-merged)" "gpt2 merged"
echo '{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"post_processor":null,
"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}' | tee base/tokenizer.json >gpt2-merged/tokenizer.json
"$zinc" export --model base --adapter gpt2 --gguf f32 --name x --output a.gguf >/dev/null 2>&1 || fail "export --adapter"
"$zinc" export --model gpt2-merged --gguf f32 --name x --output b.gguf >/dev/null 2>&1 || fail "export of the merged model"
cmp a.gguf b.gguf || fail "export --adapter is not the export of the merged model"

# ---- Refused ----

new=(train --model "$model" --data "$data/tokens.bin" --seq-len 16 --steps 1 --output refused)
refused 2 "needs --lora-rank" "${new[@]}" --lora-alpha 8
refused 2 "needs --lora-rank" "${new[@]}" --lora-rs
refused 2 "has its own rank" "${new[@]}" --adapter whole --lora-rank 4
refused 2 "--freeze does not go with adapters" "${new[@]}" --lora-rank 4 --freeze '*norm*'
refused 2 "--lora-targets 'no_such'" "${new[@]}" --lora-rank 4 --lora-targets no_such
refused 2 "--lora-dropout\`: not in this build" "${new[@]}" --lora-rank 4 --lora-dropout 0.1
refused 2 "--use-dora\`: not in this build" "${new[@]}" --lora-rank 4 --use-dora
refused 2 "--neftune\`: not in this build" "${new[@]}" --neftune 5
refused 2 "--lora-targets needs --lora-rank" plan --model "$model" --lora-targets mlp
refused 1 "no such folder" "${new[@]}" --adapter nowhere
refused 1 "another base or rank" eval --model "$data/llama2" --data "$data/tokens.bin" --adapter whole

# broken TEXT SCRIPT: a change of adapter_config.json that is refused by name
broken()
{
    rm -rf peft
    cp -r whole peft
    sed -i "$2" peft/adapter_config.json
    refused 1 "$1" eval --model "$model" --data "$data/tokens.bin" --seq-len 16 --adapter peft
}
broken 'DoRA' 's/"use_dora": false/"use_dora": true/'
broken '"modules_to_save"' 's/"modules_to_save": null/"modules_to_save": ["lm_head"]/'
broken '"rank_pattern"' 's/"rank_pattern": {}/"rank_pattern": {"q_proj": 2}/'
broken '"alpha_pattern"' 's/"alpha_pattern": {}/"alpha_pattern": {"q_proj": 2}/'
broken 'trained bias' 's/"bias": "none"/"bias": "lora_only"/'
broken '"peft_type"' 's/"LORA"/"IA3"/'
broken '"init_lora_weights"' 's/"init_lora_weights": true/"init_lora_weights": "pissa"/'
rm -rf peft
cp -r whole peft
sed -i 's/"lora_dropout": 0.0/"lora_dropout": 0.1/' peft/adapter_config.json
near "$a" "$(loss --model "$model" --adapter peft)" "an adapter with dropout"
[ "$(grep -c 'dropout of 0.1: it is not applied' eval.err)" = 1 ] || fail "dropout is not said once: $(cat eval.err)"
cp -r "$model" texts
cp base/tokenizer.json texts
"$zinc" generate --model texts --adapter whole --prompt ab --max-tokens 4 --json >generate.out 2>generate.err ||
    fail "generate --adapter: $(cat generate.err)"

# ---- The plan counts them ----

"$zinc" plan --model "$model" --seq-len 16 --lora-rank 4 --stage 0 --recompute off --micro-batch 2 --cluster cpu-server --ranks 1 --json >plan.json 2>plan.err ||
    fail "plan: $(cat plan.err)"
planned=$(sed -n 's/.*"states":{"parameters":\([0-9]*\),"gradients":\([0-9]*\),"optimizer":\([0-9]*\).*/\1 \2 \3/p' plan.json | head -1)
run planned --lora-rank 4 --steps 1 --stage 0
held=$(sed -n 's/.*"states":{"parameters":\([0-9]*\),"gradients":\([0-9]*\),"optimizer":\([0-9]*\).*/\1 \2 \3/p' planned/metrics.jsonl)
[ -n "$held" ] && [ "$planned" = "$held" ] || fail "states of the plan are '$planned', of the run '$held'"
grep -q '"lora-rank":4' plan.json || fail "the plan's settings have no --lora-rank"

echo "$failures failures"
((failures == 0))

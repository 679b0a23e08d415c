#!/bin/bash
# `zinc train --config ds_config.json`: six files as DeepSpeed's and Accelerate's documentation has them come to these settings, the
# command line stands above them, keys without effect are named with their place, and what is not understood is refused.
# test_deepspeed.sh ZINC SOURCE BUILD
set -u
zinc=$1 files=$2/tests/data/deepspeed data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# show FILE WORDS…: the settings that the file gives, "flag: value", sorted; all of it stays in `printed`
show()
{
    local file=$1
    shift
    "$zinc" train --model m --data d --config "$file" --print-config "$@" >printed 2>err || fail "$file $*: $(cat err)"
    sed -nE "s|^(# )?([a-z0-9-]+: .*[^ ]) +# ($file\|follows from the others)\$|\2|p" printed | sort
}

# comes_to FILE WORDS… <table
comes_to()
{
    local file=$1
    cp "$files/$file" .
    show "$@" >got
    sort >want
    diff want got >difference || fail "$*: $(cat difference)"
}

# notes FILE TEXT: the file's last table has this line
notes()
{
    grep -qxF "# $1: $2" printed || fail "$1: no note '$2' in: $(grep "^# $1" printed)"
}

comes_to stage2_offload.json -n 2 <<'TABLE'
global-batch: 16
micro-batch: 4
accumulate: 2
optimizer: adamw
lr: 3e-05
beta1: 0.8
beta2: 0.999
eps: 1e-08
weight-decay: 3e-07
lr-schedule: WarmupLR
warmup: 500
warmup-type: log
warmup-min-lr: 0
clip: 1
precision: bf16
stage: 2
offload-optimizer: cpu
TABLE
notes stage2_offload.json 'line 29, column 9: zero_optimization.overlap_comm: has no effect: gathers and reductions always run beside computing'
notes stage2_offload.json "line 7, column 13: optimizer.params.lr: has no effect: the scheduler's warmup_max_lr is the learning rate"
notes stage2_offload.json "scheduler.params.warmup_type: is not there: log, DeepSpeed's default"

comes_to stage3_nvme.json <<'TABLE'
global-batch: 6
micro-batch: 3
accumulate: 2
optimizer: adam
lr: 0.001
weight-decay: 0.01
clip: 0.5
precision: bf16
recompute: on
stage: 3
offload-param: nvme
offload-optimizer: nvme
offload-activations: cpu
nvme-path: ["/local_nvme"]
TABLE
notes stage3_nvme.json 'line 33, column 9: aio.block_size: has no effect: block size and queue depth are measured on the drive'

comes_to fp16.json -n 4 <<'TABLE'
global-batch: 8
micro-batch: 2
accumulate: 1
optimizer: sgd
lr: 0.00015
momentum: 0.9
clip: 0
precision: fp16
loss-scale: dynamic
loss-scale-init: 4096
loss-scale-window: 500
hysteresis: 4
loss-scale-min: 2
stage: 1
TABLE
notes fp16.json 'gradient_clipping: is not there: off, as in DeepSpeed'

comes_to bf16_scheduler.json <<'TABLE'
global-batch: 8
micro-batch: 2
accumulate: 4
optimizer: adamw
lr: 0.0006
beta1: 0.9
beta2: 0.95
lr-schedule: WarmupCosineLR
warmup: 100
warmup-type: linear
warmup-min-lr: 5.9999999999999995e-05
min-lr-ratio: 0.01
decay-steps: 1000
clip: 0
precision: bf16
stage: 3
TABLE

comes_to auto.json --lr 0.01 <<'TABLE'
global-batch: 1
optimizer: adamw
lr-schedule: WarmupDecayLR
warmup-type: log
loss-scale: dynamic
loss-scale-init: 65536
loss-scale-window: 1000
hysteresis: 2
loss-scale-min: 1
stage: 3
offload-param: none
offload-optimizer: none
TABLE
notes auto.json 'line 20, column 13: scheduler.params.warmup_max_lr: "auto": --lr, which is given'
notes auto.json 'line 13, column 51: optimizer.params.eps: "auto": --eps, by default 1e-8'
notes auto.json 'line 10, column 14: bf16.enabled: "auto": --precision, by default bf16 if the folder is 16-bit, else fp32'

comes_to muon.json <<'TABLE'
global-batch: 1
micro-batch: 1
optimizer: muon
lr: 0.02
beta2: 0.95
eps: 1e-10
momentum: 0.9
muon-scale: original
clip: 0
precision: fp32
TABLE
notes muon.json "optimizer.params.betas: is not there: 0.9 and 0.95, DeepSpeed's default"
notes muon.json "optimizer.params.eps: is not there: 1e-10, DeepSpeed's default"

# ---- The command line stands above the file ----
for words in '--lr 0.5' '--stage 0' '--precision fp32' '--warmup-type linear' '--optimizer sgd' '--clip 3'; do
    read -r flag value <<<"$words"
    show stage2_offload.json "$flag" "$value" >/dev/null
    grep -qE "^${flag#--}: $value +# command line$" printed || fail "$words does not stand: $(grep "^${flag#--}" printed)"
done
show bf16_scheduler.json --lr 0.01 >got
grep -qx 'warmup-min-lr: 0.001' got || fail "a ratio is not one of the rate that is given: $(cat got)"
show bf16_scheduler.json --min-lr 0 >got
grep -q min-lr-ratio got && fail "--min-lr and a ratio: $(cat got)"
show bf16_scheduler.json --lr-schedule constant >got
grep -qE 'warmup|decay|ratio' got && fail "another schedule keeps the file's: $(cat got)"
show auto.json --global-batch 6 --accumulate 3 -n 2 >/dev/null
grep -qE '^# micro-batch: 1 ' printed || fail "the batch is not solved: $(grep batch printed)"

# ---- What is refused, with its place ----
# refused JSON TEXT WORDS…
refused()
{
    local text=$2 code
    printf '%s\n' "$1" >bad.json
    shift 2
    "$zinc" train --model m --data d --config bad.json --print-config "$@" >out 2>err
    code=$?
    [ $code = 2 ] && [ "$(wc -l <err)" = 1 ] && [ ! -s out ] || fail "$text: code $code: $(head -3 err out)"
    grep -qF -- "zinc train: $text" err || fail "no '$text' in: $(cat err)"
}
at='bad.json: line 1, column'
refused '{"train_batch_size": 8, "gradient_cliping": 1}' "$at 25: gradient_cliping: unknown, did you mean gradient_clipping"
refused '{"zero_optimization": {"stage": 3, "stage3_max_live_paramters": 1}}' \
    "$at 36: zero_optimization.stage3_max_live_paramters: unknown, did you mean stage3_max_live_parameters"
refused '{"zero_optimization": {"stage": 4}}' "$at 24: zero_optimization.stage: '4' is not one of: 0 1 2 3"
refused '{"zero_optimization": 3}' "$at 2: zero_optimization: is an object"
refused '{"train_batch_size": "8"}' "$at 2: train_batch_size: is a whole number"
refused '{"fp16": {"enabled": true}, "bf16": {"enabled": true}}' "$at 38: bf16.enabled: fp16 is enabled, too"
refused '{"fp16": {"enabled": "yes"}}' "$at 11: fp16.enabled: is true, false or"
refused '{"optimizer": {"params": {"lr": 1}}}' "$at 2: optimizer: has no \"type\""
refused '{"optimizer": {"type": "Lamb", "params": {"max_coeff": 1}}}' "$at 16: optimizer.type: Lamb: not in this build"
refused '{"optimizer": {"type": "Adam", "params": {"lr": 1, "amsgrad": true}}}' "$at 52: optimizer.params.amsgrad: AMSGrad is not in"
refused '{"optimizer": {"type": "Adam", "params": {"lr": 1, "betas": [0.9]}}}' "$at 52: optimizer.params.betas: is a list of two"
refused '{"optimizer": {"type": "Adam", "params": {"lr": 1, "betas": [0.9, 1]}}}' "$at 52: optimizer.params.betas: 1 is not in [0, 1)"
refused '{"optimizer": {"type": "Muon", "params": {"lr": 1, "adam_lr": 2}}}' "$at 52: optimizer.params.adam_lr: is not lr: one rate is for both"
for type in OneCycle LRRangeTest; do
    refused "{\"scheduler\": {\"type\": \"$type\", \"params\": {\"cycle_min_lr\": 1}}}" "$at 16: scheduler.type: $type: not in this build"
done
refused '{"scheduler": {"type": "WarmupDecayLR", "params": {}}}' "$at 2: scheduler: WarmupDecayLR needs \"total_num_steps\""
refused '{"scheduler": {"type": "WarmupLR", "params": {"cos_min_ratio": 1}}}' "$at 47: scheduler.params.cos_min_ratio: WarmupLR does not"
refused '{"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 9, "warmup_min_ratio": 0.5}}}' \
    "$at 75: scheduler.params.warmup_min_ratio: needs the learning rate"
refused '{"communication_data_type": "fp32", "bf16": {"enabled": true}}' "$at 2: communication_data_type: gradients go between"
refused '{"zero_optimization": {"zero_quantized_weights": true}}' "$at 24: zero_optimization.zero_quantized_weights: ZeRO++ is not in"
refused '{"zero_optimization": {"zero_hpz_partition_size": 8}}' "$at 24: zero_optimization.zero_hpz_partition_size: ZeRO++ is not"
refused '{"elasticity": {"enabled": true}, "bf16": {"enabled": true}}' "$at 2: elasticity: not in this build"
refused '{"train_batch_size": 8, "zinc": {}}' "$at 25: zinc: unknown"
refused '{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}' "--global-batch 7: no --accumulate gives it"
refused '{"train_batch_size": 8, "gradient_accumulation_steps": 3}' "--global-batch 8: no --micro-batch gives it"
refused '{"train_batch_size": 8, "gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 2}' \
    "--global-batch 8 is not --micro-batch 2 × --accumulate 4 × 2 ranks" -n 2

# What changes nothing is taken.
cat >neutral.json <<'JSON'
{"train_batch_size": 1, "elasticity": {"enabled": false}, "prescale_gradients": false, "gradient_predivide_factor": 1.0,
 "amp": {"enabled": false}, "zero_optimization": {"zero_hpz_partition_size": 1, "cpu_offload": true, "mics_shard_size": -1,
 "offload_param": {"device": "cpu", "nvme_path": "/x"}}, "data_types": {"grad_accum_dtype": "fp32"}, "optimizer": {"type": "adam"}}
JSON
show neutral.json >got
for line in 'offload-optimizer: cpu' 'offload-param: cpu' 'precision: fp32' 'lr: 0.001' 'clip: 0'; do
    grep -qxF "$line" got || fail "neutral.json: no '$line' in: $(cat got)"
done

# ---- A run ----
cat >run.json <<'JSON'
{"train_batch_size": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 1, "overlap_comm": true},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.5, "weight_decay": 0}},
 "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 6, "warmup_max_lr": 0.001, "warmup_num_steps": 3,
 "warmup_type": "linear"}}}
JSON
"$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --config run.json --seq-len 16 --steps 8 --threads 1 --output run \
    >out 2>err || fail "run.json: $(cat err)"
grep -qF 'zinc train: run.json: line 1, column 93: zero_optimization.overlap_comm: has no effect' err || fail "no note: $(cat err)"
python3 - <<'PYTHON' || fail "run.json: the run"
import json
run = json.load(open("run/run.json"))
assert (run["micro_batch"], run["accumulate"], run["global_batch"], run["clip"]) == (2, 2, 4, 0), run
assert (run["stage"], run["precision"], run["lr_schedule"], run["decay_steps"]) == (1, "fp32", "WarmupDecayLR", 6), run
rates = [json.loads(line)["lr"] for line in open("run/metrics.jsonl")]
want = [0, 0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 0]
assert all(abs(a - b / 1000) < 1e-12 for a, b in zip(rates, want)), rates
PYTHON

# ---- Flags of schedules that have no use for them ----
# useless TEXT WORDS…
useless()
{
    local text=$1
    shift
    "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --steps 1 --output none "$@" >out 2>err
    [ $? = 2 ] && grep -qF "zinc train: $text" err || fail "$*: $(cat err)"
}
useless "--decay-steps: --lr-schedule constant does not fall" --decay-steps 3
useless "--min-lr: --lr-schedule WarmupDecayLR does not have it; it ends at --warmup-min-lr" --lr-schedule WarmupDecayLR --min-lr 0
useless "--min-lr-ratio: is --min-lr as a part of --lr" --lr-schedule cosine --min-lr 0 --min-lr-ratio 0
useless "--warmup-type log: needs --warmup" --warmup-type log

exit $((failures > 0))

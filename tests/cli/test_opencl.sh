#!/bin/bash
# `--device opencl` through the program: every architecture trains, evaluates and generates with the processor's bits wherever its
# states are, alone and as several ranks; runs go on from the other device's checkpoints; and what cannot be is refused by name.
# test_opencl.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export ZINC_ALLOW_OVERSUBSCRIPTION=1 OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$work/cache
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-${HOME:-/tmp}/.cache/pocl/kcache} # kernels that are compiled already

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# refused WORDS FLAGS…: a run that fails at once, with these words and code 1 or 2.
refused()
{
    local words=$1 code
    shift
    "$zinc" train --model "$data/llama3" --data "$data/tokens.bin" --steps 1 --seq-len 24 --output refused "$@" >said 2>&1
    code=$?
    [ $code -eq 1 ] || [ $code -eq 2 ] || fail "$*: code $code"
    grep -qF -- "$words" said || fail "$*: not \"$words\" but: $(tail -1 said)"
    [ -e refused ] && fail "$*: left its output folder"
    rm -rf refused
}

# ---- Without OpenCL, and what is not in this build ----

mkdir none
(
    export OCL_ICD_VENDORS=$work/none
    refused "--device opencl: OpenCL is" --device opencl
    grep -q "install" said || fail "it does not say what to install: $(cat said)"
    "$zinc" doctor >said 2>&1 || fail "doctor without OpenCL: $(tail -1 said)"
    grep -q "opencl: .*install" said || fail "doctor does not say what to install"
    exit $failures
)
failures=$?
refused '`--math fast`: not in this build' --device opencl --math fast
refused "--device-memory-limit: --device cpu has no memory of its own" --device-memory-limit 1GiB
refused "is not one of" --device opencl:x

"$zinc" eval --model "$data/llama3" --data "$data/tokens.bin" --seq-len 24 --json --device opencl >said 2>errors || {
    [ $failures -gt 0 ] && exit 1
    echo "no OpenCL device: $(tail -1 errors)"
    exit 77
}
refused "there is" --device opencl:4000
refused "(--device-memory-limit)" --device opencl --device-memory-limit 100KiB
refused "host alone updates" --device opencl --optimizer lion --offload-optimizer none
refused "go" --device opencl --offload-gradients cpu --offload-optimizer none

# ---- Training ----

# run NAME FLAGS…: trains $model into the folder NAME.
run()
{
    local name=$1
    shift
    "$zinc" train --model "$model" --data "$data/tokens.bin" --steps "${steps:-3}" --micro-batch 2 --seq-len 24 --lr 3e-3 --weight-decay 0.1 \
        --allow-buffered-swap --output "$name" "$@" >"$name.out" 2>&1 || fail "$name: zinc train $*: $(tail -1 "$name.out")"
}

# same NAME NAME: two runs have the same bits.
same()
{
    for name in "$1" "$2"; do
        sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$name/metrics.jsonl" >"$name.losses"
    done
    [ "$(wc -l <"$1.losses")" -ge 3 ] || fail "$1: $(wc -l <"$1.losses") steps"
    cmp -s "$1.losses" "$2.losses" || fail "$1 and $2 differ in loss or norm"
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || fail "$1 and $2 differ in their weights"
}

placements=(""
    "--offload-optimizer cpu --offload-gradients cpu"
    "--offload-optimizer nvme --offload-gradients nvme --offload-param nvme --offload-activations nvme"
    "--offload-optimizer cpu --offload-param cpu --offload-activations cpu --schedule vertical --tile-limit 4KiB")
n=0
for folder in "$data"/*/; do
    model=${folder%/}
    architecture=$(basename "$model") precision=bf16
    [ $((n++ % 3)) -eq 0 ] && precision=fp32
    run "$architecture" --precision $precision
    for i in 0 1 2 3; do
        # shellcheck disable=SC2086
        run "$architecture-$i" --precision $precision --device opencl ${placements[i]}
        same "$architecture" "$architecture-$i"
    done
done
[ $n -ge 10 ] || fail "$n architectures"
grep -q '"device": "opencl"' gpt2-0/run.json || fail "run.json does not have the device"
sed -n '$p' gpt2-0/metrics.jsonl | grep -q '"memory":{"device":[1-9]' || fail "the log has no memory of the device"
sed -n '$p' gpt2-1/metrics.jsonl | grep -q '"memory":{"device":[1-9][0-9]*,"host":[1-9]' || fail "the log has no memory of the host"

model=$data/llama3
run accumulated --accumulate 3 --offload-optimizer cpu --reduce every
run accumulated-device --accumulate 3 --offload-optimizer cpu --reduce every --device opencl
same accumulated accumulated-device
steps=6 run delayed --delayed-update=1
steps=6 run delayed-device --delayed-update=1 --device opencl
same delayed delayed-device
steps=6 run delayed-nvme --delayed-update=1 --device opencl --offload-optimizer nvme --offload-gradients nvme
same delayed delayed-nvme
run backward --optimizer-in-backward --clip 0
run backward-device --optimizer-in-backward --clip 0 --device opencl
same backward backward-device
run lion --optimizer lion
run lion-device --optimizer lion --device opencl
same lion lion-device
run adapters --lora-rank 4
run adapters-device --lora-rank 4 --device opencl --offload-optimizer cpu
cmp -s adapters/adapter_model.safetensors adapters-device/adapter_model.safetensors || fail "adapters differ"
for i in 0 1 2 3 4 5 6 7; do
    echo "{\"prompt\": \"AB$i\", \"chosen\": \"Q$((i * 7 % 10))WE\", \"rejected\": \"Z\"}"
done >pairs.jsonl
i=0
for flags in "" "--device opencl" "--device opencl ${placements[2]}" "--device opencl ${placements[3]}"; do
    # shellcheck disable=SC2086
    "$zinc" train --model "$model" --data pairs.jsonl --byte-tokenizer --objective dpo --lora-rank 4 --seq-len 24 --steps 3 --lr 1e-2 \
        --accumulate 2 --allow-buffered-swap --output pairs-$((i++)) $flags >said 2>&1 || fail "--objective dpo $flags: $(tail -1 said)"
done
for i in 1 2 3; do
    cmp -s pairs-0/adapter_model.safetensors pairs-$i/adapter_model.safetensors || fail "adapters by pairs differ: placement $i"
done

# The plan goes to the host, and to the drive, where the device is too small.
run large
run small --device opencl --device-memory-limit 2MiB
same large small
grep -q '"optimizer": "device"' small/run.json && fail "2 MiB hold the optimizer, too"
for stage in 1 3; do
    run two-$stage -n 2 --stage $stage
    run two-$stage-device -n 2 --stage $stage --device opencl
    same two-$stage two-$stage-device
done
run two-offloaded -n 2 --stage 2 --device opencl:0 --offload-optimizer cpu
run two-2 -n 2 --stage 2
same two-2 two-offloaded

# ---- Checkpoints of the other device ----

run whole --checkpoint-every 2 --keep 2
for pair in "cpu opencl" "opencl cpu"; do
    read -r first second <<<"$pair"
    steps=2 run "from-$first" --save all --device $first
    run "from-$first" --resume --device $second --offload-optimizer cpu
    same whole "from-$first"
done

# ---- Evaluation and generation ----

for flags in "" "--offload-param cpu" "--offload-param nvme --allow-buffered-swap" "-n 2"; do
    for device in cpu opencl; do
        # shellcheck disable=SC2086
        "$zinc" eval --model "$data/mistral" --data "$data/tokens.bin" --seq-len 24 --json --device $device $flags \
            >eval-$device 2>errors || fail "eval --device $device $flags: $(tail -1 errors)"
    done
    cmp -s eval-cpu eval-opencl || fail "eval $flags: $(cat eval-opencl) is not $(cat eval-cpu)"
done
mkdir bytes
cat >bytes/config.json <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 1, "intermediate_size": 64, "vocab_size": 300, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
 "hidden_act": "silu", "tie_word_embeddings": true}
JSON
"$zinc" train --model bytes --from-scratch --data "$data/tokens.bin" --steps 0 --seq-len 24 --output random >said 2>&1 ||
    fail "no model: $(tail -1 said)"
for flags in "" "--offload-param cpu" "--offload-param nvme --allow-buffered-swap" "-n 2"; do
    for device in cpu opencl; do
        # shellcheck disable=SC2086
        "$zinc" generate --model random --byte-tokenizer --prompt "the text begins with this" --max-tokens 20 --json \
            --device $device $flags >text-$device 2>errors || fail "generate --device $device $flags: $(tail -1 errors)"
    done
    grep -q '"ids":\[' text-opencl || fail "no text: $(cat text-opencl)"
    cmp -s text-cpu text-opencl || fail "generate $flags: $(cat text-opencl) is not $(cat text-cpu)"
done

# ---- The doctor: checks, measures, and the planner takes what it measured ----

grep -q "stated figures" gpt2-0.out || fail "a run on a device that was not measured does not say so"
"$zinc" doctor --device opencl --check --json >check.json 2>errors || fail "doctor --check: $(tail -1 errors)"
for words in '"kernels":{"passed":true' '"products":{"passed":true' '"training":{"passed":true,"checked":4' '"launch_seconds":' '"passed":true}'; do
    grep -qF "$words" check.json || fail "doctor --check: no $words in $(cat check.json)"
done
[ "$("$zinc" doctor --device opencl:0 --check | grep -c "the processor's bits")" -eq 3 ] || fail "doctor --check prints no three checks"
run measured --device opencl
grep -q "stated figures" measured.out && fail "a run does not take what doctor measured"
"$zinc" plan --cluster "$work/cache/zinc/opencl-0.json" --params 100M --json >plan.json 2>errors ||
    fail "the device's file is no cluster: $(tail -1 errors)"
grep -q '"fits":true' plan.json || fail "the device's file: $(cat plan.json)"
sed -i 's/"launch_seconds": [^,]*,*/"launch_seconds": 0/' "$work/cache/zinc/opencl-0.json"
run damaged --device opencl
grep -q "doctor --device opencl:0 --check. writes it anew" damaged.out || fail "a damaged file of the device is not said"
same measured damaged
rm -r "$work/cache/zinc"
for flags in "--check" "--device opencl" "--device cpu --check" "--device sim --check" "--device opencl --check --measure"; do
    # shellcheck disable=SC2086
    "$zinc" doctor $flags >said 2>&1
    [ $? -eq 2 ] || fail "doctor $flags: $(tail -1 said)"
done

# ---- Stopping: the driver's compiler takes signals, and a run still saves ----

"$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --steps 100000 --seq-len 24 --output stopped --device opencl >said 2>&1 &
pid=$!
for _ in $(seq 600); do
    [ -e stopped/metrics.jsonl ] && [ "$(wc -l <stopped/metrics.jsonl)" -ge 3 ] && break
    sleep 0.1
done
kill -USR1 $pid
wait $pid
[ -n "$(ls stopped/checkpoints 2>/dev/null)" ] || fail "SIGUSR1 left no checkpoint: $(tail -2 said)"

[ $failures -eq 0 ] && echo "all as on the processor"
exit $((failures > 0))

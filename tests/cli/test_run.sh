#!/bin/bash
# What a run writes: the model, the log and the plan agree with each other and with the flags; and a run that goes
# on does not grow.
# test_run.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# run NAME MODEL FLAGS…
run()
{
    local name=$1 model=$2
    shift 2
    "$zinc" train --model "$model" --data "$data/tokens.bin" --precision fp32 --seq-len 16 --threads 1 --output "$name" \
        "$@" >"$name.out" 2>"$name.err" && return
    fail "$name: zinc train $* failed: $(tail -1 "$name.err")"
}

# loss MODEL: of zinc eval, on windows of the same length.
loss()
{
    "$zinc" eval --model "$1" --data "$data/tokens.bin" --seq-len 16 --micro-batch 2 --threads 1 --json 2>/dev/null |
        sed -n 's/^{"loss":\([^,]*\),.*/\1/p'
}

# value KEY FILE: numbers of a key, one for each line that has it; at KEY FILE STEP: that of one step.
value()
{
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"
}

at()
{
    grep "^{\"step\":$3," "$2" | value "$1" /dev/stdin
}

# equal WHAT GOT EXPECTED
equal()
{
    [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1: '$2', not '$3'"
}

# bytes_of_data FILE: of a safetensors file, without its header.
bytes_of_data()
{
    echo $(($(wc -c <"$1") - 8 - $(od -An -tu8 -N8 "$1")))
}

# ---- The initial model ----
for name in gpt2 llama3 qwen3; do
    run $name-initial "$data/$name" --steps 0
    equal "$name: loss of the model written by --steps 0" "$(loss $name-initial)" "$(loss "$data/$name")"
    cmp -s $name-initial/config.json "$data/$name/config.json" || fail "$name: config.json changed"
    [ -s $name-initial/metrics.jsonl ] && fail "$name: --steps 0 logged a step"
done
run again gpt2-initial --steps 0
cmp -s gpt2-initial/model.safetensors again/model.safetensors || fail "writing what was written changed it"

# ---- Types ----
run fp32 "$data/gpt2" --steps 2
run bf16 "$data/gpt2" --steps 2 --output-dtype bf16
run fp16 "$data/gpt2" --steps 2 --output-dtype fp16
whole=$(bytes_of_data fp32/model.safetensors)
equal "bytes of bf16 weights" "$(bytes_of_data bf16/model.safetensors)" $((whole / 2))
equal "bytes of fp16 weights" "$(bytes_of_data fp16/model.safetensors)" $((whole / 2))
equal "dtype of fp32" "$(value torch_dtype fp32/config.json | tr -d ' ')" '"float32"'
equal "dtype of bf16" "$(value torch_dtype bf16/config.json | tr -d ' ')" '"bfloat16"'
equal "dtype of fp16" "$(value torch_dtype fp16/config.json | tr -d ' ')" '"float16"'
equal "other keys" "$(value n_positions bf16/config.json | tr -d ' ')" 40
for type in bf16 fp16; do
    # A loss of about 16 with weights of 8 or 11 bits: within a hundredth.
    awk -v a="$(loss $type)" -v b="$(loss fp32)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (0.01 * b) ^ 2) }' ||
        fail "the model written as $type has a loss of $(loss $type), as fp32 $(loss fp32)"
done

# ---- From scratch ----
mkdir config-only
cp "$data/llama3/config.json" config-only/
run scratch config-only --from-scratch --steps 2
run scratch-again config-only --from-scratch --steps 2
run scratch-seed config-only --from-scratch --steps 2 --seed 2
cmp -s scratch/model.safetensors scratch-again/model.safetensors || fail "the same seed gives other weights"
cmp -s scratch/model.safetensors scratch-seed/model.safetensors && fail "another seed gives the same weights"
equal "learning rate from scratch" "$(at lr scratch/metrics.jsonl 1)" 0.00029999999999999997
equal "learning rate of a trained model" "$(at lr fp32/metrics.jsonl 1)" 2.0000000000000002e-05
[ -n "$(loss scratch)" ] || fail "what was trained from scratch cannot be opened"

# ---- Held-out data ----
run held "$data/gpt2" --steps 5 --micro-batch 2 --eval-data "$data/tokens.bin" --eval-every 2
equal "steps with eval_loss" "$(grep eval_loss held/metrics.jsonl | value step /dev/stdin | tr '\n' ' ')" "0 2 4 5 "
equal "the eval_loss before the first step" "$(sed -n 's/{"step":0,"eval_loss":\(.*\)}/\1/p' held/metrics.jsonl)" "$(loss "$data/gpt2")"
equal "the last eval_loss" "$(at eval_loss held/metrics.jsonl 5)" "$(loss held)"
run end "$data/gpt2" --steps 3 --eval-data "$data/tokens.bin"
equal "steps with eval_loss at the end" "$(grep eval_loss end/metrics.jsonl | value step /dev/stdin | tr '\n' ' ')" "0 3 "

# ---- The log ----
equal "steps" "$(value step held/metrics.jsonl | tr '\n' ' ')" "0 1 2 3 4 5 "
equal "targets of a step" "$(at tokens held/metrics.jsonl 1)" 32
run log "$data/gpt2" --steps 1 --log elsewhere.jsonl
[ -s elsewhere.jsonl ] && [ ! -e log/metrics.jsonl ] || fail "--log did not move the log"
run epoch "$data/gpt2" --micro-batch 8 --epochs 0.5
equal "steps of half an epoch: 137 windows of 16 in batches of 8, rounded up" "$(value step epoch/metrics.jsonl | tail -1)" 9

# Bytes planned, bytes charged, and bytes by kind are the same.
run states "$data/gpt2" --steps 2 --accumulate 2
sum=0
for kind in parameters gradients optimizer activations buffers; do
    sum=$((sum + $(at $kind states/metrics.jsonl 2)))
done
equal "bytes of all states" "$sum" "$(at device states/metrics.jsonl 2)"
equal "bytes on the host" "$(at host states/metrics.jsonl 2)" 0
equal "bytes planned" "$(sed -n 's/^  planned *\([0-9.]* [A-Za-z]*\) .*/\1/p' states.out)" \
    "$(sed -n 's/^step 2.*tokens\/s  //p' states.out)"
parameters=$(at parameters states/metrics.jsonl 2)
equal "bytes of gradients" "$(at gradients states/metrics.jsonl 2)" "$parameters"
equal "bytes of Adam's moments" "$(at optimizer states/metrics.jsonl 2)" $((2 * parameters))
run sgd "$data/gpt2" --steps 2 --optimizer sgd
equal "bytes of sgd" "$(at optimizer sgd/metrics.jsonl 2)" 0
run momentum "$data/gpt2" --steps 2 --optimizer sgd --momentum 0.9
equal "bytes of sgd with momentum" "$(at optimizer momentum/metrics.jsonl 2)" "$parameters"

# ---- Steps that are not finite are skipped; ten in a row end the run ----
"$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --steps 40 --lr 1e38 --clip 0 --threads 1 \
    --output skipped >skipped.out 2>skipped.err
equal "exit code of a run that skips" $? 1
grep -q '10 steps in a row were skipped' skipped.err || fail "a run that skips ended with: $(tail -1 skipped.err)"
equal "skipped steps" "$(grep -c '"loss":null,"skipped":true,"reason":"' skipped/metrics.jsonl)" 10
[ -e skipped/model.safetensors ] && fail "a failed run wrote a model"

# ---- A run that goes on does not grow ----
run steady "$data/gpt2" --steps 200 --accumulate 2 --eval-data "$data/tokens.bin" --eval-every 20
for key in device parameters gradients optimizer activations buffers; do
    equal "$key of steps 2 and 20" "$(at $key steady/metrics.jsonl 20)" "$(at $key steady/metrics.jsonl 2)"
    equal "$key of steps 2 and 200" "$(at $key steady/metrics.jsonl 200)" "$(at $key steady/metrics.jsonl 2)"
done
# The address sanitizer holds freed memory back, which is no growth of the program's.
growth=$(($(at resident steady/metrics.jsonl 200) - $(at resident steady/metrics.jsonl 5)))
[ $growth -le 1048576 ] || grep -q __asan_init "$zinc" || fail "resident memory grew by $growth bytes from step 5 to 200"

# ---- The time line of a step ----
# trace NAME SECONDS TRACKS…: spans of a line do not overlap and lie within the step, and all tracks are there.
trace()
{
    python3 - "$@" <<'PYTHON' || fail "trace of $1"
import json, sys
events = json.load(open(sys.argv[1] + ".json"))["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
spans = [e for e in events if e["ph"] == "X"]
assert set(sys.argv[3:]) <= {e["cat"] for e in spans}, {e["cat"] for e in spans}
for tid in names:
    line = sorted((e["ts"], e["dur"]) for e in spans if e["tid"] == tid)
    assert line[0][0] >= 0 and sum(line[-1]) <= float(sys.argv[2]) * 1e6, (names[tid], line[-1])
    assert all(a[0] + a[1] <= b[0] + 1e-3 for a, b in zip(line, line[1:])), names[tid]
kernels = {e["name"] for e in spans if e["cat"] in ("compute", "host compute")}
assert {"gemm", "attention_backward", "adam"} <= kernels, kernels
PYTHON
}

run traced "$data/gpt2" --steps 4 --trace traced.json --offload-optimizer nvme --allow-buffered-swap
trace traced 60 compute communication nvme
run traced-one "$data/gpt2" --steps 1 --trace traced-one.json
trace traced-one 60 compute

exit $((failures > 0))

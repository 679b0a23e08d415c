#!/bin/bash
# Quantised bases as a person meets them: bits do not depend on stages, tiers, ranks and interruptions, eval and generate take them,
# and what does not fit is refused by name.
# test_quantised.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ZINC_ALLOW_OVERSUBSCRIPTION=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak
model=$data/llama3

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# run NAME FLAGS…: trains adapters into the folder NAME
run()
{
    local name=$1
    shift
    "$zinc" train --model "$model" --data "$data/tokens.bin" --seq-len 16 --micro-batch 2 --accumulate 2 --lr 1e-2 --threads 1 \
        --lora-rank 4 --allow-buffered-swap --output "$name" "$@" >"$name.out" 2>"$name.err" ||
        fail "$name: zinc train $* failed: $(tail -1 "$name.err")"
}

columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# same NAME NAME: two runs have the same bits
same()
{
    [ "$(columns "$1" | wc -l)" -ge 4 ] || fail "$1: $(columns "$1" | wc -l) lines of metrics"
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
    "$zinc" eval --model "$model" --data "$data/tokens.bin" --seq-len 16 --threads 1 --allow-buffered-swap --json "$@" 2>eval.err |
        sed 's/.*"loss":\([0-9.]*\).*/\1/'
}

nvme=(--stage 3 --offload-param nvme --offload-optimizer nvme --offload-gradients nvme)

# ---- Bits ----

run plain --steps 4
for type in int8 nf4; do
    run $type --steps 4 --base-quantize $type --recompute off
    run $type-nvme --steps 4 --base-quantize $type "${nvme[@]}" --persist-below 0 --recompute on
    same $type $type-nvme
    cmp -s <(columns plain) <(columns $type) && fail "$type: the losses of a base that is not quantised"
    run $type-ranks --steps 4 --base-quantize $type --stage 0 --reduce every -n 2
    run $type-ranks-nvme --steps 4 --base-quantize $type "${nvme[@]}" --reduce every -n 2
    same $type-ranks $type-ranks-nvme
    run $type-part --steps 2 --base-quantize $type --save all
    run $type-part --steps 4 --base-quantize $type --resume "${nvme[@]}"
    same $type $type-part
    grep -q "\"base_quantize\": *\"$type\"" $type/run.json || fail "$type: run.json says $(grep quantize $type/run.json)"
    files=$(ls $type-part/checkpoints/step-00000002 | tr '\n' ' ')
    [ "$files" = "adapter_config.json adapter_model.safetensors manifest.json optimizer-00001-of-00001.safetensors state.json " ] ||
        fail "$type: a checkpoint holds $files"
done

run last --steps 4 --base-quantize nf4 --reduce last
run vertical --steps 4 --base-quantize nf4 --schedule vertical --reduce last
same last vertical
run clip --steps 4 --base-quantize nf4 --clip 0
run backward --steps 4 --base-quantize nf4 --clip 0 --optimizer-in-backward --stage 3 --offload-param cpu --offload-optimizer nvme
same clip backward
run delayed --steps 4 --base-quantize nf4 --delayed-update=1
run delayed-nvme --steps 4 --base-quantize nf4 --delayed-update=1 "${nvme[@]}"
same delayed delayed-nvme

# A base that is born quantised: the same at every stage.
scratch=(--from-scratch --base-quantize nf4 --steps 4 --seed 3)
run born "${scratch[@]}"
run born-nvme "${scratch[@]}" "${nvme[@]}"
same born born-nvme

# A 16-bit folder: what is not quantised keeps its type.
"$zinc" train --model "$model" --data "$data/tokens.bin" --seq-len 16 --steps 1 --output-dtype bf16 --output bf16 >/dev/null 2>&1
(model=bf16; run half --steps 4 --base-quantize nf4; run half-nvme --steps 4 --base-quantize nf4 "${nvme[@]}"; exit $failures) ||
    fail "a folder in bf16"
same half half-nvme

# ---- Reading ----

a=$(loss) b=$(loss --base-quantize int8) c=$(loss --base-quantize nf4)
[ -n "$c" ] && [ "$a" != "$b" ] && [ "$b" != "$c" ] && [ "$a" != "$c" ] || fail "losses of eval: '$a' '$b' '$c'"
[ "$c" = "$(loss --base-quantize nf4 --offload-param nvme)" ] || fail "eval from NVMe has another loss"
[ "$c" = "$(loss --base-quantize nf4 -n 2)" ] || fail "eval on two ranks has another loss"
[ "$c" != "$(loss --base-quantize nf4 --adapter nf4)" ] || fail "the adapter is not applied"

# A folder whose vocabulary has bytes, for generate: what is drawn does not depend on the tier.
mkdir letters
sed 's/"vocab_size": *[0-9]*/"vocab_size": 300/' "$model/config.json" >letters/config.json
"$zinc" train --model letters --from-scratch --data "$data/tokens.bin" --seq-len 16 --steps 0 --output letters-out >/dev/null \
    2>letters.err || fail "letters: $(tail -1 letters.err)"
text()
{
    "$zinc" generate --model letters-out --byte-tokenizer --prompt abc --max-tokens 8 --allow-buffered-swap --json "$@" 2>generate.err
}
a=$(text --base-quantize nf4)
[ -n "$a" ] || fail "generate: $(tail -1 generate.err)"
[ "$a" = "$(text --base-quantize nf4 --offload-param nvme)" ] || fail "generate from NVMe draws other tokens"

# ---- Refusals ----

common=(train --data "$data/tokens.bin" --seq-len 16 --micro-batch 2 --accumulate 2 --lr 1e-2 --steps 8)
refused 2 "was made with --base-quantize nf4, this run has int8" "${common[@]}" --model "$model" --lora-rank 4 --base-quantize int8 \
    --output nf4-part --resume
refused 2 "was made with --base-quantize nf4, this run has none" "${common[@]}" --model "$model" --lora-rank 4 --output nf4-part --resume
refused 2 "--base-quantize nf4 needs --lora-rank or --adapter" "${common[@]}" --model "$model" --base-quantize nf4 --output none
refused 2 "base-quantize" "${common[@]}" --model "$model" --lora-rank 4 --base-quantize fp4 --output none
refused 2 "needs --lora-rank" plan --model "$model" --base-quantize nf4

# A value that is not finite has no scale.
cp -r "$model" broken
weights=broken/model.safetensors header=$(od -An -tu8 -N8 broken/model.safetensors)
at=$(grep -ao '"model.layers.0.mlp.down_proj.weight":{[^}]*}' $weights | sed 's/.*"data_offsets":\[\([0-9]*\),.*/\1/')
printf '\377\377\377\177' | dd of=$weights bs=1 seek=$((8 + header + at)) conv=notrunc 2>/dev/null
refused 1 "down_proj.weight' has a value that is not finite" eval --model broken --data "$data/tokens.bin" --seq-len 16 --base-quantize nf4

# ---- The plan ----

parameters()
{
    "$zinc" plan --layers 4 --hidden 1024 --heads 8 --seq-len 64 --micro-batch 1 --stage 0 --lora-rank 4 --json "$@" 2>/dev/null |
        sed 's/.*"parameters":\([0-9]*\).*/\1/'
}
plain=$(parameters) int8=$(parameters --base-quantize int8) nf4=$(parameters --base-quantize nf4)
# Four blocks of 12 × 1024² elements in bf16, in 1.0625 bytes, and in 0.53125.
awk -v p="$plain" -v i="$int8" -v n="$nf4" 'BEGIN { m = 4 * 12 * 1048576; exit !(i > p - 0.9375 * m - 1e5 && i < p - 0.9375 * m + 1e6 &&
    n > p - 1.46875 * m - 1e5 && n < p - 1.46875 * m + 1e6) }' || fail "plan: parameters take $plain, $int8 and $nf4 bytes"

# The largest model of a family grows with what a frozen base saves.
layers()
{
    "$zinc" plan --largest --hidden 2048 --heads 16 --cluster cpu-server --ranks 1 --memory-limit 2GiB --seq-len 128 --micro-batch 1 \
        --offload-param none --lora-rank 16 --json "$@" 2>/dev/null | sed 's/.*"layers":\([0-9]*\).*/\1/'
}
plain=$(layers) int8=$(layers --base-quantize int8) nf4=$(layers --base-quantize nf4)
((plain > 0 && int8 > plain && nf4 > int8)) || fail "plan --largest: $plain, $int8 and $nf4 layers"
"$zinc" plan --model "$model" --lora-rank 4 --base-quantize nf4 --seq-len 16 --fit=fit.json >/dev/null 2>fit.err ||
    fail "plan --fit: $(tail -1 fit.err)"
grep -q '"base-quantize": *"nf4"' fit.json || fail "plan --fit does not write --base-quantize"

[ $failures = 0 ] || { echo "$failures failures"; exit 1; }
echo "all of a quantised base as said"

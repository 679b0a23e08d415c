#!/bin/bash
# Training and evaluation in fp32 against PyTorch, for a small model of every architecture; then, with a feature
# switched off in config.json, the same comparison must fail: the fixtures would notice the fault. No Python needed.
# usage: test_parity.sh PROGRAM SOURCE_DIR BUILD_DIR [FIXTURE…]
set -u
zinc=$1 data=$2/tests/data/parity compare=$3/tests/compare_metrics
shift 3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# run NAME MODEL_DIR: trains and evaluates into $work/NAME
run() {
    local out=$work/$1 seq_len=
    mkdir "$out"
    for ((i = 0; i < ${#flags[@]}; i++)); do
        [[ ${flags[i]} == --seq-len ]] && seq_len=${flags[i + 1]}
    done
    "$zinc" train --model "$2" --data "$data/tokens.bin" --output "$out/run" "${flags[@]}" >"$out/log" 2>&1 &&
        "$zinc" eval --model "$2" --data "$data/tokens.bin" --seq-len "$seq_len" --json >"$out/eval.json" 2>>"$out/log"
    local code=$?
    ((code == 0)) || { fail "$1: zinc ended with $code"; tail -5 "$out/log"; }
    return $code
}

parity() {
    local name=$1 code
    run "$name" "$data/$name" || return
    said=$("$compare" "$data/$name/expected.json" "$work/$name/run/metrics.jsonl" "$work/$name/eval.json" 2>&1)
    code=$?
    if ((code == 0)); then echo "ok $name: $said"; else fail "$name: $said"; fi
}

# Only the models that pass are worth switching features off: a wrong one deviates anyway.
sharp() {
    local name=$1 feature=$2 script=$3 variant code
    variant="$name-without-${feature// /-}"
    mkdir "$work/model-$variant"
    cp "$data/$name/model.safetensors" "$work/model-$variant/"
    sed "$script" "$data/$name/config.json" >"$work/model-$variant/config.json"
    if cmp -s "$data/$name/config.json" "$work/model-$variant/config.json"; then
        fail "$variant: config.json did not change"
        return
    fi
    run "$variant" "$work/model-$variant" || return
    said=$("$compare" "$data/$name/expected.json" "$work/$variant/run/metrics.jsonl" "$work/$variant/eval.json" 2>&1)
    code=$?
    if ((code == 1)); then echo "ok $name notices a wrong $feature: $said"
    else fail "$name does not notice a wrong $feature: $said"; fi
}

names=("$@")
((${#names[@]})) || for dir in "$data"/*/; do names+=("$(basename "$dir")"); done
for name in "${names[@]}"; do
    mapfile -t flags < <("$compare" --flags "$data/$name/expected.json")
    ((${#flags[@]})) || { fail "$name: no expected.json, or compare_metrics is not built"; continue; }
    before=$failures
    parity "$name"
    ((failures == before)) || continue
    while IFS=$'\t' read -r feature script; do
        sharp "$name" "$feature" "$script"
    done < <("$compare" --variants "$data/$name/expected.json")
done
echo "${#names[@]} fixtures, $failures failures"
((failures == 0))

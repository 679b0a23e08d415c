#!/bin/bash
# Training over several ranks, and in mixed precision, against PyTorch. No Python needed.
# usage: test_ranks.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 data=$2/tests/data/parity compare=$3/tests/compare_metrics
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# run NAME EXPECTED RANKS STAGE [PRECISION]: into $work/run, with the flags that the expected numbers were made with
run() {
    local name=$1 expected=$2 ranks=$3 stage=$4
    mapfile -t flags < <("$compare" --flags "$expected")
    ((${#flags[@]})) || { fail "$expected cannot be read"; return 1; }
    flags[-1]=${5:-${flags[-1]}}               # --precision is the last
    "$zinc" train -n "$ranks" --model "$data/$name" --data "$data/tokens.bin" --output "$work/run" --overwrite \
        --threads 1 --stage "$stage" "${flags[@]}" >"$work/log" 2>&1 && return
    fail "$name on $ranks ranks, stage $stage, ${flags[-1]}: zinc ended with $?"
    tail -5 "$work/log"
    return 1
}

# holds WHAT EXPECTED, or holds WHAT --nearer EXPECTED
holds() {
    local what=$1 said
    shift
    if said=$("$compare" "$@" "$work/run/metrics.jsonl" 2>&1); then echo "ok $what: $said"; else fail "$what: $said"; fi
}

for expected in "$data"/*/expected-ranks-*.json; do
    name=$(basename "$(dirname "$expected")") ranks=${expected##*-} ranks=${ranks%.json}
    for stage in 0 3; do
        what="$name on $ranks ranks, stage $stage"
        run "$name" "$expected" "$ranks" "$stage" && holds "$what" "$expected"
    done
done

# In bf16: within the bound of PyTorch's mixed precision, and nearer to it than training in fp32 is.
for expected in "$data"/*/expected-bf16-ranks-*.json; do
    name=$(basename "$(dirname "$expected")") ranks=${expected##*-} ranks=${ranks%.json}
    for stage in 0 3; do
        what="$name on $ranks ranks, bf16, stage $stage"
        run "$name" "$expected" "$ranks" "$stage" && holds "$what" "$expected" && holds "$what" --nearer "$expected"
    done
    # The same run in fp32 is what the comparison would notice.
    run "$name" "$expected" "$ranks" 0 fp32 || continue
    "$compare" --nearer "$expected" "$work/run/metrics.jsonl" >/dev/null && fail "$name: fp32 passes for bf16"
done
echo "$failures failures"
((failures == 0))

#!/bin/bash
# Tensor parallelism against PyTorch on one process: meshes of data × tensor ranks, every architecture whose heads divide, within the
# bounds of a single process. No Python needed.
# usage: test_tensor.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 data=$2/tests/data/parity compare=$3/tests/compare_metrics
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# parity NAME EXPECTED DATA_RANKS TENSOR_RANKS STAGE
parity() {
    local name=$1 expected=$2 ranks=$(($3 * $4)) what="$1, $3 x $4 ranks, stage $5" said
    mapfile -t flags < <("$compare" --flags "$expected")
    ((${#flags[@]})) || { fail "$expected cannot be read"; return; }
    if ! "$zinc" train -n "$ranks" --tensor-parallel "$4" --model "$data/$name" --data "$data/tokens.bin" --output "$work/run" \
        --overwrite --threads 1 --stage "$5" "${flags[@]}" >"$work/log" 2>&1; then
        fail "$what: zinc failed"
        tail -5 "$work/log"
        return
    fi
    if said=$("$compare" "$expected" "$work/run/metrics.jsonl" 2>&1); then echo "ok $what: $said"; else fail "$what: $said"; fi
}

for dir in "$data"/*/; do
    name=$(basename "$dir")
    grep -Eq '"(n_head|num_attention_heads)": *4' "$dir/config.json" || continue
    parity "$name" "$dir/expected.json" 1 2 0
    parity "$name" "$dir/expected.json" 1 4 0
done
for expected in "$data"/*/expected-ranks-[23].json "$data"/*/expected-bf16-ranks-[12].json; do
    name=$(basename "$(dirname "$expected")") ranks=${expected##*-} ranks=${ranks%.json}
    parity "$name" "$expected" "$ranks" 2 3
done
echo "$failures failures"
((failures == 0))

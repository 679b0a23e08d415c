#!/bin/bash
# Adapters over a base in NF4 under a real memory limit, page cache included, the base on disk: a Llama of 0.2B parameters in 128 MiB
# with the losses of a run without the limit, to the last bit; and, where ZINC_TEST_LARGE=1, one of 7B, born quantised, in 2 GiB (some
# twenty minutes on two cores, 5 GB of disk). test_capped_quantised_slow.sh ZINC SOURCE BUILD
set -u
zinc=$1 source=$2
. "$source/tests/zero/cap.sh"
cap_available || { echo "skipped: no memory control group can be made here"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-quantised-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# config LAYERS HIDDEN INNER HEADS VOCABULARY
config()
{
    echo "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":$2,\"num_hidden_layers\":$1,
        \"num_attention_heads\":$4,\"num_key_value_heads\":$4,\"intermediate_size\":$3,\"vocab_size\":$5,\"max_position_embeddings\":4096,
        \"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false,\"initializer_range\":0.02}"
}

columns()
{
    sed 's/,"lr".*//' "$1/metrics.jsonl"
}

flags=(train --from-scratch --data "$source/tests/data/parity/tokens.bin" --seq-len 128 --precision bf16 --lora-rank 16
    --base-quantize nf4 --steps 2)

# capped NAME MIB: its losses, all finite, and the most memory it had
capped()
{
    cap_run "$2" nice "$zinc" "${flags[@]}" --model "$1" --memory-limit "$(($2 - 16))MiB" --output "$1-capped" >"$1.out" 2>"$1.err" ||
        fail "$1: $(tail -1 "$1.err")"
    [ "$(grep -c '"loss":[0-9]' "$1-capped/metrics.jsonl")" = 2 ] || fail "$1: losses are not finite"
    ((cap_peak > 0 && cap_peak <= $2)) || fail "$1: a peak of $cap_peak MiB"
    columns "$1-capped"
    echo "$1: a peak of $cap_peak MiB by the control group, of $2 MiB"
}

mkdir small
config 16 1024 2816 16 4096 >small/config.json
capped small 128
"$zinc" "${flags[@]}" --model small --output small-free >free.out 2>&1 || fail "small: $(tail -1 free.out)"
cmp <(columns small-capped) <(columns small-free) || fail "small: the limit shows in the losses"

if [ "${ZINC_TEST_LARGE:-}" = 1 ]; then
    mkdir large
    config 32 4096 11008 32 32000 >large/config.json
    "$zinc" plan --model large --lora-rank 16 --base-quantize nf4 --seq-len 128 --micro-batch 1 --precision bf16 --memory-limit 2032MiB \
        >plan.out 2>&1 || fail "large: zinc plan: $(tail -1 plan.out)"
    capped large 2048
fi

[ $failures = 0 ] || { echo "$failures failures"; exit 1; }

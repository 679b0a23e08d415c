#!/bin/bash
# Training under a real memory limit, page cache included, with states on disk and clipping on: GPT-2 124M in
# 256 MiB and, where ZINC_TEST_LARGE=1, a Llama of 1.1B parameters (TinyLlama's shape) in 1 GiB. The losses are
# those of a run without the limit, to the last bit. test_capped_slow.sh ZINC SOURCE BUILD
set -u
zinc=$1 source=$2
. "$source/tests/zero/cap.sh"
cap_available || { echo "skipped: no memory control group can be made here"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-capped-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# room GIB: whether the disk has it
room()
{
    (($(df --output=avail -k . | tail -1) > $1 * 1024 * 1024))
}

columns()
{
    sed 's/,"lr".*//' "$1/metrics.jsonl"
}

# compare NAME MIB FREE-MIB FLAGS…: the run within MIB has the losses of the run within FREE-MIB
compare()
{
    local name=$1 mib=$2 free=$3
    shift 3
    local flags=(--model "$name" --from-scratch --data "$source/tests/data/parity/tokens.bin" --precision bf16 --micro-batch 1 --steps 3
        --output-dtype bf16 --clip 1 --seed 3 --keep 0 "$@")
    echo "== $name within $mib MiB"
    cap_run "$mib" "$zinc" train "${flags[@]}" --memory-limit "$((mib - 8))MiB" --output "$name-capped" ||
        { fail "$name: ended with $? within $mib MiB"; return; }
    echo "peak of the control group: $cap_peak MiB of $mib"
    rm -f "$name-capped"/*.safetensors
    "$zinc" train "${flags[@]}" --memory-limit "${free}MiB" --output "$name-free" >free.log ||
        { fail "$name: ended with $? without the limit"; return; }
    rm -f "$name-free"/*.safetensors
    cmp <(columns "$name-capped") <(columns "$name-free") || fail "$name: the limit changed losses"
    columns "$name-capped"
    for run in capped free; do
        sed -n "s/.*\"seconds\":\([0-9.]*\).*\"nvme_read_bytes\":\([0-9]*\),\"nvme_write_bytes\":\([0-9]*\).*/$run: \1 s a step, read \2, wrote \3 bytes/p" \
            "$name-$run/metrics.jsonl"
    done
}

mkdir gpt2 tinyllama
cat >gpt2/config.json <<'JSON'
{"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
 "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "initializer_range": 0.02}
JSON
cat >tinyllama/config.json <<'JSON'
{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 2048,
 "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
 "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
 "tie_word_embeddings": false, "initializer_range": 0.02}
JSON

room 5 || { echo "skipped: less than 5 GiB of disk free"; exit 77; }
compare gpt2 256 4096 --seq-len 256
if [ "${ZINC_TEST_LARGE:-0}" = 1 ]; then
    room 40 || { echo "skipped: less than 40 GiB of disk free"; exit 77; }
    compare tinyllama 1024 6144 --seq-len 512
fi
exit $((failures > 0))

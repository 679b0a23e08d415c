#!/bin/bash
# The same bits on every kind of machine: three models trained on each instruction set that this machine has give the losses and
# weights whose hashes are committed, so that machines that run this prove each other. One has widths and rows above 256 that are
# no multiples of it, so that products have several chunks along k. test_machines.sh ZINC SOURCE BUILD
#
#   test_machines.sh ZINC SOURCE BUILD --write    prints the hashes instead
set -u
zinc=$1 data=$2/tests/data/parity hashes=$2/tests/data/machines.sha256
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export ZINC_ALLOW_OVERSUBSCRIPTION=1 OMP_WAIT_POLICY=passive

mkdir wide
cat >wide/config.json <<'JSON'
{"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 1, "num_attention_heads": 9,
 "num_key_value_heads": 3, "vocab_size": 300, "tie_word_embeddings": true, "max_position_embeddings": 512}
JSON

# trained NAME ISA FLAGS…: the hash of the losses and of the weights, without the file's header
trained()
{
    local name=$1 isa=$2 header
    shift 2
    rm -rf out
    ZINC_ISA=$isa "$zinc" train --data "$data/tokens.bin" --threads 2 --steps 2 --lr 3e-3 --weight-decay 0.1 --output-dtype fp32 \
        --output out "$@" >out.txt 2>err.txt || { cat err.txt >&2; return 1; }
    grep -q "threads, $isa" out.txt || { echo "$isa was not used" >&2; return 1; }
    header=$(od -An -tu8 -N8 out/model.safetensors)
    { sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' out/metrics.jsonl
      tail -c +$((9 + header)) out/model.safetensors; } | sha256sum | cut -d' ' -f1
}

found=
for isa in avx512 avx2 neon plain; do
    if ! ZINC_ISA=$isa "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --steps 0 --output probe --overwrite >/dev/null 2>&1; then
        echo "$isa: not on this machine"
        continue
    fi
    found="$found $isa"
    for name in gpt2 llama3 wide; do
        case $name in
        wide) flags=(--model wide --from-scratch --seq-len 300 --precision bf16) ;;
        *) flags=(--model "$data/$name" --seq-len 24 --micro-batch 2 --precision fp32) ;;
        esac
        hash=$(trained $name $isa "${flags[@]}")
        if [ "${4-}" = --write ]; then
            echo "$hash  $name"
        elif ! grep -qx "$hash  $name" "$hashes"; then
            echo "FAIL $name on $isa: losses and weights have the hash '$hash', not the one of $hashes"
            failures=$((failures + 1))
        fi
    done
done
echo "compared:$found"
exit $((failures > 0))

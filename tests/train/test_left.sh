#!/bin/bash
# What an encoding that was killed left in OUTPUT/cache is removed by the next run there; what a process still writes is not.
# test_left.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/chat
command -v flock >/dev/null || { echo "skipped: no flock"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

mkdir model
cp "$data/bytes/tokenizer.json" "$data/bytes/tokenizer_config.json" model
cat >model/config.json <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
 "vocab_size": 380, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64,
 "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false}
JSON
for ((i = 0; i < 100; i++)); do echo "line $i of a text"; done >text.txt
mkdir -p run/cache
echo half >run/cache/.0123.bin.4711-0.tmp
echo half >run/cache/.0123.mask.4711-0.tmp
echo written >run/cache/.4567.bin.4712-0.tmp
exec 9<run/cache/.4567.bin.4712-0.tmp
flock 9
"$zinc" train --model model --from-scratch --data text.txt --seq-len 16 --steps 1 --threads 1 --output run >out 2>err ||
    fail "the run: $(cat err)"
[ "$(find run/cache -name '.*' -type f)" = run/cache/.4567.bin.4712-0.tmp ] || fail "left in the cache: $(ls -A run/cache)"
[ -n "$(find run/cache -name '*.bin' ! -name '.*')" ] || fail "no tokens in the cache: $(ls -A run/cache)"
exec 9<&-
"$zinc" train --model model --from-scratch --data text.txt --seq-len 16 --steps 1 --threads 1 --output run --overwrite \
    >out 2>err || fail "the second run: $(cat err)"
[ -z "$(find run/cache -name '.*' -type f)" ] || fail "left in the cache: $(ls -A run/cache)"

exit $((failures > 0))

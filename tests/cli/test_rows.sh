#!/bin/bash
# Rows as people have them, from the command line: forms, arrays, --map, kinds of files that are refused, and what is told.
# usage: test_rows.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 data=$2/tests/data/chat
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# said TEXT…: standard error of the last command holds each
said() { local text; for text; do grep -qF -- "$text" err || fail "'$(cat err)' does not hold '$text'"; done; }

# ends CODE WORDS…
ends() {
    local code=$1 got
    shift
    "$zinc" "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "zinc $*: exit code $got, not $code: $(cat err)"
}

mkdir model
cat >model/config.json <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
 "vocab_size": 380, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64,
 "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "eos_token_id": 2}
JSON
cp "$data/bytes/tokenizer.json" "$data/bytes/tokenizer_config.json" model

# tokens NAME INPUT FLAGS…: what the input becomes is NAME.bin; nothing is told
tokens() {
    local name=$1
    shift
    ends 0 tokenize --model model --output "$name.bin" "$@"
}

# same A B: both have the same tokens
same() { cmp -s "$1.bin" "$2.bin" || fail "$1 and $2 differ"; }

# ---- One conversation in each form ----

echo '{"messages":[{"role":"user","content":"Add.\n2"},{"role":"assistant","content":"4"}]}' >messages.jsonl
echo '{"conversations":[{"from":"human","value":"Add.\n2"},{"from":"gpt","value":"4"}]}' >sharegpt.jsonl
echo '{"messages":[{"role":"user","content":[{"type":"text","text":"Add."},{"type":"text","text":"2"}]},{"role":"assistant","content":"4"}]}' >parts.jsonl
echo '{"instruction":"Add.","input":"2","output":"4"}' >alpaca.jsonl
echo '{"dialog":[{"from":"human","value":"Add.\n2"},{"from":"gpt","value":"4"}],"text":7}' >dialog.jsonl
printf '[\n  {\n    "messages": [{"role":"user","content":"Add.\\n2"}, {"role":"assistant","content":"4"}]\n  }\n]\n' >rows.json
tokens messages messages.jsonl
[ -s err ] && fail "messages: $(cat err)"
for form in sharegpt parts; do
    tokens $form $form.jsonl
    same $form messages
done
tokens alpaca alpaca.jsonl
said "zinc tokenize: rows with 'instruction' (1) go through the folder's chat template"
same alpaca messages
tokens rows rows.json
same rows messages
tokens dialog dialog.jsonl --map messages=dialog
same dialog messages

# ---- Training with a map, in arrays and lines alike ----

run() { local name=$1; shift; ends 0 train --model model --from-scratch --threads 1 --seq-len 48 --steps 2 --output "$name" "$@"; }
run lines --data messages.jsonl
run array --data dialog.jsonl --map messages=dialog
grep -q '"map": \["messages=dialog"\]' array/run.json || fail "run.json does not hold the map"
cmp -s lines/model.safetensors array/model.safetensors || fail "the same rows in another form train otherwise"
ends 0 eval --model lines --data dialog.jsonl --map messages=dialog --seq-len 48 --json
mv out mapped.json
ends 0 eval --model lines --data messages.jsonl --seq-len 48 --json
cmp -s out mapped.json || fail "evaluation with --map: $(cat mapped.json)"

# What was encoded by one map is not taken for another.
echo '{"a":"the capital of France","b":"is the capital of"}' >two.jsonl
for key in a b; do
    ends 0 train --model model --from-scratch --threads 1 --seq-len 2 --steps 1 --output keyed --overwrite --data two.jsonl --map text=$key
done
[ "$(ls keyed/cache | cut -c1-32 | sort -u | wc -l)" = 2 ] || fail "another map took the tokens of the first: $(ls keyed/cache)"

# ---- What is told ----

printf '{"text":"a\\u0000\\ud800","x":NaN,"n":123456789012345678901234567890}\n' >python.jsonl
ends 0 tokenize --model model --output python.bin python.jsonl
said "zinc tokenize: 2 characters replaced by U+FFFD in rows"
echo '{"eos_token_id": [0]}' >model/generation_config.json
sed -i 's/, "eos_token_id": 2//' model/config.json
ends 0 train --model model --from-scratch --threads 1 --seq-len 48 --steps 1 --output told --data messages.jsonl
said "zinc train: the chat template ends answers with '<|im_end|>' (id 2), which is not among eos_token_id"

# ---- Refusals ----

for map in dialog messages= mesages=dialog; do
    for command in "train --model model --data x.jsonl" "eval --model model --data x.jsonl" "tokenize --model model x.jsonl --output x.bin"; do
        ends 2 $command --map $map
        said "--map: '$map'"
    done
done
ends 2 train --model model --data messages.jsonl --map text=a text=b
said "--map: 'text' is given twice"
: >x.parquet
ends 1 train --model model --from-scratch --data x.parquet --output refused
said "x.parquet: .parquet files are not read" "datasets.Dataset.from_parquet('x.parquet').to_json('x.jsonl')"
echo '{"prompt":"a","chosen":"b","rejected":"c"}' >pairs.jsonl
ends 1 train --model model --from-scratch --data pairs.jsonl --output refused
said "pairs.jsonl:1: the row is a preference pair"
tokens chosen pairs.jsonl --map completion=chosen
[ ! -e refused ] || fail "a refusal left an output folder"

echo "$failures failures"
((failures == 0))

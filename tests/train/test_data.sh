#!/bin/bash
# Text data from the command line: what counts, the token cache and when it is taken, folders, and errors of data.
# usage: test_data.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 data=$2/tests/data/chat
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export TMPDIR=$work/tmp
mkdir tmp
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# equal WHAT FOUND EXPECTED
equal() { [ "$2" = "$3" ] || fail "$1: '$2', should be '$3'"; }

# value KEY FILE: the numbers of the key in a log or a result, a line each
value() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"; }

# model NAME VOCABULARY [TOKENIZER]
model() {
    mkdir "$1"
    cat >"$1/config.json" <<JSON
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 32,
 "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
 "vocab_size": $2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64,
 "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false}
JSON
    [ $# -lt 3 ] || cp "$data/$3/tokenizer.json" "$data/$3/tokenizer_config.json" "$1"
}

# train NAME FLAGS…: trains $folder from scratch into NAME; the log and what it says are NAME.log and NAME.err
train() {
    local name=$1
    shift
    "$zinc" train --model "$folder" --from-scratch --micro-batch 1 --threads 1 --output "$name" "$@" \
        >"$name.out" 2>"$name.err"
}

model words 380 bytes
model plain 257
folder=words

# ---- What counts ----

for i in 1 2 3 4; do
    echo '{"messages":[{"role":"system","content":"You"},{"role":"user","content":"What is the capital of France?"},'\
'{"role":"assistant","content":"Paris."}]}'
done >talk.jsonl
# An example of 32 tokens takes 31 places of a window; two fit one of 62.
train talk --data talk.jsonl --seq-len 62 --epochs 1 --no-shuffle || fail "talk: $(cat talk.err)"
equal "targets of four answers" "$(value targets talk/metrics.jsonl | tr '\n' ' ')" "8 8 " # Pa, ris, . and <|im_end|> each
equal "tokens of four rows" "$(value tokens talk/metrics.jsonl | tr '\n' ' ')" "62 62 "
for flags in "" "--seq-len 31" "--seq-len 40" "--seq-len 62" "--packing none" "--packing none --micro-batch 3"; do
    "$zinc" eval --model talk --data talk.jsonl $flags --json >talk.json || fail "eval of talk $flags"
    equal "examples $flags" "$(value examples talk.json)" 4
    equal "targets $flags" "$(value targets talk.json)" 16
    equal "tokens $flags" "$(value tokens talk.json)" 124
    equal "loss $flags" "$(value loss talk.json | cut -c1-7)" "$(value loss <("$zinc" eval --model talk --data talk.jsonl --json) | cut -c1-7)"
done
"$zinc" eval --model talk --data talk.jsonl --seq-len 8 --json >talk.json 2>talk.err && fail "cut rows"
grep -qF -- "--data: 4 of 4 examples are too long for --seq-len 8, the longest has 32 tokens; give --seq-len 31, or --truncate-rows" \
    talk.err || fail "long rows: $(cat talk.err)"
grep -q nan talk/metrics.jsonl && fail "not a number in the log"

# Joined and cut like text, windows of prompts alone are steps without a target.
train stream --data talk.jsonl --seq-len 8 --packing stream --epochs 1 --no-shuffle || fail "stream: $(cat stream.err)"
equal "targets of a stream" "$(value targets stream/metrics.jsonl | awk '{ n += $1 } END { print n }')" 12 # the last answer is after the last window
grep -q '"skipped":true,"reason":"step has no target that counts"' stream/metrics.jsonl || fail "no window of prompts alone"
[ "$(grep -c '"skipped":true' stream/metrics.jsonl)" -gt 10 ] || fail "ten windows of prompts ended the run"

# The same text without a mask counts whole.
echo '{"text":"What is the capital of France? The capital of France is Paris."}' >text.jsonl
train text --data text.jsonl --seq-len 8 --steps 1 || fail "text: $(cat text.err)"
equal "targets of a text" "$(value targets text/metrics.jsonl)" 8

# A text file and a row with the same text have the same tokens.
printf 'What is the capital of France? The capital of France is Paris.' >text.txt
train file --data text.txt --seq-len 8 --steps 1 || fail "file: $(cat file.err)"
cmp -s text/cache/*[0-9a-f].bin file/cache/*[0-9a-f].bin || fail "a text and a row of it differ"

# ---- The cache ----

equal "files of the cache" "$(ls talk/cache | wc -l)" 4
before=$(stat -c '%i %Y' talk/cache/*)
train talk --data talk.jsonl --seq-len 62 --steps 1 --overwrite || fail "again: $(cat talk.err)"
equal "the cache is taken again" "$(stat -c '%i %Y' talk/cache/*)" "$before"
touch -d '2001-01-01' talk.jsonl
train talk --data talk.jsonl --seq-len 62 --steps 1 --overwrite || fail "after a touch: $(cat talk.err)"
equal "files of the cache after a change" "$(ls talk/cache | wc -l)" 8
for i in 1 2 3 4 5 6; do cat text.txt; done >long.txt
train pair --data talk.jsonl --eval-data long.txt --seq-len 62 --steps 1 || fail "held-out data: $(cat pair.err)"
equal "files of the cache with held-out data" "$(ls pair/cache | wc -l)" 8
cmp -s "$(ls -S talk/cache/*-examples.bin | head -1)" "$(ls -S pair/cache/*-examples.bin | head -1)" || fail "the tokens changed"
for mask in talk/cache/*.mask; do : >"$mask"; done
train talk --data talk.jsonl --seq-len 62 --steps 1 --overwrite || fail "a damaged cache: $(cat talk.err)"
equal "what evaluation leaves behind" "$(ls -A tmp)" ""

# ---- Folders, and token files between texts ----

mkdir -p mixed/deeper
cp text.txt mixed/a.txt
cp text/cache/*[0-9a-f].bin mixed/b.bin
cp text.jsonl mixed/deeper/c.jsonl
n=$(value tokens <("$zinc" eval --model talk --data text.txt --seq-len 1 --json))
equal "tokens of a folder" "$(value tokens <("$zinc" eval --model talk --data mixed --seq-len 1 --json))" $((3 * n + 2))

# ---- Models without a tokenizer ----

folder=plain
echo '{"prompt":"What is the capital of France? ","completion":"Paris."}' >pairs.jsonl
train pairs --data pairs.jsonl --seq-len 37 --steps 1 || fail "pairs: $(cat pairs.err)"
equal "targets of a completion as bytes" "$(value targets pairs/metrics.jsonl)" 7 # with the end of text

# ---- Errors ----

# refused TEXT FLAGS…
refused() {
    local text=$1
    shift
    train refused "$@" && fail "$*: taken"
    equal "$*: lines of the message" "$(grep -c . refused.err)" 1
    grep -qF -- "$text" refused.err || fail "$*: '$(cat refused.err)' does not hold '$text'"
    [ ! -e refused ] || fail "$*: left an output folder"
}
folder=words
# What was asked of examples where there are none is known once the data are encoded, which is kept for the next run.
mistaken() {
    local text=$1
    shift
    train mistaken "$@" && fail "$*: taken"
    grep -qF -- "$text" mistaken.err || fail "$*: '$(cat mistaken.err)' does not hold '$text'"
    equal "$*: left" "$(ls mistaken)" cache
}
mistaken "--packing none: the data hold no rows that are examples" --data text.txt --seq-len 8 --packing none
mistaken "--truncate-rows: the data hold no rows that are examples" --data text.txt --seq-len 8 --truncate-rows
mistaken "--truncate-rows does not go with --packing stream" --data talk.jsonl --seq-len 8 --packing stream --truncate-rows
folder=plain
refused "talk.jsonl:1: 'messages' need a tokenizer" --data talk.jsonl
model large 300
folder=large
refused "large: no tokenizer.json to encode text with; add the model's tokenizer files, or take each byte" --data text.txt
train asked --data text.txt --byte-tokenizer --seq-len 8 --steps 1 || fail "--byte-tokenizer: $(cat asked.err)"
train rows --data text.jsonl --byte-tokenizer --seq-len 8 --steps 1 || fail "rows as bytes: $(cat rows.err)"
refused "large: no tokenizer.json" --data rows/cache/*.bin --eval-data text.jsonl --seq-len 8 --steps 1
train tokens --data rows/cache/*.bin --seq-len 8 --steps 1 || fail "token files need no tokenizer: $(cat tokens.err)"
"$zinc" eval --model asked --data text.txt --seq-len 8 --json >eval.json 2>eval.err && fail "eval of bytes that nobody asked for"
grep -qF -- "--byte-tokenizer" eval.err || fail "eval of bytes: $(cat eval.err)"
"$zinc" eval --model asked --data text.txt --byte-tokenizer --seq-len 8 --json >eval.json || fail "eval --byte-tokenizer"
equal "bytes of a text and its end, in windows of 8" "$(value windows eval.json)" 7
model tiny 101
folder=tiny
refused "text as bytes needs a vocabulary of 256, the model has 101" --data text.txt --byte-tokenizer
folder=words
refused "--byte-tokenizer: words has a tokenizer" --data text.txt --byte-tokenizer
printf '{"text":"a"}\n\n{"txt":"b"}\n' >wrong.jsonl
refused "wrong.jsonl:3: the row has none of" --data wrong.jsonl
echo '{"messages":[{"role":"human","content":"a"},{"role":"gpt","content":"b"}]}' >roles.jsonl
train roles --data roles.jsonl --seq-len 8 && fail "roles that nobody knows were taken"
grep -qF "none of the 1 examples has a target that counts" roles.err || fail "roles: $(cat roles.err)"
rm -f words/tokenizer_config.json
refused "talk.jsonl:1: the model's folder has no chat template" --data talk.jsonl
model small 100 bytes
folder=small
refused "text.txt: the tokenizer gives id" --data text.txt
echo '{' >small/tokenizer.json
refused "tokenizer.json" --data text.txt

echo "$failures failures"
((failures == 0))

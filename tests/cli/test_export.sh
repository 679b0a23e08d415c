#!/bin/bash
# `zinc export` as a person meets it: what it says, what it refuses and how, and files that are whole or not there.
# What is in the files is tested by tests/parity/test_gguf.sh.
# test_export.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
mounted=()
cleanup()
{
    local m
    for m in "${mounted[@]}"; do umount "$m" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# Tokenizer of three tokens; $1 is the pre_tokenizer.
tokenizer()
{
    echo '{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":'"$1"',
"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}'
}
plain='{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}'

# model NAME FIXTURE
model()
{
    cp -r "$data/$2" "$1"
    tokenizer "$plain" >"$1/tokenizer.json"
}

# run CODE TEXT FLAGS…: standard output and standard error are in out and err; one of them holds the text.
run()
{
    local code=$1 text=$2 got
    shift 2
    "$zinc" export "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "zinc export $*: code $got, not $code: $(cat err)"
    cat out err | grep -qF -- "$text" || fail "zinc export $*: does not say '$text': $(cat out err)"
}

model llama llama2
model mistral mistral
model gpt2-gelu gpt2-gelu

# ---- Files ----
for type in f32 f16 bf16 q8_0; do
    run 0 "wrote $type.gguf: 21 tensors in $type, " --model llama --gguf $type --output $type.gguf
    [ "$(head -c 4 $type.gguf)" = GGUF ] || fail "$type.gguf does not begin with GGUF"
done
[ "$(grep -c 'are f16' err)" = 1 ] || fail "q8_0 tells $(grep -c 'are f16' err) times that rows are no blocks: $(cat err)"
grep -q '^zinc export: 2 tensors are f16: their rows are no multiple of 32' err || fail "q8_0: $(cat err)"
[ -s err ] && [ "$(stat -c %s q8_0.gguf)" -lt "$(stat -c %s f16.gguf)" ] || fail "q8_0 is not the smallest"
run 0 '"output":"json.gguf","type":"f16","tensors":21,"bytes":'"$(stat -c %s f16.gguf)" --model llama --gguf f16 \
    --output json.gguf --json
cmp -s json.gguf f16.gguf || fail "a second export has other bytes"
run 0 "does not apply the sliding window to this architecture: texts of more than 8 tokens" --model mistral --gguf f32 \
    --output mistral.gguf
(cd llama && "$zinc" export --model . --gguf f32 --output ../dot.gguf >/dev/null) || fail "a model in ."
cmp -s dot.gguf f32.gguf || fail "the model in . has another name than its folder"
run 0 wrote --model llama/ --gguf f32 --output named.gguf --name "My model"
grep -qaF "My model" named.gguf || fail "--name is not in the file"

# ---- What is there stays ----
cp f32.gguf before
run 2 "f32.gguf: is there already; give --overwrite" --model llama --gguf q8_0 --output f32.gguf
run 1 "no such folder" --model nothing --gguf q8_0 --output f32.gguf --overwrite
cmp -s f32.gguf before || fail "a refused export changed the file"
run 0 wrote --model llama --gguf q8_0 --output f32.gguf --overwrite
cmp -s f32.gguf q8_0.gguf || fail "--overwrite did not replace the file"
run 2 "--output llama: is a folder" --model llama --gguf f32 --output llama --overwrite
run 2 "--output none/x.gguf: cannot be written: No such file or directory" --model llama --gguf f32 --output none/x.gguf

# ---- Mistakes ----
run 2 "--gguf" --model llama --output x.gguf
run 2 "q4_0" --model llama --gguf q4_0 --output x.gguf
run 2 "--output" --model llama --gguf f32
run 2 "--output" --model llama --gguf f32 --outfile x.gguf
run 2 "--gguf" --model llama --outtype f32 --output x.gguf
run 1 "nothing: no such folder" --model nothing --gguf f32 --output x.gguf
run 1 "./nothing: no such folder" --model ./nothing --gguf f32 --output x.gguf
run 1 "activation_function 'gelu' (llama.cpp has gelu_new) cannot be exported" --model gpt2-gelu --gguf f32 --output x.gguf
cp -r llama bare && rm bare/tokenizer.json
run 1 "bare: no tokenizer.json, and a GGUF file holds the vocabulary: copy the one of the model" --model bare --gguf f32 \
    --output x.gguf
cp -r llama quantised && sed -i 's/{/{"quantization_config":{"quant_method":"gptq"},/' quantised/config.json
run 1 "has a quantization_config of gptq: quantised weights cannot be read; take the unquantised model" --model quantised \
    --gguf f32 --output x.gguf
cp -r llama odd && tokenizer '{"type":"Sequence","pretokenizers":[{"type":"Punctuation"},'"$plain"']}' >odd/tokenizer.json
run 1 "llama.cpp has no pre-tokenizer with Punctuation; if it knows this one, name it with --pre" --model odd --gguf f32 \
    --output x.gguf
run 0 wrote --model odd --gguf f32 --output odd.gguf --pre falcon
cp -r llama small && sed -i 's/"vocab_size": 101/"vocab_size": 2/' small/config.json
run 1 "has shape (101, 32), but config.json asks for (2, 32)" --model small --gguf f32 --output x.gguf

# ---- Full disks ----
mkdir full
if mount -t tmpfs -o size=64k zinc "$work/full" 2>/dev/null; then
    mounted+=("$work/full")
    run 1 "full/x.gguf: no room for its " --model llama --gguf f32 --output full/x.gguf
    grep -q "No space left on device" err || fail "a full disk: $(cat err)"
    [ -z "$(ls -A full)" ] || fail "a full disk leaves $(ls -A full)"
    run 0 wrote --model llama --gguf q8_0 --output full/x.gguf
else
    echo "cannot mount a small disk: a full one is not tested"
fi

[ -z "$(find . -name '.*.tmp')" ] || fail "temporary files are left: $(find . -name '.*.tmp')"
[ -e x.gguf ] && fail "a refused export wrote a file"
echo "$failures failures"
((failures == 0))

#!/bin/bash
# Bad input to the program: each is one line on standard error that names the file and the cause, with
# exit code 1 (2 for wrong usage), never a crash, and nothing is left where the output would have been.
# test_bad_input.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 n_checks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# refuses CODE TEXT TEXT WORDS…: the program fails with CODE, and its one line holds both texts.
refuses()
{
    local code=$1 first=$2 second=$3 got
    shift 3
    n_checks=$((n_checks + 1))
    "$zinc" "$@" >stdout 2>stderr
    got=$?
    if [ "$got" != "$code" ]; then
        fail "zinc $*: exit code $got, not $code"
        head -20 stderr
    elif [ "$(wc -l <stderr)" != 1 ]; then
        fail "zinc $*: standard error is not one line:"
        head -20 stderr
    elif ! grep -qF -- "$first" stderr || ! grep -qF -- "$second" stderr; then
        fail "zinc $*: does not hold '$first' and '$second' but: $(cat stderr)"
    elif [ -e out ] && [ "$(ls out)" != cache ]; then # text that was encoded may stay encoded
        fail "zinc $*: left an output folder"
    fi
    rm -rf out
}

# train CODE TEXT TEXT MODEL FLAGS…: training of a folder is refused.
train()
{
    local code=$1 first=$2 second=$3 model=$4
    shift 4
    refuses "$code" "$first" "$second" train --model "$model" --data tokens.bin --seq-len 8 --steps 1 --output out "$@"
}

# le BYTES NUMBER: a little-endian number.
le()
{
    local i n=$2
    for ((i = 0; i < $1; i++)); do
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $((n & 255)))"
        n=$((n >> 8))
    done
}

# The model that all the bad ones are made from: as the fixture, but without dropout, so that
# nothing else is said.
mkdir good
sed 's/pdrop": 0.1/pdrop": 0.0/' "$data/gpt2/config.json" >good/config.json
cp "$data/gpt2/model.safetensors" good/
cp "$data/tokens.bin" tokens.bin
header_bytes=$(($(od -An -tu8 -N8 good/model.safetensors)))
tail -c +9 good/model.safetensors | head -c "$header_bytes" >header
tail -c +$((9 + header_bytes)) good/model.safetensors >body

# variant NAME: a copy of the good folder.
variant()
{
    rm -rf "$1"
    cp -r good "$1"
}

# with_header NAME SCRIPT: a copy whose header went through sed; the data stay.
with_header()
{
    variant "$1"
    sed "$2" header >changed
    cmp -s header changed && fail "$1: the header did not change"
    { le 8 "$(wc -c <changed)"; cat changed body; } >"$1/model.safetensors"
}

# with_config NAME SCRIPT
with_config()
{
    variant "$1"
    sed "$2" good/config.json >"$1/config.json"
    cmp -s good/config.json "$1/config.json" && fail "$1: config.json did not change"
}

"$zinc" train --model good --data tokens.bin --seq-len 8 --steps 1 --output out >stdout 2>stderr || {
    fail "the good model does not train"
    cat stderr
}
rm -rf out

# ---- safetensors ----
variant cut
head -c 100000 good/model.safetensors >cut/model.safetensors
train 1 cut/model.safetensors "" cut
head -c 200 good/model.safetensors >cut/model.safetensors
train 1 cut/model.safetensors "header" cut
head -c 5 good/model.safetensors >cut/model.safetensors
train 1 cut/model.safetensors "" cut
: >cut/model.safetensors
train 1 cut/model.safetensors "" cut
variant long
cat good/model.safetensors body >long/model.safetensors
train 1 long/model.safetensors "" long

variant length
for length in 1000000000000 99999999 9223372036854775807 -1 0; do
    { le 8 $length; cat header body; } >length/model.safetensors
    train 1 length/model.safetensors "" length
done
{ le 8 "$header_bytes"; tr '{' '[' <header; cat body; } >length/model.safetensors
train 1 length/model.safetensors "" length

with_header overlap 's/\[6400,6784\]/[6396,6780]/'
train 1 overlap/model.safetensors h.0.attn overlap
with_header hole 's/\[0,6400\]/[0,6396]/; s/1,1,40,40/1,1,39,41/'
train 1 hole/model.safetensors h.0.attn hole
with_header backwards 's/\[6400,6784\]/[6784,6400]/'
train 1 backwards/model.safetensors h.0.attn.c_attn.bias backwards
with_header beyond 's/\[6400,6784\]/[6400,99999999]/'
train 1 beyond/model.safetensors h.0.attn.c_attn.bias beyond
with_header overflow 's/"shape":\[96\]/"shape":[4294967296,4294967296,96]/'
train 1 overflow/model.safetensors h.0.attn.c_attn.bias overflow
with_header size 's/"shape":\[96\]/"shape":[97]/'
train 1 size/model.safetensors h.0.attn.c_attn.bias size
with_header shape 's/"shape":\[96\]/"shape":[2,48]/'
train 1 shape/model.safetensors "tensor 'h.0.attn.c_attn.bias' has shape (2, 48), but config.json asks for (96)" shape
with_header dtype 's/\[1,1,40,40\],"data_offsets":\[0,6400\]/[1504],"data_offsets":[0,6016]/
    s/"F32","shape":\[96\],"data_offsets":\[6400,6784\]/"I64","shape":[96],"data_offsets":[6016,6784]/'
train 1 dtype/model.safetensors "tensor 'h.0.attn.c_attn.bias' is of type I64" dtype
with_header type 's/"dtype":"F32"/"dtype":"F77"/'
train 1 type/model.safetensors F77 type
with_header missing 's/h\.1\.ln_2\.bias/h.1.ln_3.bias/'
train 1 missing/model.safetensors "tensor 'h.1.ln_2.bias' is missing" missing
with_header twice 's/h\.1\.ln_2\.bias/h.1.ln_1.bias/'
train 1 twice/model.safetensors h.1.ln_1.bias twice

# ---- shards ----
variant shards
rm shards/model.safetensors
cp good/model.safetensors secret.safetensors
for name in ../secret.safetensors /etc/passwd .. . "" sub/x 'a\\b'; do
    printf '{"weight_map":{"wte.weight":"%s"}}' "$name" >shards/model.safetensors.index.json
    train 1 shards/model.safetensors.index.json "wte.weight" shards
done
printf '{"weight_map":{"wte.weight":"none.safetensors"}}' >shards/model.safetensors.index.json
train 1 shards/none.safetensors "" shards
printf '{"weight_map":{}}' >shards/model.safetensors.index.json
train 1 shards/model.safetensors.index.json "lists no tensors" shards
printf '{"weight_map":7}' >shards/model.safetensors.index.json
train 1 shards/model.safetensors.index.json weight_map shards
printf '{"weight_map":{"wte.weight":' >shards/model.safetensors.index.json
train 1 shards/model.safetensors.index.json "" shards
rm shards/model.safetensors.index.json
train 1 shards "no weights" shards
: >shards/pytorch_model.bin
train 1 shards "convert it to safetensors" shards

# ---- config.json ----
variant config
for text in '{"model_type":"gpt2",' '' '[]' 'null' '{"model_type":"gpt2"}{}' '{"a":1,"a":2}' $'{"model_type":"\xff"}'; do
    printf %s "$text" >config/config.json
    train 1 config/config.json "" config
done
rm config/config.json
train 1 config "holds no config.json" config
train 1 "nowhere: no such folder" "hf download nowhere --local-dir nowhere" nowhere
train 1 ./nowhere "no such folder" ./nowhere
with_config unknown 's/"gpt2"/"bert"/'
train 1 unknown/config.json "model_type 'bert' is not supported" unknown
with_config heads 's/"n_head": 4/"n_head": 5/'
train 1 heads/config.json "n_head 5" heads
with_config layers 's/"n_layer": 2/"n_layer": 3/'
train 1 layers/model.safetensors "h.2." layers
with_config words 's/"vocab_size": 101/"vocab_size": 102/'
train 1 words/model.safetensors "tensor 'wte.weight' has shape (101, 32), but config.json asks for (102, 32)" words
with_config negative 's/"n_embd": 32/"n_embd": -32/'
train 1 negative/config.json n_embd negative
with_config giant 's/"n_layer": 2/"n_layer": 2000000000/'
train 1 giant/config.json n_layer giant

for method in '{"quant_method": "gptq", "bits": 4}' '{"load_in_8bit": true}' '"any"'; do
    with_config quantised "s/\"n_embd\"/\"quantization_config\": $method, \"n_embd\"/"
    train 1 quantised/config.json "quantization_config" quantised
    grep -q "take the unquantised model" stderr || fail "quantised: no way out in: $(cat stderr)"
done
train 1 quantised/config.json "quantization_config" quantised --from-scratch
with_config unquantised 's/"n_embd"/"quantization_config": null, "n_embd"/'
"$zinc" eval --model unquantised --data tokens.bin --seq-len 8 >stdout 2>stderr || fail "no quantization_config: $(cat stderr)"
for name in qweight qzeros scales g_idx SCB weight.absmax weight.quant_state.bitsandbytes__nf4 weight_scale_inv; do
    with_header quantised "s/\"h.0.attn.c_attn.weight\"/\"h.0.attn.c_attn.$name\"/"
    train 1 quantised/model.safetensors "tensor 'h.0.attn.c_attn.$name' is of quantised weights" quantised
done

# ---- data ----
# tokens NAME COUNT ID…: a token file of 16-bit ids whose header says COUNT.
tokens()
{
    local file=$1 count=$2 id
    shift 2
    { le 4 20240520; le 4 1; le 4 "$count"; head -c 1012 /dev/zero; for id; do le 2 "$id"; done; } >"$file"
}

# data CODE TEXT TEXT PATH…: training on it is refused, and so is evaluation.
data()
{
    local code=$1 first=$2 second=$3
    shift 3
    refuses "$code" "$first" "$second" train --model "$model" --data "$@" --seq-len 8 --steps 1 --output out
    refuses "$code" "$first" "$second" eval --model "$model" --data "$@" --seq-len 8
}
model=good

data 1 nothing.bin "no such file" nothing.bin
: >empty.bin
data 1 empty.bin "header" empty.bin
tokens none.bin 0
data 1 none.bin "0 tokens" none.bin
tokens short.bin 8 1 2 3 4 5 6 7 8
data 1 short.bin "8 tokens are too few for one window" short.bin
tokens lie.bin 9 1 2 3 4 5 6 7 8
data 1 lie.bin "counts 9 tokens" lie.bin
tokens lie.bin 4294967295 1 2 3
data 1 lie.bin "counts 4294967295 tokens" lie.bin
{ le 4 20240521; tail -c +5 tokens.bin; } >magic.bin
data 1 magic.bin "20240521" magic.bin
{ head -c 4 tokens.bin; le 4 2; tail -c +9 tokens.bin; } >version.bin
data 1 version.bin "version 2" version.bin
"$zinc" train --model "$data/../../../examples/demo" --from-scratch --data tokens.bin --steps 0 --seq-len 8 --output bytes \
    >stdout 2>stderr || fail "a model of bytes: $(cat stderr)"
model=bytes
printf '{"text":"a"}\n{"text":\n' >broken.jsonl
data 1 broken.jsonl 2 broken.jsonl
printf '{"text":"a"}\n' >rows.jsonl
data 1 rows.jsonl "too few for one window" rows.jsonl
printf '\n{"text":5}\n' >typed.jsonl
data 1 typed.jsonl:2 "'text': expected a string, found 5" typed.jsonl
model=good
data 1 body "not a kind of data" body
printf 'some text that is long enough' >text.txt
data 1 "good: no tokenizer.json" "a vocabulary of 101 is too small for bytes" text.txt
mkdir folder
data 1 folder "" folder
data 1 none.bin "" folder none.bin
printf 'x' >folder/x.csv
data 1 folder/x.csv "files are not read" folder

# An id that the vocabulary does not have is found where it is read.
tokens high.bin 20 1 2 3 4 5 6 7 8 9 10 11 12 101 14 15 16 17 18 19 20
refuses 1 high.bin 101 eval --model good --data high.bin --seq-len 8
"$zinc" train --model good --data high.bin --seq-len 8 --steps 2 --output high >stdout 2>stderr
[ $? = 1 ] && grep -q 'high\.bin.*101' stderr || fail "an id outside the vocabulary: $(cat stderr)"
[ ! -e high/model.safetensors ] || fail "a failed run wrote a model"
refuses 1 high.bin 101 train --model good --data tokens.bin --eval-data high.bin --seq-len 8 --steps 1 --output high --overwrite
train 1 nothing.bin "no such file" good --eval-data nothing.bin
train 1 short.bin "8 tokens are too few for one window" good --eval-data short.bin

# ---- the output folder ----
mkdir held
: >held/metrics.jsonl
for held in metrics.jsonl run.json model.safetensors; do
    rm -f held/*
    printf x >held/$held
    refuses 2 held "$held" train --model good --data tokens.bin --seq-len 8 --steps 1 --output held
    grep -q -- "--resume.*--overwrite" stderr || fail "a folder that holds a run: no way out in: $(cat stderr)"
    [ "$(cat held/*)" = x ] || fail "a refused run changed the folder"
done
"$zinc" train --model good --data tokens.bin --seq-len 8 --steps 1 --output held --overwrite >stdout 2>stderr &&
    [ "$(grep -c . held/metrics.jsonl)" = 1 ] && [ "$(wc -c <held/model.safetensors)" -gt 100000 ] ||
    fail "--overwrite: $(cat stderr)"
ln -s good link
for folder in good ./good/ link; do
    refuses 2 "$folder" "the model's own folder" train --model good --data tokens.bin --seq-len 8 --steps 1 --output $folder --overwrite
done
cmp -s good/model.safetensors "$data/gpt2/model.safetensors" || fail "the model's own folder was changed"
refuses 2 tokens.bin "is a file" train --model good --data tokens.bin --seq-len 8 --steps 1 --output tokens.bin
refuses 1 tokens.bin "" train --model good --data tokens.bin --seq-len 8 --steps 1 --output tokens.bin/run
mkdir closed
chmod 500 closed
if [ "$(id -u)" != 0 ]; then
    refuses 1 closed/run "" train --model good --data tokens.bin --seq-len 8 --steps 1 --output closed/run
fi
"$zinc" train --model good --data tokens.bin --seq-len 8 --steps 1 --output out --log tokens.bin/log >stdout 2>stderr
[ $? = 2 ] && grep -qF tokens.bin/log stderr || fail "a log that cannot be written: $(cat stderr)"
rm -rf out
if [ -w /dev/full ]; then
    "$zinc" train --model good --data tokens.bin --seq-len 8 --steps 1 --output out --log /dev/full >stdout 2>stderr
    [ $? = 1 ] && grep -qF /dev/full stderr || fail "a full disk: $(cat stderr)"
    rm -rf out
fi

# ---- flags ----
refuses 2 "--seq-len 41" "at most 40" train --model good --data tokens.bin --seq-len 41 --output out
refuses 2 "--seq-len 41" "at most 40" eval --model good --data tokens.bin --seq-len 41
train 2 "--threads 4096" "processors" good --threads 4096
refuses 2 "--threads 4096" "processors" eval --model good --data tokens.bin --seq-len 8 --threads 4096
for flag in "--threads 0" "--threads two" "--steps -1" "--micro-batch 0" "--accumulate 0" "--lr 0" "--lr nan" \
    "--epochs 0" "--beta1 1" "--clip -1" "--seed -1" "--optimizer lamb" "--lr-schedule step" "--output-dtype int8" \
    "--memory-limit 4XB" "--memory-limit -1" "--recompute maybe" "--seq-len 0"; do
    # shellcheck disable=SC2086
    refuses 2 "${flag% *}" "" train --model good --data tokens.bin --output out $flag
    grep -q twice stderr && fail "$flag is not what was refused"
done
refuses 2 --model "" train --data tokens.bin
refuses 2 --data "" train --model good

train 1 "needs" "the limit is 1.00 MiB" good --memory-limit 1MiB
needs=$(sed -n 's/.*needs \([0-9.]*\) MiB.*/\1/p' stderr)
"$zinc" train --model good --data tokens.bin --seq-len 8 --steps 1 --output out --memory-limit "$((${needs%.*} + 1))MiB" \
    >stdout 2>stderr || fail "the memory that was said to be needed is not enough: $(cat stderr)"
rm -rf out

ZINC_ISA=sse9 train 2 ZINC_ISA sse9 good

# What --help lists as not in this build is refused by that name.
"$zinc" train --help | sed '1,/^not in this build/d' | tr -d '\n' | sed 's/ \+/ /g; s/ (/(/g' >later
read -ra later <later
for word in "${later[@]}"; do # --flag, or --flag(value value value)
    case $word in
    -*\(*) flag=${word%%(*} value=${word#*(} ;;
    -*) flag=$word value=1 ;;
    *) value=$word ;;
    esac
    refuses 2 "$flag" "not in this build" train --model good --data tokens.bin --output out "$flag" "${value%)}"
done

echo "$n_checks refusals, $failures failures"
exit $((failures > 0))

#!/bin/bash
# What people get wrong, and what they are told: the exit code, and a message that says the cause, the place and what to do. One
# row a mistake: mistake CODE MESSAGE COMMAND…; the message is part of one line on standard error.
# test_mistakes.sh ZINC SOURCE BUILD
zinc=$1 source=$2
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
failures=0 n=0
cd "$work" || exit 1
export HF_HUB_CACHE=$work/hub

mistake()
{
    local code=$1 message=$2 got
    shift 2
    n=$((n + 1))
    "$zinc" "$@" >out 2>err </dev/null
    got=$?
    [ "$got" = "$code" ] && grep -qF -- "$message" err && return
    echo "FAIL zinc $*: exit code $got, not $code, or not '$message' but:"
    tail -3 err
    failures=$((failures + 1))
}

# A model with tokenizer and chat template, a run with a checkpoint, and folders that are not quite models.
mkdir made hub model.d
cp "$source"/tests/data/chat/bytes/tokenizer*.json made
sed 's/"vocab_size": 257/"vocab_size": 380/; s/"hidden_size": 192/"hidden_size": 96/; s/"eos_token_id": 256/"eos_token_id": 2/
     s/"num_attention_heads": 6/"num_attention_heads": 3/; s/"num_key_value_heads": 2/"num_key_value_heads": 1/' \
    "$source/examples/demo/config.json" >made/config.json
head -c 4000 "$source/examples/demo/demo.txt" >book.txt
small="--data book.txt --seq-len 32"
# shellcheck disable=SC2086  # words on purpose
"$zinc" train --model made --from-scratch $small --steps 0 --output model >log 2>&1 || { cat log; exit 1; }
# shellcheck disable=SC2086
"$zinc" train --model model $small --steps 1 --save all --output run >log 2>&1 || { cat log; exit 1; }
like() { mkdir "$1"; cp model/*.json "$1"; rm -f "$1/run.json"; }
like pickle; : >pickle/pytorch_model.bin
like pointer
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n' | tee pointer/model.safetensors >tokens-pointer.json
like page; printf '<!DOCTYPE html>\n<html></html>\n' >page/config.json
like no-weights
like no-tokenizer; rm no-tokenizer/tokenizer*; cp model/model.safetensors no-tokenizer
like no-template; cp model/model.safetensors no-template; echo '{"eos_token": "<|im_end|>"}' >no-template/tokenizer_config.json
like mixtral; sed -i 's/"llama"/"mixtral"/' mixtral/config.json
like gemma; sed -i 's/"llama"/"gemma3_text"/' gemma/config.json
like quantised; sed -i 's/^{/{"quantization_config": {"quant_method": "gptq"},/' quantised/config.json
like scaled; sed -i 's/^{/{"rope_scaling": {"rope_type": "longrope"},/' scaled/config.json
like other; sed -i 's/"intermediate_size": 512/"intermediate_size": 256/' other/config.json
like cut; head -c 20000 model/model.safetensors >cut/model.safetensors
mkdir gguf adapter empty; echo GGUF >gguf/model.gguf; echo '{}' >adapter/adapter_config.json
# Data that are none.
printf 'PK\003\004' >rows.zip; printf 'PAR1' >rows.parquet; echo 'a,b' >rows.csv; printf '\037\213\010' >rows.jsonl.gz
printf '\037\213\010' >packed.jsonl; : >empty.txt; head -c 100 book.txt >short.txt; echo '{"question": "x", "answer": "y"}' >keys.jsonl
echo '{"prompt": "x", completion: "y"}' >broken.jsonl
printf '{"prompt": "x", "completion": "%s"}\n' "$(printf 'word %.0s' {1..900})" >long.jsonl

# The command line.
mistake 2 "unknown command tran, did you mean train" tran
mistake 2 "unknown flag --modle, did you mean --model" train --modle model
mistake 2 "unknown flag --learning-rate; in zinc it is --lr" train --model model $small --learning-rate 1e-4
mistake 2 "in zinc it is --micro-batch" train --model model $small --per_device_train_batch_size 4
mistake 2 "in zinc it is --temperature" generate --model model --prompt x --temp 1
mistake 2 "--model DIR is required; \`zinc train --help\` shows an example" train --data book.txt
mistake 2 "--data PATH is required" eval --model model
mistake 2 "--prompt TEXT is required (- for standard input" generate --model model
mistake 2 "a value with spaces is put in quotes" generate --model model --prompt Hello there
mistake 2 "--resume follows an equal sign: --resume=run" train --model model $small --resume run
mistake 2 "--lr needs a value" train --model model $small --lr
mistake 2 "--seed is given twice" train --model model $small --seed 1 --seed 2
# Values.
mistake 2 "is not a size (examples: 512MiB, 4GiB, 1GB, 1048576); it has no spaces" train --model model $small --memory-limit "4 GB"
mistake 2 "'50%' is not a size" eval --model model $small --memory-limit 50%
mistake 1 "the limit is 4 B" train --model model $small --output o --memory-limit 4
mistake 1 "at the least, the limit is 1.00 MiB; a smaller --micro-batch or --seq-len helps" \
    train --model model $small --output o --memory-limit 1M
mistake 2 "it has a point, no comma" train --model model $small --lr 0,0001
mistake 2 "it must be above 0" train --model model $small --lr 0
mistake 2 "it must be above 0 and at most 1" generate --model model --prompt x --top-p 2
mistake 2 "'1k' is not a whole number" train --model model $small --steps 1k
mistake 2 "is not one of: fp32 bf16 fp16; did you mean bf16" train --model model $small --precision bfloat16
mistake 2 "is not one of: f32 f16 bf16 q8_0" export --model model --gguf q4_0 --output o.gguf
mistake 2 "did you mean f16" export --model model --gguf fp16 --output o.gguf
mistake 2 "is not one of: none cpu nvme; did you mean nvme" train --model model $small --offload-optimizer ssd
mistake 2 "is not one of: 0 1 2 3" train --model model $small --stage zero3
mistake 2 "did you mean adamw" train --model model $small --optimizer AdamW
mistake 2 "--seq-len 100000: the model in model takes at most 512" train --model model --data book.txt --seq-len 100000
mistake 2 "takes at most 512 in all" generate --model model --prompt x --max-tokens 600
mistake 2 "\`--device sim\`: not in this build" train --model model $small --device sim
mistake 2 "is not one of: cpu" train --model model $small --device gpu
mistake 1 "cannot start /nowhere/mpirun: No such file or directory (install an MPI, or name it with --mpirun)" \
    train --model model $small --output o -n 2 --mpirun /nowhere/mpirun
# Models.
mistake 1 "hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B" train --model Qwen/Qwen2.5-0.5B $small
mistake 1 "is a file; give the folder that holds it: --model model" eval --model model/config.json $small
mistake 1 "is a GGUF file, which zinc writes but does not read" generate --model gguf/model.gguf --prompt x
mistake 1 "holds model.gguf and no config.json" train --model gguf $small --output o
mistake 1 "is an adapter (adapter_config.json), not a model" generate --model adapter --prompt x
mistake 1 "empty: holds no config.json, so it is no hub folder" export --model empty --gguf f16 --output o.gguf
mistake 1 "convert it to safetensors: python3 -c" train --model pickle $small --output o
mistake 1 "is a pointer of git LFS, not the file itself: fetch it with \`git lfs pull\`" train --model pointer $small --output o
mistake 1 "page/config.json: is a web page, not the file itself" train --model page $small --output o
mistake 1 "no weights: expected model.safetensors" generate --model no-weights --prompt x
mistake 1 "bytes of data: it was cut short, fetch it again" generate --model cut --prompt x
mistake 1 "add the model's tokenizer files" train --model no-tokenizer $small --output o
mistake 1 "no-tokenizer: no tokenizer.json: add the model's tokenizer files" tokenize --model no-tokenizer book.txt --output o.bin
mistake 1 "take the model's chat or instruct version" generate --model no-template --chat --prompt x
mistake 1 "model_type 'mixtral' is not supported (gpt2, llama, mistral, qwen2 and qwen3 are)" train --model mixtral $small --output o
mistake 1 "model_type 'gemma3_text' is not supported" plan --model gemma
mistake 1 "take the unquantised model that they were made from" eval --model quantised $small
mistake 1 "longrope" train --model scaled $small --output o
# Data.
mistake 1 "missing.txt: no such file or folder" train --model model --data missing.txt --output o
mistake 1 "is an address, and nothing is fetched" train --model model --data https://example.org/book.txt --output o
mistake 1 "datasets.load_dataset('tatsu-lab/alpaca', split='train').to_json('alpaca.jsonl')" \
    train --model model --data tatsu-lab/alpaca --output o
mistake 1 "rows.zip: is a zip archive" train --model model --data rows.zip --output o
mistake 1 "datasets.Dataset.from_parquet('rows.parquet').to_json('rows.jsonl')" train --model model --data rows.parquet --output o
mistake 1 "datasets.Dataset.from_csv('rows.csv')" tokenize --model model rows.csv --output o.bin
mistake 1 "unpack it first: gzip -d 'rows.jsonl.gz'" train --model model --data rows.jsonl.gz --output o
mistake 1 "packed.jsonl: is compressed: unpack it first" eval --model model --data packed.jsonl
mistake 1 "empty.txt: 1 tokens are too few" train --model model --data empty.txt --output o
mistake 1 "the data is empty: 0 files (.txt, .jsonl, .json, .bin)" train --model model --data empty --output o
mistake 1 "give more data or a smaller --seq-len" train --model model --data short.txt --output o
mistake 1 "(--map NEW=OLD gives other keys these names); it has 'question', 'answer'" train --model model --data keys.jsonl --output o
mistake 1 "broken.jsonl:1: not valid JSON: column" train --model model --data broken.jsonl --output o
mistake 1 "give --truncate-rows to cut them at their end" train --model model --data long.jsonl --output o
# Output and checkpoints.
mistake 2 "holds a run already (run.json); go on with --resume, replace it with --overwrite" train --model model $small --output run
mistake 2 "is the model's own folder; name another" train --model model $small --output model
mistake 2 "is a file, not a folder" train --model model $small --output book.txt
mistake 1 "/proc/none: cannot make the folder" train --model model $small --steps 1 --output /proc/none
mistake 2 "cannot be written" export --model model --gguf f16 --output nowhere/o.gguf
mistake 1 "no whole checkpoint there; \`zinc checkpoint list DIR\`" train --model model $small --output o --resume=nowhere
mistake 2 "is of another model than --model other: in config.json it has \"intermediate_size\": 512, the other has 256" \
    train --model other --from-scratch $small --steps 3 --output run --resume
mistake 2 "'lst' is not one of: list inspect verify export" checkpoint lst run
mistake 1 "holds no checkpoint (--checkpoint-every N and --save all" checkpoint list model
mistake 1 "nowhere: no such folder" checkpoint verify nowhere
mistake 2 "export needs --output DIR" checkpoint export run
mistake 1 "so it is no run's output" report empty
mistake 1 "is a file; give the output folder of a run" report book.txt
# Plans.
mistake 2 "one of --model, --params and --layers says what to plan" plan
mistake 2 "is not a number above 0 (examples: 124M, 1.5B, 1T)" plan --params seven
mistake 2 "did you mean dgx-a100" plan --params 7B --cluster dgx-b100
mistake 2 "is not one of: zero-table1" plan --paper table1
mistake 2 "inputs need --output FILE.bin" tokenize --model model book.txt

# A folder that may not be written to, and a disk that is full, where they can be had.
if [ "$(id -u)" != 0 ]; then
    mkdir closed; chmod a-w closed
    mistake 1 "closed" train --model model $small --steps 1 --output closed/o
fi
if [ -w /dev/full ]; then
    n=$((n + 1))
    "$zinc" generate --model model --prompt x --max-tokens 2 >/dev/full 2>err
    [ $? = 1 ] && grep -q "standard output cannot be written" err || { echo "FAIL a full disk: $(cat err)"; failures=$((failures + 1)); }
fi
echo "$n mistakes, $failures not as expected"
exit $((failures > 0))

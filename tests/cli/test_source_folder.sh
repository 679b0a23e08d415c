#!/bin/bash
# The model's folder is read at the start and never again: moved, removed or edited while a run trains, it changes nothing of
# what the run writes.
# test_source_folder.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# MPI's libraries leak, unloaded by then so that no suppression knows them.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

make_model()
{
    rm -rf model moved
    cp -r "$data/gpt2" model
    chmod -R u+w model
    echo '{"model":{}}' >model/tokenizer.json
    echo '{"eos_token_id":100}' >model/generation_config.json
    printf 'a template, \0 and all' >model/chat_template.jinja
}

# train OUTPUT FLAGS…: its log is larger than what a pipe takes (64 KiB), so that it stands in mid-run until the log is read.
train()
{
    "$zinc" train --model model --data "$data/tokens.bin" --seq-len 16 --steps 280 --checkpoint-every 140 --keep 3 --threads 1 \
        --output-dtype bf16 --precision fp32 --memory-limit 1GiB --output "$@" >"$1.out" 2>"$1.err"
}

# disturbed OUTPUT COMMAND FLAGS…: the command runs once the first step is logged and long before the first checkpoint.
disturbed()
{
    local output=$1 command=$2 first
    shift 2
    make_model
    mkfifo "$output.log"
    (
        train "$output" --log "$output.log" "$@"
        code=$?
        exec 4<>"$output.log" # wakes the reader of a log that was never opened
        exit "$code"
    ) &
    local job=$!
    exec 3<"$output.log"
    read -r first <&3
    case $first in '{"step":1,'*) ;; *) fail "$output: the log begins with '$first'" ;; esac
    "$command"
    sed -n '$p' <&3 >"$output.last"
    exec 3<&-
    wait "$job" || fail "$output: ended with $?: $(tail -1 "$output.err")"
    grep -q '"step":280,' "$output.last" || fail "$output: the log ends with $(cat "$output.last")"
}

# same REFERENCE OUTPUT: the model, its files and every checkpoint, to the byte
same()
{
    diff -r -x metrics.jsonl -x run.json -x summary.txt -x README.md -x tensorboard -x cache -x .lock "$1" "$2" >differences || fail "$2: $(head -3 differences)"
}

move() { mv model moved; }
remove() { rm -r model; }
edit()
{
    sed -i 's/"n_head": 4/"n_head": 8/' model/config.json
    echo '{"model":{"edited":1}}' >model/tokenizer.json
    echo new >model/merges.txt
    rm model/generation_config.json
    head -c 40000 /dev/urandom >model/model.safetensors
}

make_model
train still || fail "still: ended with $?: $(tail -1 still.err)"
for name in config.json generation_config.json tokenizer.json chat_template.jinja model.safetensors; do
    [ -f "still/$name" ] || fail "the output has no $name"
    [ -f "still/checkpoints/step-00000140/$name" ] || fail "the checkpoint has no $name"
done
cmp -s model/chat_template.jinja still/chat_template.jinja || fail "the template is another"
grep -q '"torch_dtype": "bfloat16"' still/config.json || fail "config.json does not say bfloat16"
disturbed moved-away move
same still moved-away
disturbed removed remove
same still removed
disturbed edited edit
same still edited

# On several ranks rank 0 writes for all.
make_model
train still-2 -n 2 || fail "still-2: ended with $?: $(tail -1 still-2.err)"
disturbed removed-2 remove -n 2
same still-2 removed-2

# A checkpoint holds all that a model folder of it needs.
"$zinc" checkpoint export removed/checkpoints/step-00000140 --output exported >out 2>err || fail "export: $(cat err)"
cmp -s exported/tokenizer.json still/tokenizer.json || fail "the export has another tokenizer.json"

# refused TEXT: at the start, with nothing written
refused()
{
    "$zinc" train --model model --data "$data/tokens.bin" --seq-len 16 --steps 1 --output refused >out 2>err
    [ $? = 1 ] || fail "$1: exit code is not 1: $(cat err)"
    grep -qF -- "$1" err || fail "no '$1' in: $(cat err)"
    [ -e refused ] && fail "$1: an output folder was made"
}
make_model
sed -i 's/"torch_dtype": "float32"/"torch_dtype": 32/' model/config.json
refused "model/config.json: 'torch_dtype': expected a string"
make_model
truncate -s 257M model/tokenizer.json
refused "model/tokenizer.json: larger than the 268435456 bytes such a file may have"

exit $((failures > 0))

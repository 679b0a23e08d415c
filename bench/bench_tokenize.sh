#!/bin/bash
# Encoding 10 MB of text beside the `tokenizers` library on one thread. Prints JSON. Without --model, the GPT-2 tokenizer
# is taken that tests/parity/test_tokenizers.sh has made.
# usage: bench_tokenize.sh PROGRAM [--model DIR]
zinc=$1 here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/zinc
folder=$(ls -d "$cache"/tokenizers-*/gpt2 2>/dev/null | head -1)
[[ ${2-} == --model ]] && folder=$3
if [[ -z $folder ]]; then
    echo "bench_tokenize: no tokenizer: run tests/parity/test_tokenizers.sh once, or give --model DIR" >&2
    exit 0
fi
(
    source "$here/tests/parity/venv.sh"
    RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$python" "$here/bench/tokenizer_speed.py" "$zinc" "$folder"
)
code=$?
exit $((code == 77 ? 0 : code)) # no Python packages: nothing to compare with

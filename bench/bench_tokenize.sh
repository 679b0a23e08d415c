#!/bin/bash
# Seconds to encode 10 MB of text on one thread, by `zinc tokenize` and by the `tokenizers` library. Prints JSON.
# usage: bench_tokenize.sh PROGRAM [TOKENIZER_FOLDER]
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
source "$here/tests/parity/venv.sh"
folder=${2:-$(ls -d "$cache"/tokenizers-*/gpt2 2>/dev/null | head -1)}
[[ -n $folder ]] || skip "no tokenizer: run tests/parity/test_tokenizers.sh once, or name a folder with tokenizer.json"
RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false "$python" "$here/bench/tokenize.py" "$1" "$folder"

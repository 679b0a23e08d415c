#!/bin/bash
# GGUF files as others read them: the `gguf` package finds the tensors, bytes and metadata that it would write itself; transformers
# gives the folder's logits and ids from them. For a small model of every architecture, for tokenizers of every kind, and for a
# real pretrained model where it can be had.
# usage: test_gguf.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 source=$2 here=$2/tests/parity
source "$here/venv.sh"
"$python" -c 'import gguf, tokenizers' 2>/dev/null || skip "the packages gguf and tokenizers are not installed"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 # another test has the other core

fail() { echo "FAIL $*"; exit 1; }

# transformers reads GGUF files with accelerate only; without its dependencies, which would bring CUDA's libraries.
add_accelerate() {
    local pins=(accelerate==1.15.0 psutil==7.2.2) made
    local kept=$cache/accelerate-$(echo "${pins[*]}" | cksum | cut -d' ' -f1)
    if [[ ! -d $kept ]]; then
        mkdir -p "$cache"
        made=$(mktemp -d "$cache/making.XXXXXX") || exit 1
        "$python" -m pip install --quiet --no-deps --target "$made" "${pins[@]}" >"$work/log" 2>&1 ||
            { rm -rf "$made"; skip "accelerate cannot be had from PyPI: $(tail -1 "$work/log")"; }
        mv -T "$made" "$kept" 2>/dev/null || rm -rf "$made"
    fi
    export PYTHONPATH=$kept
}
"$python" -c 'import accelerate' 2>/dev/null || add_accelerate

check() { "$python" "$here/check_gguf.py" "$zinc" "$@" || exit 1; }

check fixtures "$source/tests/data/parity" "$work"
check tokenizers "$source/examples/demo/demo.txt" "$work"
( # what cannot be had leaves out the real model alone
    trap - EXIT
    source "$here/smollm2.sh"
    check model "$model" "$source/examples/demo/demo.txt" "$work"
)
code=$?
((code == 77)) && echo "no real model" && exit 0
exit $code

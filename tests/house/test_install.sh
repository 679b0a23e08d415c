#!/bin/bash
# What `make install` puts down is enough for a C program to be built against it with pkg-config and run.
# usage: test_install.sh PROGRAM SOURCE_DIR BUILD_DIR
set -eu
source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >"$work/log"
"$work/usr/bin/zinc" --version
PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name zinc.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --define-variable=prefix="$work/usr" --cflags --libs --static zinc)"
cc -std=c17 "$source/examples/finetune.c" "${flags[@]}" -o "$work/finetune"
data=$source/tests/data/parity
"$work/finetune" "$data/llama2" "$data/tokens.bin" "$work/out"
[ -s "$work/out/model.safetensors" ] && [ "$(wc -l <"$work/out/metrics.jsonl")" = 10 ]

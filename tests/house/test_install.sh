#!/bin/bash
# What `make install` puts down is enough for a C program to be built against it with pkg-config and run, with the shared library
# and with the archive; both show the public functions alone.
# usage: test_install.sh PROGRAM SOURCE_DIR BUILD_DIR
set -eu
source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/usr" >"$work/log"
"$work/usr/bin/zinc" --version
for file in man/man1/zinc-train.1 man/man3/zn_train.3 bash-completion/completions/zinc zsh/site-functions/_zinc; do
    [ -s "$work/usr/share/$file" ]
done
PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name zinc.pc)")
export PKG_CONFIG_PATH
lib=$(pkg-config --define-variable=prefix="$work/usr" --variable=libdir zinc)
data=$source/tests/data/parity

# train_with PROGRAM: ten steps with the example
train_with()
{
    "$work/$1" "$data/llama2" "$data/tokens.bin" "$work/out-$1"
    [ -s "$work/out-$1/model.safetensors" ] && [ "$(wc -l <"$work/out-$1/metrics.jsonl")" = 10 ]
}

read -ra flags <<<"$(pkg-config --define-variable=prefix="$work/usr" --cflags --libs zinc)"
cc -std=c17 "$source/examples/finetune.c" "${flags[@]}" -Wl,-rpath,"$lib" -o "$work/shared"
readelf -d "$work/shared" | grep -q 'NEEDED.*libzinc.so.0'
train_with shared

read -ra flags <<<"$(pkg-config --define-variable=prefix="$work/usr" --cflags --libs --static zinc)"
mkdir "$work/archive-only"
cp "$lib/libzinc.a" "$work/archive-only/"
cc -std=c17 "$source/examples/finetune.c" -L"$work/archive-only" "${flags[@]/-L$lib/-L$work/archive-only}" -o "$work/static"
[ -z "$(readelf -d "$work/static" | grep libzinc)" ]
train_with static
cmp "$work/out-shared/model.safetensors" "$work/out-static/model.safetensors"

# symbols LIST: only what is prefixed, and something at all
symbols()
{
    [ "$(grep -c '^zn_' "$1")" -gt 5 ] && [ "$(grep -vc '^zn_' "$1")" = 0 ]
}
nm --defined-only --extern-only "$lib/libzinc.a" | awk 'NF == 3 { print $3 }' >"$work/symbols-archive"
nm -D --defined-only "$lib/libzinc.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' >"$work/symbols-shared"
symbols "$work/symbols-archive"
symbols "$work/symbols-shared"
diff <(sort "$work/symbols-archive") <(sort "$work/symbols-shared")

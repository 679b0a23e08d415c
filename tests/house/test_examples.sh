#!/bin/bash
# The examples, compiled against an installation in an empty prefix with the shared library and with the static one, and run: stepping gives the
# weights of `zinc train` to the bit, alone and as ranks; networks of one's own learn, with the same bits at every stage.
# usage: test_examples.sh PROGRAM SOURCE_DIR BUILD_DIR
set -eu
zinc=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
cmake --install "$build" --prefix "$work/usr" >"$work/log"
PKG_CONFIG_PATH=$(dirname "$(find "$work/usr" -name zinc.pc)")
export PKG_CONFIG_PATH
lib=$(pkg-config --define-variable=prefix="$work/usr" --variable=libdir zinc)
mkdir "$work/archive" "$work/tmp"
cp "$lib/libzinc.a" "$work/archive/"
read -ra shared <<<"$(pkg-config --define-variable=prefix="$work/usr" --cflags --libs zinc)"
read -ra static <<<"$(pkg-config --define-variable=prefix="$work/usr" --cflags --libs --static zinc)"
export TMPDIR=$work/tmp

for name in step_by_step two_layers own_block; do
    cc -std=c17 -Wall -Wextra -Werror "$source/examples/$name.c" "${shared[@]}" -Wl,-rpath,"$lib" -o "$work/$name-shared"
    cc -std=c17 "$source/examples/$name.c" "${static[@]/-L$lib/-L$work/archive}" -o "$work/$name-static"
    readelf -d "$work/$name-shared" | grep -q 'NEEDED.*libzinc.so.0' || fail "$name: not linked with the shared library"
    readelf -d "$work/$name-static" | grep -q libzinc && fail "$name: linked with the shared library"
done
[ "$(wc -l <"$source/examples/two_layers.c")" -le 40 ] || fail "two_layers.c is long"
grep -qiE 'partition|gather|scatter|reduce|tier|offload' <(sed 1,7d "$source/examples/own_block.c") && fail "own_block.c speaks of ZeRO"

model=$source/tests/data/parity/llama2 data=$source/tests/data/parity/tokens.bin
flags=(--seq-len 16 --micro-batch 2 --accumulate 2 --lr 1e-3)
"$zinc" train --model "$model" --data "$data" --steps 6 --output "$work/command" --quiet "${flags[@]}"
# Losses as the log has them, of a run's folder and of an example's output.
logged() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
printed() { awk '{ printf "%.9g\n", $NF }' "$1"; }
for kind in shared static; do
    "$work/step_by_step-$kind" "$model" "$data" 6 "$work/steps-$kind" "${flags[@]}" >"$work/steps-$kind.txt"
    cmp "$work/command/model.safetensors" "$work/steps-$kind/model.safetensors"
    diff <(logged "$work/command") <(printed "$work/steps-$kind.txt")
done

# learns FILE: the last loss is below the first
learns() { awk '{ if (NR == 1) first = $NF; last = $NF } END { exit !(NR > 5 && last < first) }' "$1" || fail "$1: $(cat "$1")"; }
text=$source/examples/demo/demo.txt
for kind in shared static; do
    "$work/two_layers-$kind" "$text" >"$work/two-$kind.txt"
    learns "$work/two-$kind.txt"
done
cmp "$work/two-shared.txt" "$work/two-static.txt"

"$work/own_block-shared" "$text" 0 >"$work/own.txt"
learns "$work/own.txt"
if command -v mpirun >/dev/null; then
    mpi=(timeout -k 5 120 mpirun --oversubscribe --bind-to none)
    [ "$(id -u)" = 0 ] && mpi+=(--allow-run-as-root)
    for stage in 0 1 2 3; do
        "${mpi[@]}" -n 2 "$work/own_block-shared" "$text" $stage "$work/own-$stage" >"$work/own-$stage.txt"
        learns "$work/own-$stage.txt"
        cmp "$work/own-0.txt" "$work/own-$stage.txt"
        cmp "$work/own-0/model.safetensors" "$work/own-$stage/model.safetensors"
    done
    "${mpi[@]}" -n 2 "$work/own_block-static" "$text" 3 >"$work/own-static.txt"
    cmp "$work/own-0.txt" "$work/own-static.txt"
    "${mpi[@]}" -n 3 "$zinc" train --model "$model" --data "$data" --steps 4 --stage 3 --output "$work/command-3" --quiet "${flags[@]}"
    "${mpi[@]}" -n 3 "$work/step_by_step-shared" "$model" "$data" 4 "$work/steps-3" "${flags[@]}" --stage 3 >"$work/steps-3.txt"
    cmp "$work/command-3/model.safetensors" "$work/steps-3/model.safetensors"
    diff <(logged "$work/command-3") <(printed "$work/steps-3.txt")
fi
[ -z "$(ls "$work/tmp" | grep '^zinc-')" ] || fail "temporary folders are left: $(ls "$work/tmp")"

#!/bin/bash
# What a run will write is said before it starts, and held to what its file systems have free: the model, the checkpoints that
# are there at once, and the swap of all ranks, each counted once. test_room.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity library=$3/tests/libfail_calls.so
[ -e "$library" ] || { echo "skipped: no $library"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# train FREE FLAGS…: with so many bytes free
train()
{
    FREE_BYTES=$1 LD_PRELOAD=$library "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --threads 1 \
        --output run "${@:2}" >out 2>err
}

# needs FLAGS…: the bytes that the run is refused for, into $needed; it is refused with one block less, and runs with as many
needs()
{
    train 4096 "$@" && fail "$*: runs without room"
    [ $? = 1 ] || fail "$*: the code is not 1: $(cat err)"
    needed=$(sed -n 's/^zinc train: [^;]*: no room for this run: its file system takes \([0-9]*\) bytes .*, or see --output.*/\1/p' err)
    [ -n "$needed" ] || { fail "$*: does not say what it needs: $(cat err)"; needed=0; }
    grep -q '; 4096 (4.00 KiB) are free; ' err || fail "$*: does not say what is free: $(cat err)"
    cp err refused
    train $((needed / 4096 * 4096)) "$@" && fail "$*: runs with less than it needs"
    grep -q '^zinc train: [^;]*: no room for this run' err || fail "$*: $(cat err)"
}

# equal WHAT GOT WANTED
equal()
{
    [ "$2" = "$3" ] || fail "$1: $2, not $3"
}

# says TEXT: of the line before the steps
says()
{
    grep -qE "^  writes: model [0-9.]+ KiB; $1\$" out || fail "does not say '$1': $(grep writes out)"
}

lots=$((1 << 40)) size='[0-9.]+ KiB'

# ---- The sizes ----
needs --steps 4
model=$needed
[ -e run ] && fail "a run that was refused has made its folder"
grep -q 'at once: the model ' refused || fail "does not name the model: $(cat refused)"
needs --steps 4 --save all
checkpoint=$((needed - model))
grep -q 'or see --output, --keep, --save model, --checkpoint-every$' refused || fail "does not name the flags: $(cat refused)"
train $lots --steps 4 --save all || fail "$(cat err)"
says "a checkpoint, $size, at the end"
is=$(($(du -sk run/checkpoints/step-00000004 | cut -f1) * 1024))
((is <= checkpoint && checkpoint <= is + 131072)) || fail "a checkpoint takes $is bytes, not $checkpoint"
is=$(wc -c <run/model.safetensors)
((is <= model && model <= is + 131072)) || fail "the model takes $is bytes, not $model"

# ---- How many there are at once ----
rm -rf run
needs --steps 40 --checkpoint-every 10 # 2 that stay and the third; the model comes when the oldest has gone
equal "two that stay" "$needed" $((3 * checkpoint))
needs --steps 40 --checkpoint-every 10 --keep 9
equal "four of nine" "$needed" $((4 * checkpoint + model))
needs --steps 40 --checkpoint-every 10 --keep 0
equal "none" "$needed" "$model"
train $lots --steps 12 --checkpoint-every 4 || fail "$(cat err)"
says "checkpoints $size each, every 4 steps, 2 kept"
needs --steps 40 --checkpoint-every 4 --resume # the two are there
equal "one more" "$needed" "$checkpoint"
needs --steps 40 --checkpoint-every 4 --overwrite # the two go
((needed < 3 * checkpoint && needed > checkpoint)) || fail "those that are replaced count: $needed"

# ---- Swap ----
rm -rf run
needs --steps 4 --offload-optimizer nvme --allow-buffered-swap
swap=$((needed - model))
train $lots --steps 4 --offload-optimizer nvme --allow-buffered-swap || fail "$(cat err)"
equal "swap" "$swap" "$(sed -n 's/.*"nvme":\([0-9]*\),.*/\1/p' run/metrics.jsonl | tail -1)"
rm -rf run
mkdir a b
needs --steps 4 --offload-optimizer nvme --allow-buffered-swap --nvme-path a b
equal "swap in two folders" $((needed - model)) "$swap"
grep -q ', swap .*; .*--output, --nvme-path$' refused || fail "does not name swap: $(cat refused)"
if command -v mpirun >/dev/null; then
    rm -rf run
    needs -n 2 --stage 1 --steps 4 --offload-optimizer nvme --allow-buffered-swap
    two=$((needed - model))
    train $lots -n 2 --stage 1 --steps 4 --offload-optimizer nvme --allow-buffered-swap || fail "$(cat err)"
    equal "swap of two ranks" "$two" $((2 * $(sed -n 's/.*"nvme":\([0-9]*\),.*/\1/p' run/metrics.jsonl | tail -1)))
fi

exit $((failures > 0))

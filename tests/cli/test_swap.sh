#!/bin/bash
# What goes wrong with swap is told, ends every rank and leaves nothing behind. test_swap.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-swap-XXXXXX") || exit 1
mounted=()
clean_up()
{
    for folder in "${mounted[@]}"; do umount "$folder" 2>/dev/null; done
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

everything=(--offload-optimizer nvme --offload-param nvme --offload-activations nvme --stage 3)

# train OUTPUT FLAGS…
train()
{
    timeout 60 "$zinc" train --model "$data/qwen3" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 3 \
        "${everything[@]}" --output "$1" "${@:2}" >out 2>err
}

# refused NAME PATTERN FLAGS…: fails with one line that has the pattern, and leaves no file in the swap folder
refused()
{
    local name=$1 pattern=$2 code
    shift 2
    train "$name" "$@"
    code=$?
    ((code == 1 || code == 2)) || fail "$name: ended with $code"
    grep -q -- "$pattern" err || fail "$name: no '$pattern' in: $(cat err)"
}

mkdir swap
train plain --nvme-path swap --allow-buffered-swap || fail "plain: ended with $?: $(cat err)"
[ -z "$(ls -A swap)" ] || fail "plain: left $(ls -A swap)"

refused missing "nowhere" --nvme-path nowhere
refused file "config.json" --nvme-path "$data/qwen3/config.json"

if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ]; then
    refused tmpfs "/dev/shm.*--allow-buffered-swap" --nvme-path /dev/shm
    train shm --nvme-path /dev/shm --allow-buffered-swap || fail "shm: ended with $?: $(cat err)"
    cmp <(sed 's/,"lr".*//' plain/metrics.jsonl) <(sed 's/,"lr".*//' shm/metrics.jsonl) || fail "shm: other losses"
fi

if [ "$(id -u)" != 0 ]; then
    mkdir closed && chmod 500 closed
    refused closed "closed" --nvme-path closed
fi

# An error in mid-run ends one process, and every rank of a job.
for error in EIO ENOSPC; do
    ZINC_STORAGE_FAULT=40:$error refused "fault-$error" "swap.*: cannot" --nvme-path swap --allow-buffered-swap
    [ -z "$(ls -A swap)" ] || fail "fault-$error: left $(ls -A swap)"
done
if command -v mpirun >/dev/null; then
    ZINC_STORAGE_FAULT=40:EIO refused fault-ranks "cannot .* Input/output error" -n 2 --nvme-path swap --allow-buffered-swap
    [ -z "$(ls -A swap)" ] || fail "fault-ranks: left $(ls -A swap)"
fi

# Nor is one lost in updates that run beside a step: whichever request fails, the run does. The model is there before
# the last checkpoint is written, and then it is the right one.
delayed=(--nvme-path swap --allow-buffered-swap --delayed-update=1)
train delayed "${delayed[@]}" || fail "delayed: ended with $?: $(cat err)"
for ((request = 3; request < 1000; request += 7)); do
    ZINC_STORAGE_FAULT=$request:EIO train "delayed-$request" "${delayed[@]}" && break
    grep -q "swap.*: cannot .* Input/output error" err || fail "delayed-$request: no cause in: $(cat err)"
    [ ! -e "delayed-$request/model.safetensors" ] || cmp delayed{,-$request}/model.safetensors || fail "delayed-$request: another model"
done
((request > 50)) || fail "delayed: only $request requests to the swap"
cmp delayed{,-$request}/model.safetensors || fail "delayed-$request: a fault was not told"

# A disk that is too small is an error before step 1.
if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >/dev/null && truncate -s 8M disk &&
    mkfs.ext4 -q -F disk && mkdir small && mount -o loop disk small 2>/dev/null; then
    mounted+=("$work/small")
    dd if=/dev/zero of=small/filler bs=1M count=100 2>/dev/null
    refused full "small.*free" --nvme-path small
    grep -q '^step' out && fail "full: a step was made"
    [ "$(find small -type f | wc -l)" = 1 ] || fail "full: left $(ls -A small)"
else
    echo "a full disk is not tried: no loop mount here"
fi

# Killed in the middle: nothing is left.
"$zinc" train --model "$data/qwen3" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 100000 \
    "${everything[@]}" --nvme-path swap --allow-buffered-swap --output killed >out 2>err &
job=$!
for _ in $(seq 100); do [ -s killed/metrics.jsonl ] && break; sleep 0.1; done
kill -KILL $job
wait $job 2>/dev/null
[ -z "$(ls -A swap)" ] || fail "killed: left $(ls -A swap)"
exit $((failures > 0))

#!/bin/bash
# SmolLM2-135M (538 MB of parameters in fp32, 269 in its own bf16) in less memory than its parameters take, counted by a real
# control group where one can be made, and on 2 and 3 processes: the losses and greedy tokens of the run in memory.
# usage: test_larger.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity
source "$here/venv.sh"
source "$2/tests/zero/cap.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive

fail() { echo "FAIL $*"; exit 1; }

source "$here/smollm2.sh"
head -c 1200 "$2/examples/demo/demo.txt" >text.txt
evaluate=("$zinc" eval --model "$model" --data text.txt --seq-len 128 --json --allow-buffered-swap)
write=("$zinc" generate --model "$model" --prompt "The capital of France is" --max-tokens 6 --json --allow-buffered-swap)
"${evaluate[@]}" >loss 2>err || fail "eval: $(cat err)"
"${write[@]}" >tokens 2>err || fail "generate: $(cat err)"

# same NAME WANT WORDS…
same()
{
    "${@:3}" >got 2>err || fail "$1: $(cat err)"
    cmp -s got "$2" || fail "$1: $(cat got) and not $(cat "$2")"
    echo "$1: $(cat got)"
}
same "eval within 128 MiB" loss "${evaluate[@]}" --memory-limit 128MiB
grep -q "swap:" err || fail "eval within 128 MiB did not read from NVMe"
same "generate within 192 MiB" tokens "${write[@]}" --memory-limit 192MiB
grep -q "swap:" err || fail "generate within 192 MiB did not read from NVMe"
if cap_available; then
    capped() { cap_run "$@"; }
    same "eval in a group of 160 MiB" loss capped 160 "${evaluate[@]}" --memory-limit 128MiB
    echo "peak of the group: $cap_peak MiB"
    same "generate in a group of 192 MiB" tokens capped 192 "${write[@]}" --memory-limit 176MiB
    echo "peak of the group: $cap_peak MiB"
fi
if command -v mpirun >/dev/null; then
    same "eval on 2" loss "${evaluate[@]}" -n 2 --memory-limit 160MiB --threads 1
    same "eval on 3" loss "${evaluate[@]}" -n 3 --memory-limit 256MiB --threads 1
    same "generate on 2" tokens "${write[@]}" -n 2 --memory-limit 256MiB --threads 1
fi

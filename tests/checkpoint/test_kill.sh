#!/bin/bash
# SIGKILL at seeded points of training and saving: each time --resume finds a whole checkpoint (or none, before the first
# is whole), and the finished run has the weights of the uninterrupted one, bit for bit.
# test_kill.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
# In memory where it can be: a process that dies needs no disk, and the test is ten times as fast.
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0 points=0 inside=0
RANDOM=4711
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ZINC_TEST_FILE_BYTES=100000
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# train FLAGS…: into $words
train()
{
    words=("$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps 12
        --checkpoint-every 3 --lr 1e-3 --output "$work/run" "$@")
}

# finish WHAT WANTED: after a kill
finish()
{
    local what=$1 wanted=$2 steps
    points=$((points + 1))
    if compgen -G 'run/checkpoints/.tmp-step-*' >/dev/null; then
        inside=$((inside + 1))
    fi
    if compgen -G 'run/checkpoints/step-*' >/dev/null; then
        "$zinc" checkpoint verify run >verify.out 2>&1 || fail "$what: $(cat verify.out)"
    fi
    "${words[@]}" --resume >resume.out 2>resume.err || fail "$what: does not go on: $(tail -3 resume.err)"
    grep -q "passed over" resume.err && fail "$what: a checkpoint was broken: $(cat resume.err)"
    cmp -s run/model.safetensors "$wanted/model.safetensors" || fail "$what: other weights"
    steps=$(grep -c '^{"step":' run/metrics.jsonl)
    [ "$steps" = 12 ] || fail "$what: the log has $steps steps"
    [ -z "$(find run -name '.tmp-*')" ] || fail "$what: a temporary folder is left"
    rm -rf run
}

# killed WHAT WANTED POINT: a run that dies at a point of saving
killed()
{
    die_at "$3" && fail "$1: was not killed"
    finish "$1" "$2"
}

# die_at POINT; the shell does not tell of each
die_at()
{
    ZINC_TEST_KILL_AT=$1 "${words[@]}" >run.out 2>&1 &
    wait $! 2>/dev/null
}

# after_step STEP WHO: a run that dies when it has made the step: all of it, all ranks, or one rank
after_step()
{
    local job mpirun
    "${words[@]}" >run.out 2>&1 &
    job=$!
    while kill -0 $job 2>/dev/null && ! grep -q "^{\"step\":$1," run/metrics.jsonl 2>/dev/null; do :; done
    mpirun=$(pgrep -P $job)
    case $2 in
        all) kill -9 $job 2>/dev/null ;;
        ranks) kill -9 $(pgrep -P "$mpirun") 2>/dev/null ;;
        rank) kill -9 "$(pgrep -P "$mpirun" | tail -1)" 2>/dev/null ;;
    esac
    wait $job 2>/dev/null
}

train
"${words[@]}" >one.out 2>&1 || fail "the uninterrupted run: $(tail -1 one.out)"
mv run one
# The number of points that a save has: the first K that nobody reaches, over four saves.
low=1 high=4096
while ((low < high)); do
    middle=$(((low + high) / 2))
    if die_at save:$middle; then high=$middle; else low=$((middle + 1)); fi
    rm -rf run
done
total=$((low - 1))
echo "$total points in four saves of one rank"
((total >= 200)) || fail "only $total points"

# ---- One process, in the foreground and in the background ----
for ((i = 0; i < 18; i++)); do
    k=$((1 + i * total / 18 + RANDOM % (total / 18)))
    train
    killed "point $k" one save:$k
done
for ((i = 0; i < 12; i++)); do
    k=$((1 + i * total / 12 + RANDOM % (total / 12)))
    train --checkpoint-async
    killed "point $k in the background" one save:$k
done

# The last checkpoint is in place, and what comes after it is not: the log has its step all the same.
train
killed "the last point" one save:$total

# ---- Between and inside of steps ----
for ((i = 0; i < 8; i++)); do
    step=$((1 + (i * 12 + RANDOM % 12) / 8))
    train
    after_step $step all
    finish "after step $step" one
done

# ---- Ranks: all of them, and one ----
if command -v mpirun >/dev/null; then
    train -n 2 --stage 3
    "${words[@]}" >two.out 2>&1 || fail "the uninterrupted run of two ranks: $(tail -1 two.out)"
    mv run two
    for ((i = 0; i < 12; i++)); do
        k=$((1 + RANDOM % 300))
        who=('' @0 @1)
        flags=()
        ((i % 2)) && flags+=(--checkpoint-async)
        ((i % 4 > 1)) && flags+=(--offload-optimizer nvme --offload-param nvme --allow-buffered-swap)
        train -n 2 --stage 3 "${flags[@]}"
        killed "ranks, point $k${who[i % 3]}" two "save:$k${who[i % 3]}"
    done
    for ((i = 0; i < 4; i++)); do
        step=$((1 + RANDOM % 11))
        who=(ranks rank)
        train -n 2 --stage 3
        after_step $step "${who[i % 2]}"
        finish "${who[i % 2]} after step $step" two
    done
else
    echo "no mpirun: ranks are not tested"
fi

echo "$points kills, $inside of them with a temporary folder there"
((inside >= 15)) || fail "too few"
exit $((failures > 0))

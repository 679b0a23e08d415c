#!/bin/bash
# What the design promises bit for bit, through the program: losses, norms and weights do not depend on threads,
# recompute, the memory limit, the instruction set, evaluation or dropout keys.
# test_same_bits.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export ZINC_ALLOW_OVERSUBSCRIPTION=1 OMP_WAIT_POLICY=passive

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# run NAME FLAGS…: trains $model as $shape says into the folder NAME; its words are in NAME.out and NAME.err.
run()
{
    local name=$1
    shift
    "$zinc" train --model "$model" --data "$data/tokens.bin" --precision fp32 "${shape[@]}" --lr 3e-3 --weight-decay 0.1 \
        --output-dtype fp32 --output "$name" "$@" >"$name.out" 2>"$name.err" && return
    fail "$name: zinc train $* failed: $(tail -1 "$name.err")"
}

# What must not change: step, loss and grad_norm of every line.
columns()
{
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# same NAME NAME: two runs have the same bits.
same()
{
    [ "$(columns "$1" | wc -l)" -ge 2 ] || fail "$1: $(columns "$1" | wc -l) lines of metrics"
    cmp -s <(columns "$1") <(columns "$2") || fail "$1 and $2 differ in loss or norm"
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || fail "$1 and $2 differ in their weights"
}

# value KEY FILE: numbers of a key, one for each line that has it.
value()
{
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"
}

process=$((68 * 1024 * 1024)) # what the plan adds for the process itself and the scratch of two threads

shape=(--steps 6 --micro-batch 2 --accumulate 2 --seq-len 24)
for name in gpt2 llama3; do
    model=$data/$name
    run $name-reference --threads 1
    for threads in 1 2 3; do
        run $name-$threads --threads $threads
        run $name-$threads-again --threads $threads
        same $name-reference $name-$threads
        same $name-reference $name-$threads-again
    done
    run $name-keep --recompute off
    run $name-recompute --recompute on
    same $name-reference $name-keep
    same $name-reference $name-recompute
    # The weights did move: what is compared is not the initial model.
    cmp -s $name-reference/model.safetensors "$model/model.safetensors" && fail "$name: nothing was trained"
    grep -q recomputed $name-recompute.out || fail "$name: --recompute on is not in the plan"
    kept=$(value activations $name-keep/metrics.jsonl | tail -1)
    recomputed=$(value activations $name-recompute/metrics.jsonl | tail -1)
    [ "$recomputed" -lt "$kept" ] || fail "$name: recompute holds $recomputed bytes, keeping $kept"

    # A limit between the two: the plan chooses recompute by itself.
    total=$(value device $name-keep/metrics.jsonl | tail -1)
    run $name-limit --threads 2 --memory-limit $((total - 1 + process))
    grep -q recomputed $name-limit.out || fail "$name: the limit did not make the plan recompute"
    same $name-reference $name-limit

    for isa in plain avx2 avx512 neon; do
        ZINC_ISA=$isa "$zinc" doctor >/dev/null 2>&1 || continue # not on this machine
        ZINC_ISA=$isa run $name-$isa
        grep -q "threads, $isa" $name-$isa.out || fail "$name: $isa was not used"
        same $name-reference $name-$isa
    done
done

# Evaluation between steps leaves no trace in them.
model=$data/gpt2
run eval --eval-data "$data/tokens.bin" --eval-every 2
same gpt2-reference eval

# Another seed is another order: the comparison would notice.
run seed --seed 2
cmp -s <(columns gpt2-reference) <(columns seed) && fail "another seed gives the same losses"

# Dropout is said once and never applied.
[ "$(grep -c dropout gpt2-reference.err)" = 1 ] || fail "dropout is not said once: $(cat gpt2-reference.err)"
mkdir no-dropout
cp "$model/model.safetensors" no-dropout/
sed 's/pdrop": 0.1/pdrop": 0.0/' "$model/config.json" >no-dropout/config.json
model=no-dropout
run without-dropout
same gpt2-reference without-dropout
[ -s without-dropout.err ] && fail "something is said without dropout: $(cat without-dropout.err)"

# A model that is large enough for work to be cut: several blocks of matrix products, panels of the vocabulary, chunks
# of tokens and of sums.
mkdir large
cat >large/config.json <<'JSON'
{"model_type": "qwen3", "hidden_size": 288, "intermediate_size": 1100, "num_hidden_layers": 2, "num_attention_heads": 3,
 "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 9000, "tie_word_embeddings": true, "max_position_embeddings": 512,
 "initializer_range": 0.1}
JSON
model=large
shape=(--from-scratch --steps 2 --micro-batch 1 --accumulate 2 --seq-len 300)
run large-reference --threads 1 --recompute off
run large-2 --threads 2 --recompute off
run large-3 --threads 3 --recompute on
ZINC_ISA=plain run large-plain --threads 2
for name in 2 3 plain; do
    same large-reference large-$name
done
# Below what recompute needs, logits are not kept either.
total=$(value device large-3/metrics.jsonl | tail -1)
run large-limit --threads 2 --memory-limit $((total - 1 + process))
same large-reference large-limit
[ "$(value device large-limit/metrics.jsonl | tail -1)" -lt "$total" ] || fail "the limit saved no memory"

exit $((failures > 0))

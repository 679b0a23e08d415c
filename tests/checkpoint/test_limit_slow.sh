#!/bin/bash
# Saving a model whose states are ten times the memory limit, and going on with it, stay within the limit; and the run is the
# one that was never interrupted.
# test_limit_slow.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive
limit=$((136 << 20))

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

mkdir model
cat >model/config.json <<'JSON'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 6, "n_head": 12, "n_positions": 256,
 "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "vocab_size": 50257, "activation_function": "gelu_new",
 "torch_dtype": "bfloat16", "tie_word_embeddings": true}
JSON

# run NAME FLAGS…: a run whose resident memory, to its very end, is within the limit
run()
{
    local name=$1 resident
    resident=$(python3 -c 'import resource, subprocess, sys
code = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1] + ".out", "w"), stderr=subprocess.STDOUT).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(code)' "$name" "$zinc" train --model model --from-scratch --data "$data/tokens.bin" --seq-len 32 --precision bf16 \
        --output-dtype bf16 --threads 1 --memory-limit $limit --allow-buffered-swap --keep 1 --output "$name" "${@:2}") ||
        fail "$name: $(tail -1 "$name.out")"
    echo "$name: $((resident >> 20)) of $((limit >> 20)) MiB resident"
    ((resident <= limit)) || fail "$name: $resident bytes resident, the limit is $limit"
}

run whole --steps 2 --checkpoint-every 1
states=$(python3 -c 'import json
last = json.loads(open("whole/metrics.jsonl").readlines()[-1])["states"]
print(last["parameters"] + last["gradients"] + last["optimizer"])')
echo "$((states >> 20)) MiB of states"
((states >= 10 * limit)) || fail "the states are only $states bytes"
"$zinc" checkpoint verify whole >verify.out || fail "$(cat verify.out)"
rm -rf whole/checkpoints # the disk of a small machine
run parts --steps 1 --save all
run parts --steps 2 --checkpoint-async --resume
cmp -s whole/model.safetensors parts/model.safetensors || fail "the run that went on has other weights"
exit $((failures > 0))

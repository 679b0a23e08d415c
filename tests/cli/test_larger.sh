#!/bin/bash
# `zinc eval` and `zinc generate` of models that do not fit: the same numbers and tokens within any limit, from any tier and on
# several processes; what is printed by whom; what is refused. test_larger.sh ZINC SOURCE BUILD
set -u
zinc=$1 parity=$2/tests/data/parity demo=$2/examples/demo
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # of MPI's libraries
ranks=(1)
command -v mpirun >/dev/null && ranks=(1 2 3)

fail() { echo "FAIL $*"; failures=$((failures + 1)); }
holds() { grep -qF -- "$2" "$1" || { fail "$1 does not hold '$2' but:"; cat "$1"; }; }

# refused CODE TEXT WORDS…: ends so, with the text on standard error and nothing on standard output
refused()
{
    local code=$1 text=$2
    shift 2
    "$zinc" "$@" >out 2>err
    [ $? = "$code" ] || fail "zinc $*: not the exit code $code"
    holds err "$text"
    [ ! -s out ] || fail "zinc $*: wrote to standard output"
}

# A model wide enough to be larger than the limits below: 77 MB of parameters in fp32.
mkdir wide
cat >wide/config.json <<'JSON'
{"model_type": "llama", "vocab_size": 257, "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 6,
 "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
 "initializer_range": 0.05, "tie_word_embeddings": false, "eos_token_id": 256}
JSON
"$zinc" train --model wide --from-scratch --data "$demo/demo.txt" --steps 0 --seq-len 16 --output model >log 2>&1 ||
    { cat log; exit 1; }
head -c 400 "$demo/demo.txt" >text.txt

# eval NAME WORDS…: its object into NAME
evaluate()
{
    "$zinc" eval --model model --data text.txt --seq-len 32 --json --allow-buffered-swap "${@:2}" >"$1" 2>err ||
        { fail "zinc eval ${*:2}"; cat err; }
}
write()
{
    "$zinc" generate --model model --prompt 'Ah' --max-tokens 6 --json --allow-buffered-swap "${@:2}" >"$1" 2>err ||
        { fail "zinc generate ${*:2}"; cat err; }
}
evaluate loss
write tokens
# same RANKS WORDS…: the same on that many processes; LIMIT stands for one that is too small for all of it
same()
{
    local n=$1 launch=()
    shift
    [ "$n" -gt 1 ] && launch=(-n "$n" --threads 1)
    evaluate got "${launch[@]}" "${@/LIMIT/100MiB}"
    cmp -s got loss || fail "zinc eval $* on $n: $(cat got) and not $(cat loss)"
    write got "${launch[@]}" "${@/LIMIT/160MiB}"
    cmp -s got tokens || fail "zinc generate $* on $n: $(cat got) and not $(cat tokens)"
}
same 1 --offload-param nvme
if [ ${#ranks[@]} -gt 1 ]; then
    same 2
    same 2 --memory-limit LIMIT
    same 3 --offload-param cpu
    same 3 --offload-param nvme
fi
evaluate got --memory-limit 100MiB
holds err "swap:" # it was from NVMe
cmp -s got loss || fail "zinc eval within 100 MiB: $(cat got) and not $(cat loss)"
write got --memory-limit 160MiB
holds err "swap:"
cmp -s got tokens || fail "zinc generate within 160 MiB: $(cat got) and not $(cat tokens)"
ls -A | grep -q swap && fail "a swap file was left"

# What does not fit names the least that does.
for command in "eval --data text.txt --seq-len 32" "generate --prompt Ah --max-tokens 6"; do
    # shellcheck disable=SC2086
    refused 1 "the limit is 65.00 MiB" $command --model model --memory-limit 65MiB
    least=$(sed -n 's/.*needs \([0-9]*\)\.\([0-9]*\) MiB at the least.*/\1/p' err)
    # shellcheck disable=SC2086
    "$zinc" $command --model model --memory-limit "$((least + 1))MiB" --allow-buffered-swap >out 2>err ||
        { fail "$command does not run in $((least + 1)) MiB"; cat err; }
done

# By name, never ignored.
refused 1 "--adapter x: no such folder" eval --model model --data text.txt --adapter x
refused 1 "--adapter x: no such folder" generate --model model --prompt x --adapter x
refused 2 "--device sim\`: not in this build" eval --model model --data text.txt --device sim
refused 2 "--offload-param" generate --model model --prompt x --offload-param disk

# A failure of several processes is said once, whoever has it.
if [ ${#ranks[@]} -gt 1 ]; then
    "$zinc" eval -n 2 --model model --data missing.txt >out 2>err && fail "eval of what is not there"
    [ "$(grep -c missing.txt err)" = 1 ] || { fail "the failure is not said once:"; cat err; }
    "$zinc" generate -n 2 --model nowhere --prompt x >out 2>err && fail "generate from nowhere"
    [ "$(grep -c 'nowhere: no such folder' err)" = 1 ] || { fail "the failure is not said once:"; cat err; }
    holds err "zinc generate: the job ended with code"
    mpirun --oversubscribe -n 2 "$zinc" eval -n 2 --model model --data text.txt >out 2>err && fail "-n under mpirun"
    holds err "-n: mpirun or srun has started this process already"
fi

exit $((failures > 0))

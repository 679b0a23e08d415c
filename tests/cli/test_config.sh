#!/bin/bash
# `zinc train --config`: it takes what `zinc plan --fit` writes and runs exactly that, YAML as well as JSON, the command line stands,
# mistakes are named, and --print-config shows the outcome. test_config.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity clusters=$2/data/clusters
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# train WORDS…: two steps into `run`
train()
{
    rm -rf run
    timeout 120 "$zinc" train --data "$data/tokens.bin" --steps 2 --threads 1 --allow-buffered-swap --output run "$@" \
        >out 2>err
}

# refused TEXT WORDS…: code 2 and one line that holds the text
refused()
{
    local text=$1 code
    shift
    train "$@"
    code=$?
    [ $code = 2 ] || fail "$*: code $code: $(head -3 err)"
    [ "$(wc -l <err)" = 1 ] || fail "$*: standard error is not one line: $(head -3 err)"
    grep -qF -- "zinc train: $text" err || fail "$*: no '$text' in: $(cat err)"
    [ -e run ] && fail "$*: something was written"
}

# same_run ONE OTHER: run.json is the same but for when and how each was started.
same_run()
{
    cmp -s <(sed '/"origin": {/,/^  },/d' "$1/run.json") <(sed '/"origin": {/,/^  },/d' "$2/run.json")
}

# check CODE: Python that looks at `z`, what the file says, `run`, run.json, `step`, the last step, and `plan`
check()
{
    python3 - "$1" <<'PYTHON' || fail "$2: $1"
import json, sys
z = json.load(open("fit.json"))["zinc"]
plan = json.load(open("plan.json"))
run = json.load(open("run/run.json"))
step = json.loads(open("run/metrics.jsonl").readlines()[-1])
exec(sys.argv[1])
PYTHON
}

everything='tier = {"none": "device", "cpu": "host", "nvme": "nvme"}
for flag, kind in (("param", "parameters"), ("gradients", "gradients"), ("optimizer", "optimizer"), ("activations", "activations")):
    assert run["offload"][kind] == tier[z["offload-" + flag]], (flag, z, run["offload"])
for flag in ("stage", "precision", "micro-batch", "accumulate", "seq-len", "reduce", "optimizer", "prefetch-bytes",
             "persist-below", "tile-limit", "host-cache", "schedule"):
    assert run[flag.replace("-", "_")] == z[flag], (flag, z, run)
assert run["recompute"] == z["recompute"] and run["keep_logits"] == (z["keep-logits"] == "on"), (z, run)
assert run["delayed_update"] == z.get("delayed-update", -1) and run["optimizer_in_backward"] == z.get("optimizer-in-backward", False)
assert "memory-limit" not in z or run["memory_limit"] == z["memory-limit"]
assert step["step"] == 2 and step["states"] == plan["states"], (step["states"], plan["states"])
assert all(step["memory"][k] == plan["per_rank"][k] for k in plan["per_rank"]), (step["memory"], plan["per_rank"])'

# fits MODEL RANKS WORDS…: what --fit writes for MODEL is what a run with it does; further words of the run in ${also[@]}
also=()
fits()
{
    local model=$1 ranks=$2
    shift 2
    "$zinc" plan --model "$model" --cluster cluster.json --ranks "$ranks" --fit=fit.json --json "$@" >plan.json 2>err ||
        fail "plan $*: $(cat err)"
    if ((ranks > 1)); then
        command -v mpirun >/dev/null || return
        train --model "$model" -n "$ranks" --config fit.json "${also[@]}" || fail "$ranks ranks $*: $(cat err)"
    else
        train --model "$model" --config fit.json "${also[@]}" || fail "$*: $(cat err)"
    fi
    check "$everything" "$ranks ranks $*"
}

# A cluster of processors whose processes take what this program's do: 64 MiB, and 2 a thread.
sed 's/"reserved_bytes": [0-9]*/"reserved_bytes": 69206016/' "$clusters/cpu-server.json" >cluster.json

# ---- What --fit writes is what runs ----
fits "$data/gpt2" 1 --seq-len 16
fits "$data/gpt2" 1 --seq-len 16 --offload-optimizer nvme --offload-param nvme --offload-activations cpu --tile-limit 4KiB \
    --prefetch-bytes 16KiB --host-cache 32KiB --accumulate 2 --schedule vertical --micro-batch 2
fits "$data/qwen3" 1 --seq-len 16 --micro-batch 1 --precision bf16 --optimizer-in-backward --keep-logits off
fits "$data/gpt2" 1 --seq-len 16 --micro-batch 1 --optimizer sgd --delayed-update=1 --recompute on
fits "$data/gpt2" 2 --seq-len 16 --stage 3 --persist-below 0 --prefetch-bytes 8KiB --accumulate 2 --micro-batch 1
fits "$data/gpt2" 2 --seq-len 16 --stage 1 --reduce every --accumulate 2 --micro-batch 1 --offload-optimizer cpu
fits "$data/gpt2" 1 --seq-len 16 --micro-batch 1 --optimizer muon --offload-optimizer nvme --precision bf16
fits "$data/gpt2" 3 --seq-len 16 --micro-batch 1 --optimizer muon --stage 2

# Chosen by the search itself, from limits that leave less and less.
mkdir wide
sed -e 's/"n_embd": [0-9]*/"n_embd": 512/' -e 's/"n_layer": [0-9]*/"n_layer": 2/' "$data/gpt2/config.json" >wide/config.json
also=(--from-scratch)
for mib in 120 80 60 45; do
    fits wide 1 --seq-len 16 --micro-batch 2 --memory-limit $((64 + mib))MiB
    grep -v memory-limit fit.json | md5sum >>chosen
done
[ "$(sort -u chosen | wc -l)" = 4 ] || fail "four limits did not give four configurations"
also=()

# ---- The command line stands ----
cat >some.json <<JSON
{"zinc": {"model": "$data/gpt2", "data": ["$data/nowhere.bin"], "seq-len": 16, "steps": 5, "lr": 0.125, "micro-batch": 3,
          "stage": 0, "recompute": "on", "no-shuffle": true, "threads": 1, "memory-limit": "3GiB", "seed": 4}}
JSON
train --config some.json --lr 0.25 --recompute off || fail "some.json: $(cat err)"
"$zinc" train --config some.json --data "$data/tokens.bin" --steps 1 --output other >out 2>err || fail "some.json: $(cat err)"
cp some.json fit.json
check 'assert (run["lr"], run["recompute"], run["steps"]) == (0.25, "off", 2), run
assert (run["micro_batch"], run["seed"], run["memory_limit"], run["shuffle"]) == (3, 4, 3 << 30, False), run
assert run["data"] == [run["model"].replace("gpt2", "tokens.bin")], run
other = json.load(open("other/run.json"))
assert (other["lr"], other["recompute"], other["steps"]) == (0.125, "on", 1), other' "some.json"

# ---- YAML ----
cat >some.yaml <<YAML
# as some.json
model: $data/gpt2
data: [$data/nowhere.bin]
seq-len: 16
steps: 5
lr: 0.125
micro-batch: 3
stage: 0
recompute: on
no-shuffle: true
threads: 1
memory-limit: 3GiB
seed: 4
YAML
for file in some.json some.yaml; do
    "$zinc" train --config $file --data "$data/tokens.bin" --steps 1 --output "out-$file" >out 2>err || fail "$file: $(cat err)"
done
same_run out-some.json out-some.yaml || fail "some.json and some.yaml: $(diff out-some.json/run.json out-some.yaml/run.json)"

# ---- What is printed is what runs ----
"$zinc" train --config some.yaml --data "$data/tokens.bin" --steps 1 --print-config >printed.yaml 2>err || fail "--print-config: $(cat err)"
[ -e zinc-out ] && fail "--print-config wrote something"
for line in '^lr: 0.125  *# some.yaml$' '^steps: 1  *# command line$' '^clip: 1  *# default$' '^# keep-logits: chosen by the plan$' \
    '^no-shuffle: true  *# some.yaml$'; do
    grep -qE "$line" printed.yaml || fail "--print-config: no '$line' in: $(cat printed.yaml)"
done
"$zinc" train --config printed.yaml --output out-printed >out 2>err || fail "printed.yaml: $(cat err)"
same_run out-printed out-some.yaml || fail "printed.yaml: $(diff out-printed/run.json out-some.yaml/run.json)"
"$zinc" train --print-config --lr 0 --model m --data d >out 2>err
[ $? = 2 ] && [ ! -s out ] || fail "--print-config of a wrong value: $(cat out err)"

# ---- Mistakes ----
model=(--model "$data/gpt2" --seq-len 16)
# says JSON TEXT
says()
{
    echo "$1" >bad.json
    refused "$2" "${model[@]}" --config bad.json
}
refused "nowhere.json: cannot open" "${model[@]}" --config nowhere.json
refused ".: " "${model[@]}" --config .
says '{"zinc": {' "bad.json: not valid JSON: line 2"
says '{"zinc": {"lr": 1, "lr": 2}}' "bad.json: not valid JSON: line 1"
says '[]' '--config bad.json: expected an object {"zinc": '
says '{}' '--config bad.json: expected an object {"zinc": '
says '{"zinc": 3}' "--config bad.json: 'zinc' is an object of flags"
says '{"stage": 3}' "--config bad.json: unknown key 'stage': flags go into an object 'zinc'"
says '{"zinc": {"stgae": 3}}' "bad.json: zinc.stgae: unknown, did you mean stage; its keys are the flags of \`zinc train --help\`"
says '{"zinc": {"stage": 4}}' "bad.json: zinc.stage: '4' is not one of: 0 1 2 3"
says '{"zinc": {"steps": "two"}}' "bad.json: zinc.steps: is a whole number"
says '{"zinc": {"beta1": 1}}' "bad.json: zinc.beta1: 1 is not in [0, 1)"
says '{"zinc": {"recompute": true}}' "bad.json: zinc.recompute: is one of: on off keep=N"
says '{"zinc": {"memory-limit": "much"}}' "bad.json: zinc.memory-limit: 'much' is not a size"
says '{"zinc": {"freeze": [3]}}' "bad.json: zinc.freeze: is a string or an array of strings"
says '{"zinc": {"device": "sim"}}' "bad.json: \`zinc.device sim\`: not in this build"
for key in n mpirun config; do
    says "{\"zinc\": {\"$key\": 2}}" "bad.json: zinc.$key: -"
    grep -q 'belongs to the command line$' err || fail "$key: $(cat err)"
done
says '{"zinc": {"loss-scale": -1}}' "bad.json: zinc.loss-scale: '-1' is neither dynamic nor a number in [1e-30, 1e38]"
# says_yaml YAML TEXT
says_yaml()
{
    printf '%b' "$1" >bad.yaml
    refused "$2" "${model[@]}" --config bad.yaml
}
says_yaml 'lr: 1e-3\nstgae: 3\n' "bad.yaml: line 2, column 8: stgae: unknown, did you mean stage; its keys are the flags of"
says_yaml 'lr: 1e-3\nstage: 4\n' "bad.yaml: line 2, column 8: stage: '4' is not one of: 0 1 2 3"
says_yaml 'steps: two\n' "bad.yaml: line 1, column 8: steps: is a whole number"
says_yaml 'freeze: [a, 3]\n' "bad.yaml: line 1, column 9: freeze: is a string or an array of strings"
says_yaml 'n: 2\n' "bad.yaml: line 1, column 4: n: -n belongs to the command line"
says_yaml 'lr: 1\nlr: 2\n' "bad.yaml: line 2, column 1: lr: is given twice"
says_yaml 'lr: [1\n' "bad.yaml: line 2, column 1: not valid YAML: "
says_yaml 'lr: &a 1\n' "bad.yaml: line 1, column 5: an anchor (&name): not in this build"
says_yaml 'zero_optimization: {stage: 3}\n' "bad.yaml: line 1, column 20: a mapping, where a flag has a value"
says_yaml 'train_batch_size: 8\n' "bad.yaml: line 1, column 19: train_batch_size: is a key of DeepSpeed's, whose files are JSON"
says '{"zinc": {"train_batch_size": 8}}' "bad.json: zinc.train_batch_size: is a key of DeepSpeed's, whose files are JSON"

exit $((failures > 0))

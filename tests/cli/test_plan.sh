#!/bin/bash
# `zinc plan` on the command line: its JSON, its searches and what it refuses; `zinc doctor --measure`, which it rests on.
# test_plan.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity clusters=$2/data/clusters
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# plan WORDS…: succeeds and says nothing on standard error; its output is left in `out`.
plan()
{
    "$zinc" plan "$@" >out 2>err || fail "zinc plan $*: exit code $?: $(cat err)"
    [ -s err ] && fail "zinc plan $*: $(cat err)"
}

# refuses CODE TEXT WORDS…: fails with CODE, one line that holds TEXT, and no output.
refuses()
{
    local code=$1 text=$2 got
    shift 2
    "$zinc" plan "$@" >out 2>err
    got=$?
    [ "$got" = "$code" ] || fail "zinc plan $*: exit code $got, not $code: $(head -3 err)"
    [ "$(wc -l <err)" = 1 ] || fail "zinc plan $*: standard error is not one line: $(head -3 err)"
    grep -qF -- "$text" err || fail "zinc plan $*: no '$text' in: $(cat err)"
    [ -s out ] && fail "zinc plan $*: has output"
}

# holds TEXT
holds()
{
    grep -qF -- "$1" out || fail "the output does not hold '$1':" "$(cat out)"
}

# check CODE: Python that looks at `plan`, the JSON of the last run.
check()
{
    python3 - "$1" <<'PYTHON' || fail "$1"
import json, sys
plan = json.load(open("out"))
exec(sys.argv[1])
PYTHON
}

shape=(--layers 4 --hidden 128 --heads 4 --vocab 1000 --seq-len 64)
dgx2=(--cluster dgx2-v100)

# ---- The papers ----
for paper in zero-table1 zero-table2 infinity-fig2a infinity-bandwidth offload-strategies; do
    plan --paper "$paper"
    holds "$paper: "
    grep -q differs out && fail "$paper differs"
    plan --paper "$paper" --json
    check 'cells = [c for t in plan["tables"] for r in t["rows"] for c in r["cells"].values()]
printed = [c for c in cells if c["printed"] is not None]
assert printed and all(c["agrees"] for c in printed)'
done
check 'assert sum(r["optimum"] for r in plan["tables"][0]["rows"]) == 1'
plan --paper zero-table1
holds "41.25        41.3"
refuses 2 "--paper: 'zero-table3' is not one of" --paper zero-table3
refuses 2 "--paper goes with --json alone, not with --ranks" --paper zero-table1 --ranks 4

# ---- A shape on a cluster ----
plan "${shape[@]}" "${dgx2[@]}" --ranks 32 --stage 3 --micro-batch 2
holds "GPT-2-like"
holds "dgx2-v100 (V100 32 GB): 32 ranks on 2 nodes"
holds "largest operator"
holds "between nodes"
holds "bound by"
plan "${shape[@]}" "${dgx2[@]}" --ranks 32 --stage 3 --micro-batch 2 --json
check 'assert [k for k in plan if k != "help"] == ["fits", "per_rank", "resident", "states", "buffers", "traffic", "seconds",
    "tokens_per_second", "tflops_per_device", "efficiency", "bound", "settings"], list(plan)
assert plan["fits"] is True and list(plan["per_rank"]) == ["device", "host", "nvme"]
assert list(plan["states"]) == ["parameters", "gradients", "optimizer", "activations", "buffers"]
assert sum(plan["states"].values()) == plan["per_rank"]["device"]
assert sum(plan["buffers"].values()) == plan["states"]["buffers"]
assert list(plan["traffic"]) == ["gather", "reduce", "nvme_read", "nvme_write"]
assert list(plan["seconds"]) == ["compute", "communication", "io", "step"]
assert plan["bound"] in ("memory", "compute", "communication", "io") and plan["help"]
s = plan["settings"]
assert (s["stage"], s["ranks"], s["nodes"], s["micro-batch"], s["precision"]) == (3, 32, 2, 2, "fp16"), s
assert abs(plan["tokens_per_second"] * plan["seconds"]["step"] - 32 * 2 * 64) < 1e-3'

# All devices of the nodes, where only these are given; the papers' shape for a number of parameters.
plan --params 124M --cluster dgx-a100 --nodes 2 --json
check 's = plan["settings"]
assert (s["layers"], s["hidden"], s["heads"], s["ranks"], s["precision"], s["params"]) == (12, 768, 12, 16, "bf16", 124439808), s'

# A trillion parameters on 512 devices, which are too small for it.
none=(--offload-optimizer none --offload-param none --offload-activations none --tile-limit 0)
"$zinc" plan --params 1T "${dgx2[@]}" --ranks 512 --stage 3 --micro-batch 1 --recompute on "${none[@]}" --json >out 2>err
[ $? = 1 ] || fail "1T: $(cat err)"
check 's = plan["settings"]
assert (s["layers"], s["hidden"], s["heads"], s["nodes"]) == (128, 25600, 256, 32), s
states = sum(plan["states"][k] for k in ("parameters", "gradients", "optimizer"))
assert abs(states * 512 / (18 * s["params"]) - 1) < 1e-3, states'

# ---- The simulated step ----
plan "${shape[@]}" "${dgx2[@]}" --ranks 32 --stage 3 --simulate
holds "simulated step"
holds "exposed"
plan "${shape[@]}" "${dgx2[@]}" --ranks 32 --stage 3 --micro-batch 1 --offload-optimizer nvme --simulate --json
check 's = plan["simulated"]
assert list(s) == ["per_rank", "states", "busy", "exposed", "step", "tokens_per_second", "tflops_per_device", "efficiency"], list(s)
assert s["per_rank"] == plan["per_rank"] and s["states"] == plan["states"], s
assert s["step"] >= s["busy"]["compute"] > 0 and s["busy"]["nvme"] > 0 and s["busy"]["communication"] > 0, s
assert all(s["exposed"][k] <= s["busy"][k] and s["exposed"][k] <= s["step"] - s["busy"]["compute"] + 1e-9 for k in s["exposed"]), s
assert abs(s["tokens_per_second"] * s["step"] - 32 * 64) < 1e-3, s
assert abs(s["efficiency"] / plan["efficiency"] - plan["seconds"]["step"] / s["step"]) < 1e-6'
# The trace: events of each track that do not overlap and lie within the step.
"$zinc" plan "${shape[@]}" "${dgx2[@]}" --ranks 32 --stage 3 --offload-optimizer nvme --trace step.json --json >out 2>err ||
    fail "--trace: $(cat err)"
[ "$(cat err)" = "wrote step.json" ] || fail "--trace: $(cat err)"
check 'events = json.load(open("step.json"))["traceEvents"]
spans = [e for e in events if e["ph"] == "X"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert {"compute", "communication", "nvme"} <= set(names.values()), names
for tid in names:
    line = sorted((e["ts"], e["dur"]) for e in spans if e["tid"] == tid)
    assert line[0][0] >= 0 and sum(line[-1]) <= plan["simulated"]["step"] * 1e6 + 1e-3
    assert all(a[0] + a[1] <= b[0] + 1e-3 for a, b in zip(line, line[1:])), names[tid]
compute = sum(e["dur"] for e in spans if e["cat"] == "compute")
assert abs(compute / 1e6 / plan["simulated"]["busy"]["compute"] - 1) < 1e-3'

# ---- The program of a step ----
plan "${shape[@]}" "${dgx2[@]}" --ranks 32 --stage 3 --micro-batch 1 --accumulate 3 --offload-optimizer nvme --program
for section in "first micro-batch" "middle micro-batch" "last micro-batch" finish; do
    holds "== $section: "
done
grep -q '^ *[0-9]* gather  *block 2  *[0-9.]* KiB c u  *parameters → gathered units @ ' out || fail "no gather: $(cat out)"
grep -q '^ *[0-9]* wait  *block 2  *#[0-9]*$' out || fail "no wait: $(cat out)"
"$zinc" plan --params 100B --cluster desktop-24gb --stage 0 --micro-batch 1 --offload-optimizer none --program >out 2>err
[ $? = 1 ] && grep -q "does not fit" err || fail "--program of what does not fit: $(cat err)"
holds "== only micro-batch: "

# ---- A folder, and training runs of it: the plan is the run ----
# same FLAGS…: the plan of a run and the run itself hold and move the same bytes.
same()
{
    plan --model "$data/gpt2" --cluster cpu-server --ranks 1 --seq-len 16 "$@" --json
    mv out planned
    rm -rf run
    "$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --seq-len 16 --steps 4 --output run \
        --allow-buffered-swap "$@" >/dev/null 2>err || fail "train $*: $(cat err)"
    tail -1 run/metrics.jsonl >out
    check 'planned = json.load(open("planned"))
assert planned["states"] == plan["states"], (planned["states"], plan["states"])
assert all(planned["per_rank"][k] == plan["memory"][k] for k in planned["per_rank"]), (planned["per_rank"], plan["memory"])
assert planned["traffic"]["nvme_read"] == plan["nvme_read_bytes"], (planned["traffic"], plan)
assert planned["traffic"]["nvme_write"] == plan["nvme_write_bytes"], (planned["traffic"], plan)'
}
same
same --offload-optimizer nvme --accumulate 2
same --offload-optimizer nvme --offload-param nvme --offload-activations nvme --precision bf16
same --offload-optimizer cpu --offload-activations cpu --accumulate 2 --schedule vertical
refuses 2 "--seq-len 9999" --model "$data/gpt2" --seq-len 9999 --cluster cpu-server
refuses 1 "config.json" --model "$work/none" --cluster cpu-server

# ---- Searches ----
plan "${shape[@]}" "${dgx2[@]}" --ranks 16 --fit=fit.json
holds "wrote fit.json"
cp fit.json out
check 'z = plan["zinc"]
assert z["stage"] in (0, 1, 2, 3) and z["micro-batch"] >= 1 and z["recompute"] in ("on", "off"), z'
refuses 1 "nothing fits" "${shape[@]}" "${dgx2[@]}" --fit=none.json --memory-limit 1073745920
[ -e none.json ] && fail "--fit wrote a configuration that does not fit"
plan --largest --hidden 1024 --heads 16 --cluster desktop-24gb --memory-limit 3GiB --offload-optimizer none \
    --offload-param none --offload-activations none --json
check 'assert plan["fits"] and plan["settings"]["layers"] > 1, plan["settings"]'
# What does not fit is shown all the same, and fails.
for json in "" --json; do
    # shellcheck disable=SC2086
    "$zinc" plan "${shape[@]}" "${dgx2[@]}" --memory-limit 1073745920 $json >out 2>err
    [ $? = 1 ] || fail "a plan that does not fit: the exit code is not 1"
    grep -q "^zinc plan: does not fit: too little device memory; " err && [ "$(wc -l <err)" = 1 ] || fail "does not fit: $(cat err)"
    [ -n "$json" ] || holds "does not fit: too little device memory"
done
check 'assert plan["fits"] is False and plan["bound"] == "memory"'

# ---- Defaults ----
# All devices of a cluster; of --nodes; what is given.
plan "${shape[@]}" "${dgx2[@]}" --json
check 's = plan["settings"]; assert (s["ranks"], s["nodes"]) == (1024, 64), s'
plan "${shape[@]}" --cluster dgx-a100 --json
check 's = plan["settings"]; assert (s["ranks"], s["nodes"]) == (1024, 128), s'
plan "${shape[@]}" --cluster cpu-server --nodes 3 --json
check 's = plan["settings"]; assert (s["ranks"], s["nodes"]) == (6, 3), s'
plan "${shape[@]}" "${dgx2[@]}" --ranks 1 --json
check 's = plan["settings"]; assert (s["ranks"], s["nodes"]) == (1, 1), s'
# What the plan chooses itself is not what its advice would change.
agrees()
{
    plan "$@" --json
    check 'open = ["--recompute", "--stage", "--offload", "--ranks", "--tile"]
assert plan["fits"] and not any(flag in plan["help"] for flag in open), plan["help"]'
}
agrees --params 1.5B --cluster desktop-24gb
check 'assert "--micro-batch" not in plan["help"] and plan["settings"]["micro-batch"] > 1, (plan["help"], plan["settings"])'
agrees --params 1.5B --cluster desktop-24gb --micro-batch 1
check 's = plan["settings"]; assert (s["recompute"], s["offload-optimizer"], s["micro-batch"]) == ("off", "cpu", 1), s'
agrees --params 7B --cluster desktop-24gb
check 'assert "--micro-batch" not in plan["help"], plan["help"]'
agrees --params 13B --cluster dgx-a100
agrees --params 1.5B --cluster dgx2-v100 --ranks 16
agrees --params 1.5B --cluster cpu-server
agrees --params 3B --cluster cpu-server --ranks 1 --memory-limit 24GiB
check 's = plan["settings"]; assert s["offload-optimizer"] == "nvme" and s["micro-batch"] == 1 and s["host-cache"] > 0, s'
chosen=$(python3 -c 'import json; print(json.load(open("out"))["tokens_per_second"])')
for others in "--recompute off --host-cache 0" "--recompute off" "--recompute on"; do # what it weighs against each other
    # shellcheck disable=SC2086  # words on purpose
    plan --params 3B --cluster cpu-server --ranks 1 --memory-limit 24GiB $others --json
    check "assert plan['tokens_per_second'] <= 1.001 * $chosen, ('$others', plan['tokens_per_second'], $chosen)"
done

# config.json alone says the precision by the type of its weights; devices without bf16 have fp16.
mkdir config
typed()
{
    sed "s/\"torch_dtype\": \"float32\"/$1/" "$data/gpt2/config.json" >config/config.json
    plan --model config --seq-len 16 --cluster "$2" --ranks 1 --micro-batch 1 --json
    check "s = plan['settings']; assert s['precision'] == '$3', s"
}
typed '"torch_dtype": "float32"' cpu-server fp32
fp32=$(python3 -c 'import json; print(json.load(open("out"))["states"]["parameters"])')
typed '"torch_dtype": "bfloat16"' cpu-server bf16
check "assert plan['states']['parameters'] * 2 == $fp32, plan['states']"
typed '"dtype": "float16"' cpu-server bf16
typed '"dtype": "bfloat16"' dgx2-v100 fp16
typed '"dtype": null' cpu-server fp32
sed 's/"torch_dtype": "float32"/"torch_dtype": 32/' "$data/gpt2/config.json" >config/config.json
refuses 1 "config/config.json: 'torch_dtype': expected a string" --model config --cluster cpu-server

# ---- Refused ----
refuses 2 "says what to plan" "${dgx2[@]}"
refuses 2 "more were given" --params 1B --model "$data/gpt2"
refuses 2 "--layers needs --hidden and --heads" --layers 3
refuses 2 "--heads 5 does not divide --hidden 128" --layers 4 --hidden 128 --heads 5 "${dgx2[@]}"
refuses 2 "--hidden goes with --layers or --largest" --params 1B --hidden 128
refuses 2 "--layers: 0 is not in [1, 1000]" --layers 0 --hidden 128 --heads 4
refuses 2 "--hidden: -128 is not in" --layers 4 --hidden -128 --heads 4
refuses 2 "--hidden: '12.5' is not a whole number" --layers 4 --hidden 12.5 --heads 4
refuses 2 "2^63" --layers 1000 --hidden 2147483647 --heads 1 "${dgx2[@]}"
refuses 2 "2^63" --layers 4 --hidden 128 --heads 4 "${dgx2[@]}" --micro-batch 1048576 --seq-len 2147483647
refuses 2 "--params: '-1T'" --params=-1T "${dgx2[@]}"
refuses 2 "--params: '0'" --params 0 "${dgx2[@]}"
refuses 2 "--params: '1Q'" --params 1Q "${dgx2[@]}"
refuses 2 "2^63" --params 1000000T "${dgx2[@]}"
refuses 2 "--params 1K" --params 1K "${dgx2[@]}"
refuses 2 "--cluster: 'dgx3' is none of" --params 1B --cluster dgx3
refuses 2 "--ranks 5000: dgx2-v100 has 64 nodes of 16 devices" --params 1B "${dgx2[@]}" --ranks 5000
refuses 2 "--nodes 65: dgx2-v100 has 64" --params 1B "${dgx2[@]}" --nodes 65
refuses 2 "a node of dgx2-v100 has 16 devices" --params 1B "${dgx2[@]}" --ranks 32 --nodes 1
refuses 2 "--nodes 8: more than --ranks 4" --params 1B "${dgx2[@]}" --ranks 4 --nodes 8
refuses 2 "--precision bf16: the devices of dgx2-v100" --params 1B "${dgx2[@]}" --precision bf16
refuses 2 "--memory-limit 0" --params 1B "${dgx2[@]}" --memory-limit 0
refuses 2 "two searches" --largest --fit "${dgx2[@]}"
refuses 2 "--largest finds the model itself" --largest --params 1B "${dgx2[@]}"
refuses 1 "--reduce last: stage 3" --params 1B "${dgx2[@]}" --stage 3 --reduce last
refuses 2 "--offload-param needs --stage 3, not 2" --params 1B "${dgx2[@]}" --stage 2 --offload-param cpu
refuses 2 "--recompute on" --params 1B "${dgx2[@]}" --recompute off --offload-activations cpu
refuses 2 "--schedule: 'diagonal' is not one of: horizontal vertical auto" --params 1B "${dgx2[@]}" --schedule diagonal
refuses 2 "--delayed-update: 'soon'" --params 1B "${dgx2[@]}" --delayed-update=soon
refuses 2 "--optimizer-in-backward does not go with --delayed-update" --params 1B "${dgx2[@]}" --optimizer-in-backward --delayed-update
refuses 1 "/nowhere/trace.json: cannot write the time line" "${shape[@]}" "${dgx2[@]}" --trace /nowhere/trace.json
refuses 2 "--program is text; leave --json out" --params 1B "${dgx2[@]}" --program --json
refuses 2 "--paper goes with --json alone, not with --simulate" --paper zero-table1 --simulate
sed 's/"devices": 16/"devices": -2/' "$clusters/dgx2-v100.json" >bad.json
refuses 1 "bad.json: 'devices': expected an integer from 1" --params 1B --cluster bad.json
sed 's/"device_host"/"device_hots"/' "$clusters/dgx2-v100.json" >bad.json
refuses 1 "bad.json: 'links': unknown key 'device_hots', did you mean device_host" --params 1B --cluster bad.json

# ---- This machine ----
# Measured on first use, with one note; then kept.
"$zinc" plan "${shape[@]}" --json >out 2>err || fail "this-machine: $(cat err)"
grep -q 'measuring this machine' err || fail "this-machine was not measured: $(cat err)"
check 'assert plan["settings"]["cluster"] == "this-machine" and plan["seconds"]["step"] > 0'
plan "${shape[@]}" --ranks 2 --json
check 'assert plan["settings"]["nodes"] == 1 and plan["traffic"]["reduce"] > 0'
rm -r cache
"$zinc" doctor --measure --json >out 2>err || fail "doctor --measure: $(cat err)"
check 'm = plan["measured"]
assert m["file"].endswith("/cache/zinc/machine.json")
machine = json.load(open(m["file"]))
assert machine["device"]["flops"]["fp32"] > 0 and machine["device"]["is_host"] is True
assert machine["device"]["cores"] >= 1 and machine["device"]["sums"]["bf16"] > 0 and machine["device"]["kernels"]["adam"] > 0'
plan "${shape[@]}" --ranks 2 --simulate --json
check 'assert plan["resident"] > plan["per_rank"]["device"] and plan["simulated"]["step"] > 0'
"$zinc" doctor >out
grep -q '^measured' out && fail "doctor measured without being asked"
# A file of another machine is measured again; one that is broken is an error.
sed -i 's/"about": "[^"]*"/"about": "another machine"/' cache/zinc/machine.json
"$zinc" plan "${shape[@]}" >out 2>err
grep -q 'measuring this machine' err || fail "another machine's figures were taken"
echo '{' >cache/zinc/machine.json
refuses 1 "machine.json: not valid JSON" "${shape[@]}"
grep -q "doctor --measure" err || fail "a broken file of this machine: no way out is told"

exit $((failures > 0))

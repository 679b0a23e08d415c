#!/usr/bin/env python3
"""Predicted beside measured: what `zinc plan --simulate` says of runs on this machine, and what the runs then do.

    compare_plan.py [--zinc build/zinc] [--steps 7] [--only WORDS] [--measured] [--quick] [--folder DIR]

For GPT-2 124M and a model of TinyLlama's shape (1.1B), from random weights, at every stage on one and two ranks and with each
offload: `zinc doctor --measure` in the folder where swap will be, the plan, and a run of the same settings. It measures before
every case, as a machine that others use is another one minutes later (--measured keeps the figures that are there). Held
against each other, of rank 0:

  ledger    the peak by tier and the bytes by kind: must be the same to the byte
  resident  the peak of the process: within 10%
  seconds   a step by the simulation, and the median of those measured after the first two: within 25% on a quiet machine

Standard output is one JSON value; a table goes to standard error as it grows. The exit code is 1 where a ledger differs, or
with --strict where any bar is missed. --only takes the cases whose names hold all of its words.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from compare_torch import HERE, say, write_tokens

WARM = 2  # steps that are not timed: pages, and buffers of the optimizer that come from the step before
BARS = {"resident": 0.10, "seconds": 0.25}

GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 768,
        "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-5,
        "initializer_range": 0.02, "bos_token_id": 50256, "eos_token_id": 50256}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
         "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2}
MODELS = {"124M": (GPT2, 256), "1.1B": (LLAMA, 128)}  # and the length of their windows

NVME = ("--offload-optimizer", "nvme", "--offload-gradients", "nvme", "--offload-param", "nvme", "--offload-activations", "nvme")


def cases():
    """(name, model, ranks, flags), without those that a machine of 24 GB has no room for."""
    yield from small_cases()
    yield from large_cases()


def small_cases():
    for ranks in (1, 2):
        for stage in range(4):
            for precision in ("fp32", "bf16"):
                if precision == "fp32" or stage in (0, 3):
                    yield f"124M {precision} stage {stage}, {ranks} ranks", "124M", ranks, (
                        "--precision", precision, "--stage", str(stage), "--recompute", "off")
    for kind in ("optimizer", "param", "activations"):
        for tier in ("cpu", "nvme"):
            for ranks in (1, 2):
                if ranks == 2 and tier == "cpu" and kind != "optimizer":
                    continue
                yield f"124M bf16 {kind} on {tier}, {ranks} ranks", "124M", ranks, (
                    "--precision", "bf16", "--stage", "3", "--recompute", "on", "--offload-" + kind, tier)
    for ranks in (1, 2):
        yield f"124M bf16 all on nvme, {ranks} ranks", "124M", ranks, (
            "--precision", "bf16", "--stage", "3", "--recompute", "on", *NVME)
    yield "124M bf16 all on nvme in backward, 1 ranks", "124M", 1, (
        "--precision", "bf16", "--stage", "3", "--recompute", "on", "--optimizer-in-backward", *NVME)


def large_cases():
    def case(name, ranks, stage, *offload):
        return f"1.1B bf16 {name}, {ranks} ranks", "1.1B", ranks, (
            "--precision", "bf16", "--stage", str(stage), "--recompute", "on", *offload)

    optimizer = ("--offload-optimizer", "nvme")
    yield case("stage 0", 1, 0)
    yield case("stage 3", 2, 3)
    yield case("optimizer on nvme", 1, 0, *optimizer)
    for stage in range(4):
        yield case(f"stage {stage}, optimizer on nvme", 2, stage, *optimizer)
    yield case("param on nvme", 1, 3, "--offload-param", "nvme")
    for ranks in (1, 2):
        yield case("all on nvme", ranks, 3, *NVME)


def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: ended with {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def plan(a, folder, model, ranks, flags):
    return json.loads(run([a.zinc, "plan", "--model", folder, "--ranks", str(ranks), "--seq-len", str(MODELS[model][1]),
                           "--tile-limit", "0", "--simulate", "--json", *flags]))


def train(a, folder, tokens, model, ranks, flags):
    out = os.path.join(a.folder, "run")
    words = [a.zinc, "train", *(("-n", str(ranks)) if ranks > 1 else ()), "--model", folder, "--from-scratch", "--data",
             tokens, "--output", out, "--overwrite", "--steps", str(WARM + a.steps), "--keep", "0", "--tile-limit", "0",
             "--seq-len", str(MODELS[model][1]), *flags]
    run(words + (["--clip", "0"] if "--optimizer-in-backward" in flags else []))
    with open(os.path.join(out, "metrics.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    shutil.rmtree(out)
    return rows[-1], [row["seconds"] for row in rows[WARM:]]


def off(predicted, measured):
    return predicted / measured - 1


def compare(a, folder, tokens, case):
    name, model, ranks, flags = case
    if not a.measured:
        run([a.zinc, "doctor", "--measure"])
    planned = plan(a, folder, model, ranks, flags)
    row, steps = train(a, folder, tokens, model, ranks, flags)
    seconds = statistics.median(steps)
    tiers = {k: (v, row["memory"][k]) for k, v in planned["per_rank"].items()}
    kinds = {k: (v, row["states"][k]) for k, v in planned["states"].items()}
    ledger = all(x == y for x, y in (*tiers.values(), *kinds.values()))
    resident, step = planned["resident"], planned["simulated"]["step"]
    found = {"case": name, "ledger_equal": ledger, "bytes": {"tiers": tiers, "states": kinds},
             "resident": {"predicted": resident, "measured": row["memory"]["resident"],
                          "off": off(resident, row["memory"]["resident"])},
             "seconds": {"predicted": step, "measured": seconds, "off": off(step, seconds),
                         "steps": steps, "by_formula": planned["seconds"]["step"]},
             "simulated": planned["simulated"]}
    say(f"{name:42} {'same' if ledger else 'DIFFERS':8}{resident >> 20:7} {row['memory']['resident'] >> 20:7} MiB "
        f"{found['resident']['off']:+6.1%}   {step:7.3f} {seconds:7.3f} s {found['seconds']['off']:+6.1%}   fastest {min(steps):.3f}")
    return found


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zinc", default=os.path.join(HERE, "..", "build", "zinc"))
    p.add_argument("--steps", type=int, default=7)
    p.add_argument("--only", default="", help="cases whose names hold all of these words")
    p.add_argument("--folder", help="where runs and swap go; else a temporary one")
    p.add_argument("--measured", action="store_true", help="with the figures of an earlier `zinc doctor --measure`")
    p.add_argument("--strict", action="store_true", help="exit code 1 also where seconds or memory are off")
    p.add_argument("--quick", action="store_true", help="one step each: to see that it works, not to conclude")
    a = p.parse_args()
    a.zinc = os.path.abspath(a.zinc)
    a.steps = 1 if a.quick else a.steps
    return a


def main():
    a = arguments()
    chosen = [c for c in cases() if all(w in c[0] for w in a.only.split())]
    with tempfile.TemporaryDirectory(dir=a.folder and os.path.abspath(a.folder)) as work:
        a.folder = work
        os.chdir(work)
        say(f"{'case':42} {'ledger':8}{'resident':>8} {'measured':>11} {'off':>7} {'simulated':>10} {'measured':>8} {'off':>8}")
        found = []
        for model, (config, time) in MODELS.items():
            os.makedirs(model)
            with open(os.path.join(model, "config.json"), "w") as f:
                json.dump(config, f)
            write_tokens(model + ".bin", config["vocab_size"], 2 * (WARM + a.steps) * time + 1)
            found += [compare(a, os.path.join(work, model), os.path.join(work, model + ".bin"), c) for c in chosen if c[1] == model]
    missed = [f"{f['case']}: {bar}" for f in found for bar, most in BARS.items() if abs(f[bar]["off"]) > most]
    differs = [f["case"] for f in found if not f["ledger_equal"]]
    json.dump({"cases": found, "ledger_differs": differs, "missed": missed}, sys.stdout, indent=1)
    print()
    say(f"{len(found)} cases: ledger differs in {len(differs)}, bars missed: {', '.join(missed) if missed else 'none'}")
    return 1 if differs or (a.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Zinc on several ranks beside PyTorch DDP, PyTorch FSDP2 and DeepSpeed stage 3: GPT-2 124M, random weights, fp32.

    compare_ranks.py [--zinc build/zinc] [--python PYTHON] [--deepspeed-python PYTHON] [--rounds 7] [--minutes M]
                     [--default-malloc] [--quick]

All get the same ranks, threads, batch and vocabulary, AdamW without clipping, and no recomputation. A round is one short
run of each, and the order turns with every round, because a machine drifts by more than the difference that matters. A
run gives the median of its steps after the first two (the peers' second step is still far slower than their third); a
round gives ratios of speed; the answer is their median, with quartiles and extremes. The peers run with huge pages and
without trimming, which makes PyTorch faster and takes more memory; --default-malloc adds them as they come. Resident
memory is the peak of the largest process of a run, pages shared between ranks counted in full. Standard output is one
JSON value. With --minutes no round starts that would end later; an interrupt ends the comparison with the rounds that
are whole.

--python names an interpreter with torch (else as in compare_torch.py), --deepspeed-python one with deepspeed (else
$ZINC_DEEPSPEED, else the one with torch). A peer that is not installed is left out.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

from compare_torch import HERE, HUGE, Zinc, find_torch, machine, measure, parameters, say, spread, write_inputs

SHAPE = (("batch", 2), ("seq-len", 256), ("layers", 12), ("width", 768), ("heads", 12), ("vocab", 50257),
         ("threads", 1))
RATIOS = (("zinc_stage0", "ddp"), ("zinc_stage3", "zinc_stage0"), ("zinc_stage3", "fsdp2"),
          ("zinc_stage3", "deepspeed3"), ("zinc_stage0", "ddp_default_malloc"),
          ("zinc_stage3", "fsdp2_default_malloc"), ("zinc_stage3", "deepspeed3_default_malloc"))
WARM = 2                                       # steps that are not timed


class ZincRanks:
    def __init__(self, a, work, stage):
        self.steps, self.ranks = a.steps, a.ranks
        self.zinc = Zinc(a, work, ("-n", str(a.ranks), "--stage", str(stage)))

    def run(self):
        rows, usage = self.zinc.train(WARM + self.steps)
        _, short = self.zinc.train(WARM)
        return {"seconds": statistics.median(r["seconds"] for r in rows[WARM:]), "resident": usage["resident"],
                "cpu_seconds": (usage["cpu_seconds"] - short["cpu_seconds"]) / self.steps / self.ranks}


class Torchrun:
    """A script of this folder on a.ranks ranks; its last line that is JSON has the seconds of each step."""

    def __init__(self, a, python, script, flags=(), tunables=HUGE):
        path = os.path.dirname(python) + os.pathsep + os.environ.get("PATH", "")  # deepspeed looks for ninja there
        self.env = {"GLIBC_TUNABLES": tunables, "OMP_NUM_THREADS": str(a.threads), "DS_ACCELERATOR": "cpu",
                    "PATH": path}
        self.argv = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(a.ranks),
                     os.path.join(HERE, script), "--warm", str(WARM), "--steps", str(a.steps), *flags]
        for name, _ in SHAPE:
            self.argv += ["--" + name, str(getattr(a, name.replace("-", "_")))]

    def run(self):
        out, usage = measure(self.argv, self.env)
        said = json.loads([line for line in out.splitlines() if line.startswith('{"ranks"')][-1])
        return {"seconds": statistics.median(said["seconds"]), "resident": usage["resident"], "cpu_seconds": said["cpu_seconds"]}


def find_deepspeed(wanted, torch_python):
    python = shutil.which(wanted or os.environ.get("ZINC_DEEPSPEED") or torch_python or "python3")
    probe = [python, "-c", "import deepspeed"]
    env = {**os.environ, "DS_ACCELERATOR": "cpu"}
    return python if python and subprocess.run(probe, capture_output=True, env=env).returncode == 0 else None


def add_peer(found, name, a, python, script, flags=()):
    found[name] = Torchrun(a, python, script, flags)
    if a.default_malloc:
        found[name + "_default_malloc"] = Torchrun(a, python, script, flags, tunables="")


def contenders(a, work):
    found = {"zinc_stage0": ZincRanks(a, work, 0), "zinc_stage3": ZincRanks(a, work, 3)}
    torch = find_torch(a.python)
    if torch:
        add_peer(found, "ddp", a, torch, "torch_ranks.py", ("--mode", "ddp"))
        add_peer(found, "fsdp2", a, torch, "torch_ranks.py", ("--mode", "fsdp2"))
    else:
        say("torch is not installed (--python, ZINC_VENV or tests/parity/venv.sh): DDP and FSDP2 are left out")
    deepspeed = find_deepspeed(a.deepspeed_python, torch)
    if deepspeed:
        add_peer(found, "deepspeed3", a, deepspeed, "deepspeed_ranks.py")
    else:
        say("deepspeed is not installed (--deepspeed-python or ZINC_DEEPSPEED): it is left out")
    return found


def tokens_per_second(a, run):
    return a.ranks * a.batch * a.seq_len / run["seconds"]


def run_round(a, programs, number):
    names = list(programs)
    turn = number % len(names)
    results = {}
    for name in names[turn:] + names[:turn]:
        start = time.monotonic()
        results[name] = programs[name].run()
        say(f"round {number + 1}/{a.rounds} {name}: {tokens_per_second(a, results[name]):.1f} tokens/s, "
            f"{results[name]['resident'] >> 20} MiB a rank ({time.monotonic() - start:.0f} s)")
    return results


def run_rounds(a, programs):
    """Returns the whole rounds: at most a.rounds, fewer when the time is up or at an interrupt."""
    rounds, start = [], time.monotonic()
    try:
        while len(rounds) < a.rounds:
            spent = time.monotonic() - start
            if a.minutes and rounds and spent + spent / len(rounds) > 60 * a.minutes:
                say(f"the {a.minutes:g} minutes end after {len(rounds)} of {a.rounds} rounds")
                break
            rounds.append(run_round(a, programs, len(rounds)))
    except KeyboardInterrupt:
        say(f"interrupted after {len(rounds)} whole rounds")
    return rounds


def figures(a, rounds):
    return {name: {"tokens_per_second": spread([tokens_per_second(a, r[name]) for r in rounds]),
                   "cpu_seconds_per_step_and_rank": spread([r[name]["cpu_seconds"] for r in rounds]),
                   "resident_bytes_per_rank": max(r[name]["resident"] for r in rounds)} for name in rounds[0]}


def ratios(rounds, of="seconds"):
    return {f"{ours}/{other}": spread([r[other][of] / r[ours][of] for r in rounds])
            for ours, other in RATIOS if ours in rounds[0] and other in rounds[0]}


def report(title, values, digits):
    say(f"{title:24} median {values['median']:.{digits}f}, quartiles {values['quartiles'][0]:.{digits}f} to "
        f"{values['quartiles'][1]:.{digits}f}, extremes {values['min']:.{digits}f} to {values['max']:.{digits}f}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zinc", default=os.path.join(HERE, "..", "build", "zinc"))
    p.add_argument("--python")
    p.add_argument("--deepspeed-python")
    p.add_argument("--default-malloc", action="store_true", help="the peers with malloc's own settings too")
    p.add_argument("--minutes", type=float, default=0)
    p.add_argument("--quick", action="store_true", help="one round: to see that it works, not to conclude")
    for name, default in SHAPE + (("ranks", 2), ("rounds", 7), ("steps", 2)):
        p.add_argument(f"--{name}", type=int, default=default)
    a = p.parse_args()
    if a.quick:
        a.rounds = 1
    return a


def main():
    a = arguments()
    before = machine()
    with tempfile.TemporaryDirectory() as work:
        write_inputs(a, work, (WARM + a.steps) * a.batch * a.ranks)
        rounds = run_rounds(a, contenders(a, work))
    if not rounds:
        raise SystemExit("no round was finished")
    programs, speeds = figures(a, rounds), ratios(rounds)
    for name, figure in programs.items():
        report(name + " tokens/s", figure["tokens_per_second"], 1)
    for name, values in speeds.items():
        report(name, values, 3)
    print(json.dumps({"machine": before, "ranks": a.ranks, "threads": a.threads, "micro_batch": a.batch,
                      "seq_len": a.seq_len, "parameters": parameters(a), "rounds": len(rounds), "warm": WARM,
                      "steps": a.steps, "figures": programs, "ratios_of_speed": speeds,
                      "ratios_of_cpu_seconds": ratios(rounds, "cpu_seconds")}, indent=2))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Zinc's AdamW update in memory beside PyTorch's (fused=True) and DeepSpeed's CPU-Adam, one update of each in turn.

    compare_adam.py [--zinc build/zinc] [--python PYTHON] [--deepspeed-python PYTHON] [--rounds 41] [--elements 33554432]
                    [--threads 2] [--quick]

Every contender is one process, which holds its states and updates them when it is asked to; the time is taken inside. A
round asks each once for the update in fp32 and once for the update with a bf16 copy of the parameters, in shuffled order:
a machine drifts by more than the difference that matters, within a round it hardly does. Printed are the median and the
quartiles of the ratios within the rounds, peer over Zinc: above 1 Zinc is faster. Peers run with their default malloc and
with huge pages. `zinc_streams` reads and writes the same bytes and computes nothing. Peers make the copy by copy_ after the
update; DeepSpeed's parameters of 16 bits, of which its update works in place, are another thing and left out.

--python names an interpreter with torch (else as in compare_torch.py), --deepspeed-python one with deepspeed (else
$ZINC_DEEPSPEED, else the one with torch). Who is not there is left out, by name. Standard output is one JSON value.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

from compare_ranks import find_deepspeed
from compare_torch import HERE, HUGE, find_torch, machine, say, spread

KINDS = ("fp32", "bf16")
WARM_ROUNDS = 3
REST = 0.02  # seconds between two updates: the threads of the last one stop spinning


class Contender:
    """A process that answers; its words for what is asked may have an ending of their own."""

    def __init__(self, argv, env=None, ending=""):
        self.ending, self.errors = ending, tempfile.TemporaryFile()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **(env or {})})

    def ask(self, kind):
        """Seconds, or None when it has ended."""
        try:
            self.process.stdin.write(kind + self.ending + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer)["seconds"] if answer else None

    def cause(self):
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with {self.process.returncode}"

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def zinc(a, ending=""):
    argv = [a.zinc, "bench", "adam", "--on-request", "--elements", str(a.elements), "--threads", str(a.threads)]
    return Contender(argv, ending=ending)


def peer(a, python, name, tunables=""):
    path = os.path.dirname(python) + os.pathsep + os.environ.get("PATH", "")  # deepspeed looks for ninja there
    env = {"OMP_NUM_THREADS": str(a.threads), "DS_ACCELERATOR": "cpu", "GLIBC_TUNABLES": tunables, "PATH": path}
    return Contender([python, os.path.join(HERE, "adam_peer.py"), name, str(a.elements), str(a.threads)], env)


def contenders(a):
    found = {"zinc": zinc(a), "zinc_streams": zinc(a, "-streams")}
    torch = find_torch(a.python)
    deepspeed = find_deepspeed(a.deepspeed_python, torch)
    for name, python, how in (("torch", torch, "--python, ZINC_VENV or tests/parity/venv.sh"),
                              ("deepspeed", deepspeed, "--deepspeed-python or ZINC_DEEPSPEED")):
        if python:
            found |= {name: peer(a, python, name), name + "_hugepages": peer(a, python, name, HUGE)}
        else:
            say(f"{name} is not installed ({how}): it is left out")
    return found


def warm_up(found):
    """Who cannot do it is left out, with the cause."""
    for name in list(found):
        for kind in KINDS * WARM_ROUNDS:
            if found[name].ask(kind) is not None:
                continue
            cause = found.pop(name).cause()
            if name.startswith("zinc"):
                sys.exit(f"{name}: {cause}")
            say(f"{name} is left out: {cause}")
            break


def run_rounds(a, found):
    """{kind: {name: [seconds of each round]}}"""
    seconds = {kind: {name: [] for name in found} for kind in KINDS}
    shuffle = random.Random(1).shuffle
    for number in range(a.rounds):
        for kind in KINDS:
            order = list(found)
            shuffle(order)
            for name in order:
                time.sleep(REST)
                took = found[name].ask(kind)
                if took is None:
                    sys.exit(f"{name}: {found[name].cause()}")
                seconds[kind][name].append(took)
        say(f"round {number + 1}/{a.rounds}: " + ", ".join(f"{n} {s[-1] * 1e3:.1f} ms" for n, s in seconds["fp32"].items()))
    return seconds


def figures(a, seconds):
    result = {}
    for name, taken in seconds.items():
        result[name] = {"ns_per_parameter": spread([s / a.elements * 1e9 for s in taken])}
        if name != "zinc":
            result[name]["over_zinc"] = spread([s / z for s, z in zip(taken, seconds["zinc"])])
    return result


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zinc", default=os.path.join(HERE, "..", "build", "zinc"))
    p.add_argument("--python")
    p.add_argument("--deepspeed-python")
    p.add_argument("--quick", action="store_true", help="3 rounds of 1Mi elements: to see that it works, not to conclude")
    for name, default in (("rounds", 41), ("elements", 32 << 20), ("threads", 2)):
        p.add_argument(f"--{name}", type=int, default=default)
    a = p.parse_args()
    if a.quick:
        a.rounds, a.elements = 3, 1 << 20
    return a


def main():
    a = arguments()
    before = machine()
    found = contenders(a)
    warm_up(found)
    seconds = run_rounds(a, found)
    for contender in found.values():
        contender.end()
    result = {kind: figures(a, seconds[kind]) for kind in KINDS}
    for kind, rows in result.items():
        for name, row in rows.items():
            if "over_zinc" in row:
                r = row["over_zinc"]
                say(f"{kind}: {name} takes {r['median']:.3f} of Zinc's time (quartiles {r['quartiles'][0]:.3f} to "
                    f"{r['quartiles'][1]:.3f} of {a.rounds} rounds)")
    print(json.dumps({"benchmark": "adam", "machine": before, "threads": a.threads, "elements": a.elements,
                      "rounds": a.rounds, **result}, indent=2))


if __name__ == "__main__":
    main()

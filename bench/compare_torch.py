#!/usr/bin/env python3
"""Zinc beside PyTorch in one run: GPT-2 124M, random weights, fp32, the same threads, batch and vocabulary.

    compare_torch.py [--zinc build/zinc] [--gemm-peak build/bench/gemm_peak] [--python PYTHON] [--pairs 7] [--compiled] [--quick]

Runs are short and interleaved (PyTorch with its default malloc, PyTorch with huge pages and no trimming, with --compiled that one
compiled, too, Zinc; the order turns with every pair), because a machine drifts by more than the difference that matters. Each run gives the median of
its steps after the first; each pair a ratio; the answer is the median of the ratios, with quartiles and extremes. The
best of PyTorch's is the one held against Zinc. The matrix-product peak is measured in every pair, and
the fraction of it is 6 * parameters * tokens/s (2 forward, 4 backward; attention's own products not counted) over the
median peak. CPU-seconds a step of Zinc come from two runs of different length. Standard output is one JSON value.

--python names an interpreter with torch; else $ZINC_VENV, the tests' environment and python3 are tried. Without torch,
Zinc's own figures are printed.
"""
import argparse
import array
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HUGE = ":".join(f"glibc.malloc.{k}={v}" for k, v in (("hugetlb", 1), ("mmap_threshold", 1 << 34),
                                                     ("trim_threshold", 1 << 34), ("top_pad", 1 << 28)))
TOKENS_MAGIC, TOKENS_VERSION = 20240520, 1


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure(argv, env=None):
    """Runs a program; returns its output and {cpu_seconds, resident} of the whole process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(argv, stdout=out, stderr=err, env={**os.environ, **(env or {})})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            sys.exit(f"{' '.join(argv)}: ended with {child.returncode}\n{err.read().decode(errors='replace')[-2000:]}")
        return out.read().decode(), {"cpu_seconds": usage.ru_utime + usage.ru_stime, "resident": usage.ru_maxrss * 1024}


def find_torch(wanted):
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "zinc", "venv")
    places = [wanted] if wanted else [os.path.join(d, "bin", "python") for d in (os.environ.get("ZINC_VENV"), cache) if d]
    for python in places if wanted else places + ["python3"]:
        found = shutil.which(python)
        if found and subprocess.run([found, "-c", "import torch"], capture_output=True).returncode == 0:
            return found
    return None


def write_model(folder, a):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
                   "n_embd": a.width, "n_layer": a.layers, "n_head": a.heads, "n_positions": 1024, "n_ctx": 1024,
                   "vocab_size": a.vocab, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02,
                   "bos_token_id": a.vocab - 1, "eos_token_id": a.vocab - 1}, f, indent=2)


def write_tokens(path, vocab, count):
    head = array.array("i", [TOKENS_MAGIC, TOKENS_VERSION, count] + [0] * 253)
    draw = random.Random(1)
    with open(path, "wb") as f:
        head.tofile(f)
        array.array("H", (draw.randrange(vocab) for _ in range(count))).tofile(f)


def write_inputs(a, work, windows):
    """The model and the data of every run of Zinc in this work folder."""
    write_model(os.path.join(work, "model"), a)
    write_tokens(os.path.join(work, "tokens.bin"), a.vocab, windows * a.seq_len + 1)


class Zinc:
    def __init__(self, a, work, flags=()):
        self.a, self.work, self.flags = a, work, flags

    def train(self, steps):
        a, out = self.a, os.path.join(self.work, "run")
        _, usage = measure([a.zinc, "train", "--model", os.path.join(self.work, "model"), "--from-scratch",
                            "--data", os.path.join(self.work, "tokens.bin"), "--output", out,
                            "--steps", str(steps), "--threads", str(a.threads), "--micro-batch", str(a.batch),
                            "--seq-len", str(a.seq_len), "--recompute", "off", "--precision", "fp32", "--clip", "0",
                            "--lr", "3e-4", "--weight-decay", "0.1", *self.flags])
        with open(os.path.join(out, "metrics.jsonl")) as f:
            rows = [json.loads(line) for line in f]
        shutil.rmtree(out)
        return rows, usage

    def run(self):
        rows, usage = self.train(1 + self.a.steps)
        _, short = self.train(1)
        return {"seconds": statistics.median(r["seconds"] for r in rows[1:]), "resident": usage["resident"],
                "cpu_seconds": (usage["cpu_seconds"] - short["cpu_seconds"]) / self.a.steps}


class Torch:
    def __init__(self, a, python, tunables, compiled=False):
        self.env = {"GLIBC_TUNABLES": tunables, "OMP_NUM_THREADS": str(a.threads)}
        self.argv = [python, os.path.join(HERE, "torch_gpt2.py"), *(("--warm", "2", "--compile") if compiled else ("--warm", "1"))]
        for key in ("batch", "seq_len", "layers", "width", "heads", "vocab", "threads", "steps"):
            self.argv += ["--" + key.replace("_", "-"), str(getattr(a, key))]

    def run(self):
        out, usage = measure(self.argv, self.env)
        said = json.loads(out.splitlines()[-1])
        return {"seconds": statistics.median(said["seconds"]), "resident": usage["resident"],
                "cpu_seconds": said["cpu_seconds"]}


def gemm_peak(a):
    if not os.access(a.gemm_peak, os.X_OK):
        return None
    return json.loads(measure([a.gemm_peak, str(a.threads)])[0])["gflops"]


def spread(values):
    ends = [min(values), max(values)]
    quartiles = ends if len(values) < 3 else statistics.quantiles(values, n=4, method="inclusive")[::2]
    return {"median": statistics.median(values), "quartiles": quartiles, "min": ends[0], "max": ends[1], "all": values}


def parameters(a):
    block = 12 * a.width * a.width + 13 * a.width
    return a.vocab * a.width + 1024 * a.width + a.layers * block + 2 * a.width


def summary(a, runs, peaks):
    tokens, flops = a.batch * a.seq_len, 6 * parameters(a)
    peak = statistics.median(peaks) if peaks else None
    result = {}
    for name, rows in runs.items():
        rate = spread([tokens / r["seconds"] for r in rows])
        result[name] = {"tokens_per_second": rate, "resident_bytes": max(r["resident"] for r in rows),
                        "cpu_seconds_per_step": statistics.median(r["cpu_seconds"] for r in rows),
                        "fraction_of_matrix_peak": flops * rate["median"] / (peak * 1e9) if peak else None}
    return result


def compare(runs, figures):
    """Zinc against the best of torch; all ratios are given."""
    def ratios(other):
        return spread([o["seconds"] / z["seconds"] for z, o in zip(runs["zinc"], runs[other])])
    better = max((n for n in runs if n != "zinc"), key=lambda n: figures[n]["tokens_per_second"]["median"])
    return {"against": better, "speed": ratios(better), "speed_by_way": {n: ratios(n) for n in runs if n != "zinc"},
            "resident": figures["zinc"]["resident_bytes"] / figures[better]["resident_bytes"],
            "cpu_seconds": figures["zinc"]["cpu_seconds_per_step"] / figures[better]["cpu_seconds_per_step"]}


def machine():
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cpus": len(os.sched_getaffinity(0)), "system": platform.platform(), "load": os.getloadavg()}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    build = os.path.join(HERE, "..", "build")
    p.add_argument("--zinc", default=os.path.join(build, "zinc"))
    p.add_argument("--gemm-peak", default=os.path.join(build, "bench", "gemm_peak"))
    p.add_argument("--python")
    p.add_argument("--compiled", action="store_true", help="torch.compile, too")
    p.add_argument("--quick", action="store_true", help="2 pairs of 2 steps: to see that it works, not to conclude")
    for name, default in (("pairs", 7), ("steps", 3), ("threads", 2), ("batch", 4), ("seq-len", 256), ("layers", 12),
                          ("width", 768), ("heads", 12), ("vocab", 50257)):
        p.add_argument(f"--{name}", type=int, default=default)
    a = p.parse_args()
    if a.quick:
        a.pairs, a.steps = 2, 2
    return a


def main():
    a = arguments()
    python = find_torch(a.python)
    if not python:
        say("torch is not installed (--python, ZINC_VENV or tests/parity/venv.sh): Zinc's own figures only")
    before = machine()
    with tempfile.TemporaryDirectory() as work:
        write_inputs(a, work, (1 + a.steps) * a.batch)
        contenders = {"zinc": Zinc(a, work)}
        if python:
            contenders |= {"torch": Torch(a, python, ""), "torch_hugepages": Torch(a, python, HUGE)}
            if a.compiled:
                contenders["torch_compiled"] = Torch(a, python, HUGE, compiled=True)
        runs, peaks = {name: [] for name in contenders}, []
        for pair in range(a.pairs):
            peaks += [g for g in (gemm_peak(a),) if g]
            order = list(contenders)
            order = order[pair % len(order):] + order[:pair % len(order)]
            for name in order:
                start = time.monotonic()
                runs[name].append(contenders[name].run())
                say(f"pair {pair + 1}/{a.pairs} {name}: {a.batch * a.seq_len / runs[name][-1]['seconds']:.1f} tokens/s "
                    f"({time.monotonic() - start:.0f} s)")
    figures = summary(a, runs, peaks)
    against = compare(runs, figures) if python else None
    if against:
        say("zinc over {against}: speed {0[median]:.3f} ({0[min]:.3f} to {0[max]:.3f} in {1} pairs), resident memory "
            "{resident:.2f}, CPU-seconds {cpu_seconds:.2f}".format(against["speed"], a.pairs, **against))
    print(json.dumps({"machine": before, "threads": a.threads, "micro_batch": a.batch, "seq_len": a.seq_len,
                      "parameters": parameters(a), "pairs": a.pairs, "matrix_peak_gflops": spread(peaks) if peaks else None,
                      "figures": figures, "zinc_over_torch": against or "torch is not installed"}, indent=2))


if __name__ == "__main__":
    main()

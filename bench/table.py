#!/usr/bin/env python3
"""All measurements as one table: `make bench`.

    table.py [--zinc build/zinc] [--output docs/benchmarks.md] [--json build/bench.json] [--only WORDS] [--quick]

The machine's limits, steps beside their own products, PyTorch (two mallocs, compiled), DDP, FSDP2, DeepSpeed, the optimizer and
the storage beside their peers. Each part is a program of its own, interleaved with its peers, that prints JSON; here they only become rows. Peers that are not
installed are left out, and said. The table replaces what stands between the marks in the page, and is printed; the JSON values of all
parts go to --json. --only takes the parts whose names hold one of its words. --quick is to see that it works, not to conclude.
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys

from compare_torch import HERE, machine, say

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
BUILD = os.path.join(HERE, "..", "build")


def run(argv):
    """The JSON value that a program prints; None where it fails, which is said."""
    say("$ " + " ".join(os.path.relpath(w) if os.path.isabs(w) else w for w in argv))
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        say(f"{argv[0]}: ended with {done.returncode}; left out")
        return None
    return json.loads(done.stdout) if done.stdout.strip() else None


def between(s, digits=3):
    """A spread as text: its median, and the least and the largest."""
    least, most = (s.get(a, s.get(b)) for a, b in (("least", "min"), ("most", "max")))
    return f"{s['median']:.{digits}g} ({least:.{digits}g} to {most:.{digits}g})"


def limits(a, quick):
    rounds = ["--rounds", "1" if quick else "5"]
    gemm = run([a.zinc, "bench", "gemm", "--json", *rounds])
    comm = run([a.zinc, "bench", "comm", "--json", *rounds])
    rows = []
    if gemm:
        rows += [("fused multiply-adds in registers", f"{gemm['fma_peak_gflops']:.0f} Gflop/s"),
                 ("a large product", f"{gemm['large_product_gflops']:.0f} Gflop/s"),
                 (f"products of four models ({len(gemm['products'])}), geometric mean", f"{100 * gemm['mean_share_of_peak']:.0f}% of the multiply-adds"),
                 ("the least of them", f"{100 * min(p['share_of_peak'] for p in gemm['products']):.0f}%")]
    if comm:
        large = comm["sizes"][-1]
        rows += [(f"copies by {comm['ranks']} ranks at once", f"{large['copy'] * 1e-9:.1f} GB/s each"),
                 ("gathers, sums in fp32, sums in bf16", ", ".join(f"{large[k] * 1e-9:.1f}" for k in ("gather", "reduce_fp32", "reduce_bf16")) + " GB/s each")]
    return {"gemm": gemm, "comm": comm}, rows


STEPS = (("gpt2-124m", "fp32", 4, 256), ("gpt2-124m", "fp32", 1, 1024), ("gpt2-124m", "fp32", 1, 256), ("gpt2-124m", "bf16", 4, 256),
         ("smollm2-135m", "fp32", 4, 256), ("tinyllama-1.1b", "bf16", 1, 512))


def steps(a, quick):
    found, rows = [], []
    for shape, precision, batch, seq_len in STEPS[:1] if quick else STEPS:
        r = run([a.zinc, "bench", "step", "--shape", shape, "--precision", precision, "--micro-batch", str(batch), "--seq-len",
                 str(seq_len), "--rounds", "1" if quick else "5", "--json"])
        if r:
            found.append(r)
            rows.append((f"{shape}, {precision}, B={batch} T={seq_len}",
                         f"{between(r['seconds'])} s, {between(r['cpu_seconds'])} CPU-seconds, {100 * r['share_of_products']:.1f}% of the speed of its products alone"))
    return found, rows


def torch(a, quick):
    found, rows = [], []
    for batch, seq_len in ((4, 256),) if quick else ((4, 256), (1, 1024), (1, 256)):
        r = run([sys.executable, os.path.join(HERE, "compare_torch.py"), "--zinc", a.zinc, "--batch", str(batch), "--seq-len", str(seq_len),
                 *(["--quick"] if quick else ["--pairs", "5", "--compiled"])])
        if not r:
            continue
        found.append(r)
        for name, f in r["figures"].items():
            rows.append((f"GPT-2 124M, fp32, B={batch} T={seq_len}: {name}",
                         f"{between(f['tokens_per_second'])} tokens/s, {f['cpu_seconds_per_step']:.3g} CPU-seconds a step, {f['resident_bytes'] >> 20} MiB"))
        if isinstance(r["zinc_over_torch"], dict):
            z = r["zinc_over_torch"]
            rows.append((f"… Zinc over {z['against']}", f"speed {between(z['speed'])}, CPU-seconds {z['cpu_seconds']:.3f}"))
    return found, rows


def ranks(a, quick):
    r = run([sys.executable, os.path.join(HERE, "compare_ranks.py"), "--zinc", a.zinc, *(["--quick"] if quick else ["--rounds", "5"])])
    if not r:
        return None, []
    rows = [(f"GPT-2 124M, fp32, {r['ranks']} ranks, B={r['micro_batch']} T={r['seq_len']} each: {name}",
             f"{between(f['tokens_per_second'])} tokens/s, {f['cpu_seconds_per_step_and_rank']['median']:.3g} CPU-seconds a step and rank, "
             f"{f['resident_bytes_per_rank'] >> 20} MiB a rank") for name, f in r["figures"].items()]
    rows += [(f"… {name}", f"speed {between(s)}, CPU-seconds saved {between(r['ratios_of_cpu_seconds'][name])}")
             for name, s in r["ratios_of_speed"].items()]
    return r, rows


def adam(a, quick):
    r = run([sys.executable, os.path.join(HERE, "compare_adam.py"), "--zinc", a.zinc, *(["--quick"] if quick else [])])
    rows = []
    for kind in ("fp32", "bf16") if r else ():
        for name, f in r[kind].items():
            if "over_zinc" in f:
                rows.append((f"AdamW, {kind}: time of {name} over Zinc's", between(f["over_zinc"])))
    return r, rows


def io(a, quick):
    r = run([a.zinc, "bench", "io", "--json", "--size", "128MiB" if quick else "1GiB"])
    return r, [(f"storage: {way}", f"{r[way]['bytes_per_second'] * 1e-9:.2f} GB/s" +
                (f", {r[way]['ratio']:.2f} of fio's" if r[way]["ratio"] else "")) for way in ("read", "write", "mixed")] if r else []


def offload(a, quick):
    r = run([os.path.join(BUILD, "bench", "bench_offload"), ".", "1" if quick else "5"])
    names = {"update": "the optimizer on NVMe", "step_in_backward": "a step on NVMe, updates in backward", "step_clipped": "a step on NVMe, with clipping"}
    return r, [(f"GPT-2 124M, bf16, T=512: {what}", f"{r[key]['seconds']:.3g} s, {r[key]['over_limit']:.2f} of the longer of its transfers and its computing")
               for key, what in names.items()] if r else []


PARTS = {"limits": limits, "steps": steps, "torch": torch, "ranks": ranks, "adam": adam, "offload": offload, "io": io}


def page(about, rows):
    lines = [BEGIN, "", f"{about['cpu']}, {about['cpus']} cores, {about['system']}; {about['date']}, load {about['load'][0]:.1f} before. "
             "Medians, and in brackets the least and the largest.", "", "| what | figure |", "|---|---|"]
    return "\n".join(lines + [f"| {what} | {figure} |" for what, figure in rows] + ["", END])


def write_page(path, text):
    """Between the marks, or at the end of a page without them."""
    old = open(path).read() if os.path.exists(path) else "# Benchmarks\n"
    marks = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.S)
    new = marks.sub(lambda _: text, old) if marks.search(old) else old.rstrip("\n") + "\n\n" + text + "\n"
    with open(path, "w") as f:
        f.write(new)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--zinc", default=os.path.join(BUILD, "zinc"))
    p.add_argument("--output", help="the page; without it only standard output")
    p.add_argument("--json", default=os.path.join(BUILD, "bench.json"))
    p.add_argument("--only", nargs="+", default=[], choices=sorted(PARTS))
    p.add_argument("--quick", action="store_true")
    return p.parse_args()


def main():
    a = arguments()
    about = {**machine(), "date": datetime.date.today().isoformat()}
    values, rows = {}, []
    for name, part in PARTS.items():
        if not a.only or name in a.only:
            values[name], more = part(a, a.quick)
            rows += more
    with open(a.json, "w") as f:
        json.dump({"machine": about, **values}, f, indent=1)
    text = page(about, rows)
    if a.output:
        write_page(a.output, text)
    print(text)


if __name__ == "__main__":
    main()

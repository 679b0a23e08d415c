#!/usr/bin/env python3
"""Adds to the folders of make_fixtures.py what PyTorch says of the same training over several ranks, and mixed.

    make_rank_fixtures.py              after make_fixtures.py, whose models and flags it uses

expected-ranks-N.json: fp32 over N ranks. expected-bf16-ranks-N.json: mixed precision (reference.py --mixed bf16), with
the losses of the same run in plain fp32 under "plain": a run in bf16 must be nearer to the former than those are.
Both are read by compare_metrics, like expected.json; they have no loss of the untrained folder.
"""
import json
import os
import sys

import make_fixtures as fixtures
import reference

# On two ranks the loud gpt2 takes PyTorch's own fp32 as far from float64 as the bound is: the calm one stands in.
FP32_RANKS = {"gpt2": (3,), "gpt2-calm": (2, 3), "qwen3": (2, 3)}
BF16_RANKS = {"gpt2-calm": (1, 2), "qwen3": (1, 2)}
BF16_BOUNDS = {"loss": 2e-3, "grad_norm": 2e-2}


def flags_of(folder):
    """The flags that make_fixtures.py chose, as a dictionary without those of Zinc alone."""
    with open(os.path.join(folder, "expected.json")) as f:
        words = json.load(f)["train"]
    words = words[:words.index("--no-shuffle")]
    return {key.removeprefix("--"): value for key, value in zip(words[::2], words[1::2])}


def argv(flags, precision):
    return [w for key, value in flags.items() for w in (f"--{key}", value)] + ["--no-shuffle", "--precision", precision]


def rows(folder, flags, tok, **more):
    return {dtype: fixtures.run(folder, {**flags, **more}, tok, dtype) for dtype in ("float32", "float64")}


def make(name, n_ranks, mixed, tok):
    folder = os.path.join(fixtures.DATA, name)
    flags = flags_of(folder)
    plain = rows(folder, flags, tok, ranks=n_ranks)
    if not mixed:
        bounds = {key: fixtures.BOUNDS[key] for key in ("loss", "grad_norm")}
        expected = {"train": argv(flags, "fp32"), "bounds": bounds, "reference": plain}
        own = fixtures.times_bound(fixtures.distance(plain["float32"], plain["float64"]))
        print(f"{name}, {n_ranks} ranks: torch's fp32 at {own:.2g} of the bound", flush=True)
        if own > 0.5:
            sys.exit("the two witnesses are too far from each other")
        fixtures.write_expected(folder, expected, f"expected-ranks-{n_ranks}.json")
        return
    got = rows(folder, flags, tok, ranks=n_ranks, mixed="bf16")
    far = {what: fixtures.distance(r, got["float64"])["loss"]
           for what, r in (("fp32 mixed", got["float32"]), ("plain fp32", plain["float32"]))}
    print(f"{name}, bf16, {n_ranks} ranks: losses from float64 mixed: " +
          ", ".join(f"{what} {value:.1e}" for what, value in far.items()), flush=True)
    expected = {"train": argv(flags, "bf16"), "bounds": BF16_BOUNDS, "plain": [r["loss"] for r in plain["float32"]],
                "reference": got}
    fixtures.write_expected(folder, expected, f"expected-bf16-ranks-{n_ranks}.json")


def main():
    fixtures.be_quiet()
    tok = reference.tokens(os.path.join(fixtures.DATA, "tokens.bin"))
    for table, mixed in ((FP32_RANKS, False), (BF16_RANKS, True)):
        for name, ranks in table.items():
            for n_ranks in ranks:
                make(name, n_ranks, mixed, tok)


if __name__ == "__main__":
    main()

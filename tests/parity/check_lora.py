#!/usr/bin/env python3
"""Adapters against PEFT and transformers, for a small model of every architecture.

    check_lora.py PROGRAM DATA_DIR WORK_DIR [FIXTURE...]

For each fixture: zinc makes new adapters; PEFT and zinc train them 20 steps, which must agree in losses, norms and weights; PEFT
loads what zinc wrote and zinc what PEFT wrote, to the same loss; and the merged model gives the logits of the adapted one.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file

import reference

LOSS_BOUND, NORM_BOUND, WEIGHT_BOUND, BF16_BOUND = 2e-5, 1e-4, 1e-5, 2e-3
SEQ_LEN = 32


def zinc(program, *args):
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"zinc {' '.join(map(str, args))}: {done.stderr[-2000:]}")
    return done.stdout


def relative(got, expected):
    return abs(got - expected) / abs(expected)


def reference_flags(flags, path, data):
    """Those of them that reference.py has, too."""
    kept, i = [], 0
    while i < len(flags):
        if flags[i] in ("--no-shuffle", "--precision"):
            i += 1 if flags[i] == "--no-shuffle" else 2
            continue
        kept += flags[i:i + 2]
        i += 2
    return reference.parser().parse_args(["train", str(path), str(data / "tokens.bin"), *kept])


class Fixture:
    def __init__(self, program, data, work, name):
        self.program, self.data, self.work, self.name = program, data, work / name, name
        self.model, self.tokens = data / name, data / "tokens.bin"
        self.flags = json.loads((self.model / "expected.json").read_text())["train"]
        self.work.mkdir()
        self.said = []

    def hold(self, what, value, bound):
        self.said.append(f"{what} {value:.1e}")
        if not value <= bound:
            sys.exit(f"{self.name}: {what} {value:.3e} is above {bound:.0e}")

    def base(self, dtype=torch.float32):
        return reference.load(self.model, dtype)

    def loss(self, model):
        return reference.evaluate(model, reference.tokens(self.tokens), SEQ_LEN, torch.float32)[0]

    def zinc_loss(self, *args, model=None):
        said = zinc(self.program, "eval", "--model", model or self.model, "--data", self.tokens, "--seq-len", SEQ_LEN, "--json", *args)
        return json.loads(said)["loss"]

    def train(self):
        """The same new adapters, trained by both."""
        start, run = self.work / "start", self.work / "run"
        common = ("--model", self.model, "--data", self.tokens)
        zinc(self.program, "train", *common, "--lora-rank", 4, "--lora-alpha", 6, "--steps", 0, "--output", start)
        theirs = PeftModel.from_pretrained(self.base(), start, is_trainable=True)
        trained = [n for n, p in theirs.named_parameters() if p.requires_grad]
        assert len(trained) == len(load_file(start / "adapter_model.safetensors")), "PEFT trains other modules"
        expected = list(reference.train(reference_flags(self.flags, self.model, self.data), theirs, reference.tokens(self.tokens)))
        zinc(self.program, "train", *common, "--adapter", start, "--output", run, *self.flags)
        got = [json.loads(line) for line in open(run / "metrics.jsonl")]
        assert len(got) == len(expected) == 20
        self.hold("loss", max(relative(g["loss"], e["loss"]) for g, e in zip(got, expected)), LOSS_BOUND)
        self.hold("norm", max(relative(g["grad_norm"], e["grad_norm"]) for g, e in zip(got, expected)), NORM_BOUND)
        theirs.save_pretrained(self.work / "theirs")
        a, b = (load_file(self.work / d / "adapter_model.safetensors") for d in ("run", "theirs"))
        assert a.keys() == b.keys(), set(a) ^ set(b)
        self.hold("weights", max((a[k] - b[k]).abs().max().item() for k in a), WEIGHT_BOUND)
        ours = PeftModel.from_pretrained(self.base(), run)
        self.hold("loaded by PEFT", relative(self.zinc_loss("--adapter", run), self.loss(ours)), LOSS_BOUND)
        return ours

    def read(self):
        """An adapter that PEFT made, other in rank, scale and targets."""
        peft = self.work / "peft"
        gpt2 = self.name.startswith("gpt2")
        config = LoraConfig(r=3, lora_alpha=5, use_rslora=True, lora_dropout=0.1, task_type="CAUSAL_LM", fan_in_fan_out=gpt2,
                            target_modules=["c_attn", "c_fc"] if gpt2 else ["q_proj", "down_proj"])
        model = get_peft_model(self.base(), config)
        torch.manual_seed(3)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "lora_" in name:
                    p.normal_(0, 0.05)
        model.save_pretrained(peft)
        self.hold("loaded from PEFT", relative(self.zinc_loss("--adapter", peft), self.loss(model)), LOSS_BOUND)

    def train_16_bit(self):
        """Over the same base in bf16: zinc keeps it so and rounds what lies between blocks, PEFT computes in fp32."""
        base, run = self.work / "bf16", self.work / "bf16-run"
        zinc(self.program, "train", "--model", self.model, "--data", self.tokens, "--steps", 0, "--output-dtype", "bf16", "--output", base)
        flags = self.flags[:self.flags.index("--precision")]
        theirs = PeftModel.from_pretrained(reference.load(base, torch.float32), self.work / "start", is_trainable=True)
        expected = list(reference.train(reference_flags(flags, base, self.data), theirs, reference.tokens(self.tokens)))
        zinc(self.program, "train", "--model", base, "--data", self.tokens, "--adapter", self.work / "start", "--output", run, *flags)
        got = [json.loads(line) for line in open(run / "metrics.jsonl")]
        self.hold("loss over bf16", max(relative(g["loss"], e["loss"]) for g, e in zip(got, expected)), BF16_BOUND)

    def merge(self, adapted):
        merged = self.work / "merged"
        zinc(self.program, "merge", "--model", self.model, "--adapter", self.work / "run", "--output", merged, "--output-dtype", "fp32")
        ids = reference.tokens(self.tokens)[None, :SEQ_LEN]
        with torch.no_grad():
            a, b = (m.eval()(input_ids=ids).logits for m in (adapted, reference.load(merged, torch.float32)))
        self.hold("merged logits", ((a - b).abs().max() / a.abs().max()).item(), 1e-5)
        self.hold("merged loss", relative(self.zinc_loss(model=merged), self.zinc_loss("--adapter", self.work / "run")), 1e-6)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("data", type=pathlib.Path)
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    for name in a.names or sorted(d.name for d in a.data.iterdir() if d.is_dir()):
        f = Fixture(a.program, a.data, a.work, name)
        adapted = f.train()
        f.read()
        f.merge(adapted)
        if name == "gpt2-calm" or name == "qwen3":
            f.train_16_bit()
        print(f"ok {name}: {', '.join(f.said)}", flush=True)


if __name__ == "__main__":
    main()

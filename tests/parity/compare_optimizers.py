#!/usr/bin/env python3
"""Holds runs of `zinc train --optimizer NAME` to the same rule in plain PyTorch, with the hub's own model code.

    compare_optimizers.py MODEL TOKENS.bin RUN… [--not RUN…]

Each run's run.json says which optimizer and hyperparameters it had; those after --not must deviate.

Losses of all steps within 1e-5 of their size, weights within 1e-5. What Lion adds is the sign of a number: where that number is
within rounding of zero, two right programs may step to different sides, so such elements are counted and left out.
"""
import json
import sys
import types

import torch
from safetensors.torch import load_file

import reference

BOUND = 1e-5
ROUNDING = 1e-6     # of the largest momentum of a tensor: signs of smaller ones are rounding's
MAX_UNSURE = 0.02   # of all elements


class Lion:
    def __init__(self, params, run):
        self.params, self.run = params, run
        self.mean = [torch.zeros_like(p) for p in params]
        self.unsure = [torch.zeros_like(p, dtype=torch.bool) for p in params]

    @torch.no_grad()
    def step(self, grads):
        r = self.run
        for p, g, m, unsure in zip(self.params, grads, self.mean, self.unsure):
            c = r["beta1"] * m + (1 - r["beta1"]) * g
            unsure |= (c != 0) & (c.abs() < ROUNDING * c.abs().max())
            p.mul_(1 - r["lr"] * (r["weight_decay"] if p.dim() >= 2 else 0)).sub_(r["lr"] * torch.sign(c))
            m.mul_(r["beta2"]).add_(g, alpha=1 - r["beta2"])


class NarrowAdamW:
    """AdamW whose moments are rounded when they are stored: `keep` does that, and says what they stand for."""

    def __init__(self, params, run, keep):
        self.params, self.run, self.keep, self.t = params, run, keep, 0
        self.mean = [torch.zeros_like(p) for p in params]
        self.square = [torch.zeros_like(p) for p in params]
        self.unsure = [torch.zeros_like(p, dtype=torch.bool) for p in params]

    @torch.no_grad()
    def step(self, grads):
        r, self.t = self.run, self.t + 1
        for p, g, m, v in zip(self.params, grads, self.mean, self.square):
            p.mul_(1 - r["lr"] * (r["weight_decay"] if p.dim() >= 2 else 0))
            m.lerp_(g, 1 - r["beta1"])
            v.mul_(r["beta2"]).addcmul_(g, g, value=1 - r["beta2"])
            root = v.sqrt() / (1 - r["beta2"] ** self.t) ** 0.5
            p.addcdiv_(m, root.add_(r["eps"]), value=-r["lr"] / (1 - r["beta1"] ** self.t))
            m.copy_(self.keep(m))
            v.copy_(self.keep(v))


def orthogonalize(g):
    """Newton-Schulz as published, in fp32."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.mT if g.size(0) > g.size(1) else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        p = x @ x.mT
        x = a * x + (b * p + c * p @ p) @ x
    return x.mT if g.size(0) > g.size(1) else x


class Muon:
    """Matrices of blocks as published, the rest by AdamW."""

    def __init__(self, params, run, is_hidden):
        self.params, self.run, self.is_hidden, self.t = params, run, is_hidden, 0
        self.mean = [torch.zeros_like(p) for p in params]
        self.square = [torch.zeros_like(p) for p in params]
        self.unsure = [torch.zeros_like(p, dtype=torch.bool) for p in params]

    @torch.no_grad()
    def step(self, grads):
        r, self.t = self.run, self.t + 1
        for p, g, m, v, is_hidden in zip(self.params, grads, self.mean, self.square, self.is_hidden):
            p.mul_(1 - r["lr"] * (r["weight_decay"] if p.dim() >= 2 else 0))
            if is_hidden:
                m.lerp_(g, 1 - r["momentum"])
                rows, columns = p.shape
                scale = max(1, rows / columns) ** 0.5 if r["muon_scale"] == "original" else 0.2 * max(rows, columns) ** 0.5
                p.sub_(r["lr"] * scale * orthogonalize(g.lerp(m, r["momentum"])))
                continue
            m.lerp_(g, 1 - r["beta1"])
            v.mul_(r["beta2"]).addcmul_(g, g, value=1 - r["beta2"])
            root = v.sqrt() / (1 - r["beta2"] ** self.t) ** 0.5
            p.addcdiv_(m, root.add_(r["eps"]), value=-r["lr"] / (1 - r["beta1"] ** self.t))


class Torch:
    """An optimizer of torch.optim; weight decay on parameters of two or more dimensions."""

    def __init__(self, params, run, kind, **rest):
        groups = [{"params": [p for p in params if p.dim() >= 2], "weight_decay": run["weight_decay"]},
                  {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]
        self.params, self.opt = params, kind(groups, lr=run["lr"], **rest)
        self.unsure = [torch.zeros_like(p, dtype=torch.bool) for p in params]

    def step(self, grads):
        for p, g in zip(self.params, grads):
            p.grad = g
        self.opt.step()


def make(model, params, run):
    if run["optimizer"] == "muon":
        hidden = {id(p) for name, p in model.named_parameters() if p.dim() == 2 and (".layers." in name or ".h." in name)}
        return Muon(params, run, [id(p) in hidden for p in params])
    if run["optimizer"] == "lion":
        return Lion(params, run)
    if run["optimizer"] == "adagrad":
        return Torch(params, run, torch.optim.Adagrad, eps=run["eps"])
    if run["optimizer"] == "sgd":
        return Torch(params, run, torch.optim.SGD, momentum=run["momentum"])
    if run["optimizer"] == "adamw-bf16":
        return NarrowAdamW(params, run, lambda x: x.bfloat16())
    sys.exit(f"no reference for {run['optimizer']}")


def train(model, tok, run):
    """The losses, and the optimizer as it is after the last step."""
    params = [p for p in model.parameters() if p.requires_grad]
    opt, losses = make(model, params, run), []
    _, win = reference.windows(tok, run["seq_len"])
    for s in range(run["steps"]):
        model.zero_grad(set_to_none=True)
        rows = [win(s * run["micro_batch"] + b) for b in range(run["micro_batch"])]
        loss = reference.loss_of(model, rows, torch.float32)
        loss.backward()
        losses.append(loss.item())
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in params]
        norm = sum(float((g.double() ** 2).sum()) for g in grads) ** 0.5
        opt.step([g * min(1.0, run["clip"] / (norm + 1e-6)) for g in grads])
    return losses, opt


def compare(folder, model, opt, losses):
    got = [json.loads(line)["loss"] for line in open(f"{folder}/metrics.jsonl")]
    if len(got) != len(losses):
        sys.exit(f"{folder}: {len(got)} losses, not {len(losses)}")
    loss = max(abs(a - b) / abs(b) for a, b in zip(got, losses))
    ours, worst, n_unsure, n = load_file(f"{folder}/model.safetensors"), 0.0, 0, 0
    unsure = {id(p): u for p, u in zip(opt.params, opt.unsure)}
    for name, p in model.named_parameters():
        u = unsure[id(p)]
        worst = max(worst, float(((ours[name] - p.detach()).abs() * ~u).max()))
        n_unsure, n = n_unsure + int(u.sum()), n + p.numel()
    return types.SimpleNamespace(loss=loss, weights=worst, unsure=n_unsure / n)


def main():
    failures, wanted = 0, True
    tok = reference.tokens(sys.argv[2])
    for folder in sys.argv[3:]:
        if folder == "--not":
            wanted = False
            continue
        run = json.load(open(f"{folder}/run.json"))
        model = reference.load(sys.argv[1], torch.float32)
        losses, opt = train(model, tok, run)
        d = compare(folder, model, opt, losses)
        good = (d.loss <= BOUND and d.weights <= BOUND and d.unsure <= MAX_UNSURE) == wanted
        failures += not good
        print(f"{'ok' if good else 'FAIL'} {'' if wanted else 'a wrong '}{run['optimizer']}: losses within {d.loss:.2g} of PyTorch's, weights within "
              f"{d.weights:.2g}, {100 * d.unsure:.2g}% of them left out")
    sys.exit(failures > 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()

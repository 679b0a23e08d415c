#!/usr/bin/env python3
"""The reference that Zinc's numbers are held to: the same training run in PyTorch with the hub's own model code.

    reference.py train DIR TOKENS.bin --steps 20 --micro-batch 2 --accumulate 2 --ranks 2 --seq-len 64 --lr 1e-3
    reference.py eval  DIR TOKENS.bin --seq-len 64 [--limit N]                   mean loss over the (first N) windows

`train` prints one JSON object a step: {"step","loss","grad_norm","lr"}. Data order is Zinc's with --no-shuffle:
window i is tokens[i*T .. i*T+T] (T inputs, T targets); step s (from 0), accumulation a, rank r, row b takes window
((s*A + a)*R + r)*B + b, modulo the number of windows.

--dtype float32 (default) or float64 computes all in that type. --mixed bf16 keeps fp32 master weights, computes in
fp32 with weights rounded to bf16, and rounds each gradient to bf16 once before the update. --delayed-after K trains K
steps normally, then applies each gradient one step late (step i computes with weights that do not yet hold the
gradient of step i-1); the last pending one is applied at the end. AdamW: decay only on parameters of two or more
dimensions; the norm is over all parameters, before clipping. Learning rate of step s (from 1): lr*min(1, s/W), then
by --lr-schedule to --min-lr at the last step (as with zinc where --min-lr is given).
"""
import argparse
import json
import math
import sys

import numpy as np
import torch

TOKEN_KINDS = {(20240520, 1): np.uint16, (20240801, 7): np.uint32}


def widen(model):
    """Undo the hub code's fixed fp32 steps (norms, softmax, rotary angles): a float64 run is then float64 throughout."""
    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    def rotary(self, x, position_ids):
        angle = position_ids[:, :, None].to(x.dtype) * self.inv_freq.to(x.dtype)
        angle = torch.cat((angle, angle), dim=-1)
        return angle.cos() * self.attention_scaling, angle.sin() * self.attention_scaling

    for module in model.modules():
        kind = type(module).__name__
        if kind.endswith("RMSNorm"):
            module.forward = norm.__get__(module)
        elif kind.endswith("RotaryEmbedding"):
            module.forward = rotary.__get__(module)
    plain = torch.nn.functional.softmax
    if not hasattr(plain, "keeps_float64"):
        def softmax(x, dim=None, dtype=None, **rest):
            return plain(x, dim=dim, dtype=x.dtype if x.dtype == torch.float64 else dtype, **rest)
        softmax.keeps_float64 = True
        torch.nn.functional.softmax = softmax


def load(path, dtype):
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="eager")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0
    if dtype == torch.float64:
        widen(model)
    return model


def tokens(path):
    raw = np.fromfile(path, dtype=np.uint8)
    head = raw[:1024].view(np.int32)
    kind = TOKEN_KINDS.get((int(head[0]), int(head[1])))
    if kind is None:
        sys.exit(f"{path}: not a token file")
    return torch.from_numpy(raw[1024:].view(kind)[:int(head[2])].astype(np.int64))


def write_tokens(path, ids, vocab):
    """Writes a token file: 256 int32 of header (magic, version, count), then u16 or, past 65536 tokens, u32."""
    magic = (20240520, 1) if vocab <= 65536 else (20240801, 7)
    head = np.zeros(256, np.int32)
    head[:3] = (*magic, len(ids))
    with open(path, "wb") as f:
        f.write(head.tobytes())
        f.write(np.asarray(ids).astype(TOKEN_KINDS[magic]).tobytes())


def windows(tok, T):
    n = (len(tok) - 1) // T
    return n, lambda i: tok[(i % n) * T:(i % n) * T + T + 1]


def loss_of(model, rows, dtype):
    batch = torch.stack(rows)
    logits = model(input_ids=batch[:, :-1]).logits.to(dtype)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))


def rate(a, s):                                # s counts from 1
    if s <= a.warmup:
        return a.lr * s / a.warmup
    if a.lr_schedule == "constant" or a.steps <= a.warmup:
        return a.lr
    x = (s - a.warmup) / (a.steps - a.warmup)
    k = 1 - x if a.lr_schedule == "linear" else 0.5 * (1 + math.cos(math.pi * x))
    return a.min_lr + (a.lr - a.min_lr) * k


class Updater:
    """AdamW over master weights, published to the model in its working precision."""

    def __init__(self, a, params, decay_vectors):
        self.params, self.mixed = params, a.mixed == "bf16"
        self.master = [p.detach().clone() for p in params]
        matrix = [m for m in self.master if m.dim() >= 2 or decay_vectors]
        vector = [m for m in self.master if not (m.dim() >= 2 or decay_vectors)]
        self.opt = torch.optim.AdamW([{"params": matrix, "weight_decay": a.weight_decay},
                                      {"params": vector, "weight_decay": 0.0}],
                                     lr=a.lr, betas=(a.beta1, a.beta2), eps=a.eps)
        self.publish()

    def narrow(self, t):
        return t.to(torch.bfloat16).to(t.dtype) if self.mixed else t

    @torch.no_grad()
    def publish(self):
        for p, m in zip(self.params, self.master):
            p.copy_(self.narrow(m))

    def update(self, grads, lr):
        for g in self.opt.param_groups:
            g["lr"] = lr
        for m, g in zip(self.master, grads):
            m.grad = g
        self.opt.step()
        self.publish()


def train(a, model, tok, decay_vectors=False):
    """Yields one dictionary a step. `decay_vectors` is a fault on purpose, for the proof that fixtures are sharp."""
    dtype = getattr(torch, a.dtype)
    model.train()
    _, win = windows(tok, a.seq_len)
    params = [p for p in model.parameters() if p.requires_grad]
    up = Updater(a, params, decay_vectors)
    pending = None
    for s in range(a.steps):
        model.zero_grad(set_to_none=True)
        total = 0.0
        for k in range(a.accumulate):
            for r in range(a.ranks):
                first = ((s * a.accumulate + k) * a.ranks + r) * a.micro_batch
                loss = loss_of(model, [win(first + b) for b in range(a.micro_batch)], dtype) / (a.accumulate * a.ranks)
                loss.backward()
                total += loss.item()
        grads = [up.narrow(p.grad if p.grad is not None else torch.zeros_like(p)).clone() for p in params]
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads))
        if a.clip > 0:
            grads = [g * min(1.0, a.clip / (norm + 1e-6)) for g in grads]
        lr = rate(a, s + 1)
        if a.delayed_after is not None and s >= a.delayed_after:
            late, pending = pending, (grads, lr)
            if late is not None:
                up.update(*late)
        else:
            up.update(grads, lr)
        yield {"step": s + 1, "loss": total, "grad_norm": norm, "lr": lr}
    if pending:
        up.update(*pending)


@torch.no_grad()
def evaluate(model, tok, T, dtype, limit=0):
    """Mean loss over the first `limit` windows (0: all), and their number."""
    model.eval()
    n, win = windows(tok, T)
    count = min(n, limit) if limit else n
    return sum(loss_of(model, [win(i)], dtype).item() for i in range(count)) / count, count


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    t, e = sub.add_parser("train"), sub.add_parser("eval")
    for q in (t, e):
        q.add_argument("dir")
        q.add_argument("tokens")
        q.add_argument("--seq-len", type=int, default=64)
        q.add_argument("--dtype", default="float32")
    e.add_argument("--limit", type=int, default=0)
    for name, kind, default in (("steps", int, 20), ("micro-batch", int, 1), ("accumulate", int, 1), ("ranks", int, 1),
                                ("lr", float, 1e-3), ("beta1", float, 0.9), ("beta2", float, 0.999),
                                ("eps", float, 1e-8), ("weight-decay", float, 0.0), ("clip", float, 1.0),
                                ("warmup", int, 0), ("lr-schedule", str, "constant"), ("min-lr", float, 0.0),
                                ("delayed-after", int, None), ("mixed", str, None), ("save", str, None)):
        t.add_argument(f"--{name}", type=kind, default=default)
    return p


def main():
    a = parser().parse_args()
    dtype = getattr(torch, a.dtype)
    model, tok = load(a.dir, dtype), tokens(a.tokens)
    if a.what == "eval":
        loss, count = evaluate(model, tok, a.seq_len, dtype, a.limit)
        print(json.dumps({"loss": loss, "windows": count}))
        return
    for row in train(a, model, tok):
        print(json.dumps(row), flush=True)
    if a.save:
        model.save_pretrained(a.save)


if __name__ == "__main__":
    main()

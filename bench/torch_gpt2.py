#!/usr/bin/env python3
"""GPT-2 trained by PyTorch eager with fused AdamW in one process: what a user would write without Zinc.

    torch_gpt2.py --batch 4 --seq-len 256 --threads 2 --steps 3 --warm 1 [--compile]

Pre-norm blocks with biases, tanh gelu, tied head, torch's own fused attention; random weights and tokens; no clipping,
no recomputation. Ends with one line of JSON: seconds of each timed step, CPU-seconds a step, peak resident memory.
"""
import argparse
import json
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):                      # x (B,T,C)
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(C, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, width, heads, vocab, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe(torch.arange(x.size(1)))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def cpu_seconds():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batch", 4), ("seq-len", 256), ("layers", 12), ("width", 768), ("heads", 12),
                          ("vocab", 50257), ("positions", 1024), ("threads", 2), ("steps", 3), ("warm", 1)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--compile", action="store_true", help="by torch.compile; the steps that compile must be within --warm")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT2(a.layers, a.width, a.heads, a.vocab, a.positions)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    run = torch.compile(model) if a.compile else model
    seconds, losses, cpu = [], [], 0.0
    for step in range(a.warm + a.steps):
        rows = torch.randint(0, a.vocab, (a.batch, a.seq_len + 1))
        if step == a.warm:
            cpu = cpu_seconds()
        start = time.perf_counter()
        loss = run(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
                      "seconds": seconds[a.warm:], "cpu_seconds": (cpu_seconds() - cpu) / a.steps, "losses": losses,
                      "resident": usage.ru_maxrss * 1024, "minor_faults": usage.ru_minflt}))


if __name__ == "__main__":
    main()

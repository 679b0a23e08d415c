#!/usr/bin/env python3
"""Writes deepspeed_schedules.h, the learning rates of DeepSpeed's schedulers, from DeepSpeed itself (pip install deepspeed torch):

    make_deepspeed_schedules.py >deepspeed_schedules.h

As its engine does, the optimizer steps with the rate that it has, then the scheduler steps."""
import logging

import torch
import deepspeed
from deepspeed.runtime import lr_schedules

logging.disable(logging.WARNING)  # DeepSpeed's go to standard output
N_STEPS = 50
CASES = [  # class, lr of the optimizer, parameters of the class
    ("WarmupLR", 1e-3, dict(warmup_min_lr=1e-5, warmup_max_lr=1e-3, warmup_num_steps=10)),
    ("WarmupLR", 3e-4, dict(warmup_num_steps=7, warmup_type="linear")),
    ("WarmupLR", 1e-3, dict(warmup_min_lr=2e-3, warmup_max_lr=1e-3, warmup_num_steps=60)),
    ("WarmupLR", 1e-3, dict(warmup_num_steps=1)),
    ("WarmupDecayLR", 1e-3, dict(total_num_steps=40, warmup_min_lr=1e-6, warmup_max_lr=2e-3, warmup_num_steps=10)),
    ("WarmupDecayLR", 1e-3, dict(total_num_steps=50, warmup_max_lr=5e-5, warmup_num_steps=5, warmup_type="linear")),
    ("WarmupDecayLR", 1e-3, dict(total_num_steps=8, warmup_max_lr=1e-3, warmup_num_steps=12)),
    ("WarmupCosineLR", 3e-4, dict(total_num_steps=45, warmup_num_steps=8)),
    ("WarmupCosineLR", 1e-3, dict(total_num_steps=48, warmup_min_ratio=0.1, warmup_num_steps=6, cos_min_ratio=0.05,
                                  warmup_type="linear")),
    ("WarmupCosineLR", 1e-3, dict(total_num_steps=30, warmup_num_steps=20, cos_min_ratio=0.0)),
]


def rates(name, lr, params):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler = getattr(lr_schedules, name)(optimizer, **params)
    for _ in range(N_STEPS):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        scheduler.step()


def schedule(name, lr, params):
    """The fields of struct zn_schedule."""
    high = params.get("warmup_max_lr", lr)
    low = params.get("warmup_min_lr", params.get("warmup_min_ratio", 0) * lr)
    kind = {"WarmupLR": "WARMUP_LR", "WarmupDecayLR": "WARMUP_DECAY_LR", "WarmupCosineLR": "WARMUP_COSINE_LR"}[name]
    least = params.get("cos_min_ratio", 0.0001) * lr if name == "WarmupCosineLR" else -1
    log = "true" if params.get("warmup_type", "log") == "log" else "false"
    return (f".kind = ZN_{kind}, .lr = {high!r}, .min_lr = {least!r}, .warmup_min_lr = {low!r}, .log_warmup = {log}, "
            f".warmup = {params['warmup_num_steps']}, .steps = {params.get('total_num_steps', N_STEPS)}")


print(f"/* Made by make_deepspeed_schedules.py with DeepSpeed {deepspeed.__version__.strip()}. */")
print("static const struct {\n    struct zn_schedule schedule;\n    double lr[50];\n} deepspeed_schedules[] = {")
for name, lr, params in CASES:
    print(f"    {{{{{schedule(name, lr, params)}}},\n     {{", end="")
    texts = [repr(float(x)) for x in rates(name, lr, params)]
    lines = [", ".join(texts[i:i + 5]) for i in range(0, N_STEPS, 5)]
    print((",\n      ").join(lines) + "}},")
print("};")

#!/usr/bin/env python3
"""One AdamW update in memory for each line of standard input, and its seconds: the other side of compare_adam.py.

    adam_peer.py torch|deepspeed ELEMENTS THREADS

A line is `fp32`, the update alone, or `bf16`, the update and a copy of the parameters in bf16: neither has one that makes
the copy in the same pass, so it is made by copy_, as their users do. The answers are lines of JSON.
"""
import json
import os
import sys
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")  # read when deepspeed is imported

import torch


def make_optimizer(peer, parameter):
    settings = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    if peer == "torch":
        return torch.optim.AdamW([parameter], fused=True, **settings)
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    return DeepSpeedCPUAdam([parameter], adamw_mode=True, **settings)


def main():
    peer, elements, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print while they load is no answer
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    parameter = torch.nn.Parameter(torch.randn(elements) * 0.01)
    parameter.grad = torch.randn(elements) * 0.01
    copy = torch.zeros(elements, dtype=torch.bfloat16)
    optimizer = make_optimizer(peer, parameter)
    for line in sys.stdin:
        kind = line.strip()
        if kind not in ("fp32", "bf16"):
            sys.exit(f"'{kind}' is neither fp32 nor bf16")
        start = time.perf_counter()
        optimizer.step()
        if kind == "bf16":
            copy.copy_(parameter.detach())
        seconds = time.perf_counter() - start
        print(json.dumps({"kind": kind, "seconds": seconds}), file=answers, flush=True)


if __name__ == "__main__":
    main()

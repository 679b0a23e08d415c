#!/usr/bin/env python3
"""GPT-2 trained by PyTorch on several ranks of one machine: DDP, or FSDP2 with every block a unit; gloo, fused AdamW.

    torchrun --standalone --nproc-per-node 2 torch_ranks.py --mode ddp|fsdp2 --batch 2 --seq-len 256 --threads 1

The model is that of torch_gpt2.py; --batch is a rank's. A step is timed between two barriers. Rank 0 ends with one line
of JSON: the seconds of each timed step, its own CPU-seconds a step, and the losses.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from torch_gpt2 import GPT2, cpu_seconds


def arguments(doc, modes=()):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if modes:
        p.add_argument("--mode", choices=modes, required=True)
    for name, default in (("batch", 2), ("seq-len", 256), ("layers", 12), ("width", 768), ("heads", 12),
                          ("vocab", 50257), ("positions", 1024), ("threads", 1), ("steps", 2), ("warm", 2)):
        p.add_argument(f"--{name}", type=int, default=default)
    return p.parse_args()


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.1, fused=True)


def time_steps(a, step):
    """Collective. Calls step(x, y), which trains on a batch and returns its loss, and prints the JSON line."""
    torch.manual_seed(2 + dist.get_rank())     # weights are drawn before, alike on all ranks; tokens differ
    seconds, losses, cpu = [], [], 0.0
    for number in range(a.warm + a.steps):
        rows = torch.randint(0, a.vocab, (a.batch, a.seq_len + 1))
        x, y = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        dist.barrier()
        if number == a.warm:
            cpu = cpu_seconds()
        start = time.perf_counter()
        loss = step(x, y)
        dist.barrier()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    if dist.get_rank() == 0:
        print(json.dumps({"ranks": dist.get_world_size(), "seconds": seconds[a.warm:], "losses": losses,
                          "cpu_seconds": (cpu_seconds() - cpu) / a.steps}), flush=True)


def distribute(model, mode):
    if mode == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    a = arguments(__doc__, ("ddp", "fsdp2"))
    torch.set_num_threads(a.threads)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = distribute(GPT2(a.layers, a.width, a.heads, a.vocab, a.positions), a.mode)
    optimizer = adamw(model.parameters())

    def step(x, y):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    time_steps(a, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

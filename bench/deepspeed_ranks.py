#!/usr/bin/env python3
"""GPT-2 trained by DeepSpeed ZeRO stage 3 on several ranks of one machine: CPU accelerator, gloo, torch's fused AdamW.

    DS_ACCELERATOR=cpu torchrun --standalone --nproc-per-node 2 deepspeed_ranks.py --batch 2 --seq-len 256 --threads 1

The model is that of torch_gpt2.py, the timing and the JSON line those of torch_ranks.py. DeepSpeed's own settings are its
defaults, but for overlap_comm, which needs the streams of a GPU.
"""
import logging
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")  # read when deepspeed is imported

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.utils import logger
from torch import nn

from torch_gpt2 import GPT2
from torch_ranks import adamw, arguments, time_steps


def draw_weights(model):
    """Under zero.Init a module's weights are partitioned, and empty, before GPT2 draws them."""
    for m in model.modules():
        if isinstance(m, (nn.Linear, nn.Embedding)):
            with deepspeed.zero.GatheredParameters(m.weight, modifier_rank=0):
                if dist.get_rank() == 0:
                    nn.init.normal_(m.weight, std=0.02)


def main():
    a = arguments(__doc__)
    logger.setLevel(logging.ERROR)              # its notices go to standard output
    torch.set_num_threads(a.threads)
    deepspeed.init_distributed("gloo")
    torch.manual_seed(1)
    config = {"train_micro_batch_size_per_gpu": a.batch, "gradient_accumulation_steps": 1,
              "zero_optimization": {"stage": 3, "overlap_comm": False}}
    with deepspeed.zero.Init(config_dict_or_path=config):  # no dtype: naming fp32 there gives bf16
        model = GPT2(a.layers, a.width, a.heads, a.vocab, a.positions)
    draw_weights(model)
    engine = deepspeed.initialize(model=model, optimizer=adamw(model.parameters()), config=config)[0]

    def step(x, y):
        loss = engine(x, y)
        engine.backward(loss)
        engine.step()
        return loss

    time_steps(a, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes bitsandbytes.safetensors: the dynamic maps of bitsandbytes, and values with the codes and scales it gives them.

    make_quantize.py tests/data/quantize        needs torch, safetensors and bitsandbytes (0.50.2 made what is there)

The codes are the nearest ones, as its path for float64 on processors finds them; its compiled path for float32 looks codes up on a grid
that is too coarse for values far below their block's largest. `unsigned` is of the values' squares in fp32. The last block is short.
"""
import sys

import torch
from bitsandbytes import functional
from safetensors.torch import save_file

BLOCK = 256


def main():
    torch.manual_seed(1)
    n = 40 * BLOCK + 77
    values = torch.randn(n) * torch.exp(2 * torch.randn(n))
    values[BLOCK:BLOCK + 30] = 0
    tensors = {"values": values}
    for name, is_signed, x in (("signed", True, values), ("unsigned", False, values * values)):
        code = functional.create_dynamic_map(is_signed)
        codes, absmax = torch.ops.bitsandbytes.quantize_blockwise(x.double(), code, BLOCK)
        tensors[f"{name}_map"], tensors[f"{name}_codes"], tensors[f"{name}_absmax"] = code, codes, absmax
    save_file(tensors, f"{sys.argv[1]}/bitsandbytes.safetensors")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes what bitsandbytes makes of values in NF4 with double quantisation.

    make_nf4.py FILE BLOCKS        needs torch, safetensors and bitsandbytes (0.50.2 made tests/data/quantize/nf4.safetensors, 300 blocks)

Second codes are the nearest ones, as its path for float64 on processors finds them; its compiled path for float32 looks codes up on a
grid that is too coarse for some: how many differ is printed.
"""
import sys

import torch
from bitsandbytes import functional
from safetensors.torch import save_file


def main():
    n_blocks = int(sys.argv[2])
    torch.manual_seed(1)
    values = torch.randn(n_blocks * 64) * 0.02 * torch.exp(0.3 * torch.randn(n_blocks)).repeat_interleave(64)
    values[128:192] = 0
    codes, state = functional.quantize_4bit(values, blocksize=64, quant_type="nf4", compress_statistics=True)
    packed, absmax = torch.ops.bitsandbytes.quantize_4bit(values, 64, "nf4", torch.uint8)
    assert torch.equal(codes, packed)
    code = functional.create_dynamic_map()
    second, second_absmax = torch.ops.bitsandbytes.quantize_blockwise((absmax - state.offset).double(), code, 256)
    scales = torch.ops.bitsandbytes.dequantize_blockwise(second, second_absmax, code, 256, torch.float32) + state.offset
    widened = torch.ops.bitsandbytes.dequantize_4bit(packed, scales, 64, "nf4", values.shape, torch.float32)
    print(f"{int((second != state.absmax).sum())} of {n_blocks} second codes of its compiled path are not the nearest")
    save_file({"map": state.code, "values": values, "codes": packed.flatten(), "absmax": absmax, "mean": state.offset.reshape(1),
               "second_codes": second, "second_absmax": second_absmax, "widened": widened.flatten()}, sys.argv[1])


if __name__ == "__main__":
    main()

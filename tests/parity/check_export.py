#!/usr/bin/env python3
"""check_export.py TOKENS.bin SEQ_LEN {FOLDER EVAL.json SOURCE}…: folders that Zinc wrote, as the hub's own code sees them.

transformers opens each with no missing and no unexpected keys; tensor names and dtypes are those of SOURCE, if it is not
empty (mask buffers of old GPT-2 files aside); its fp32 loss equals the one that `zinc eval` gave for the same folder within
1e-5, relative.
"""
import json
import re
import sys

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

import reference

MASK = re.compile(r"(^|\.)h\.\d+\.attn\.(bias|masked_bias)$")
BOUND = 1e-5


def contents(folder):
    with safe_open(f"{folder}/model.safetensors", "pt") as f:
        if (f.metadata() or {}).get("format") != "pt":
            sys.exit(f"{folder}: __metadata__ does not say format pt")
        return {k: f.get_slice(k).get_dtype() for k in f.keys() if not MASK.search(k)}


def check(tokens, seq_len, folder, eval_path, source):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                       output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder}: {kind}: {sorted(info[kind])}")
    odd = set(contents(source).items()) ^ set(contents(folder).items()) if source else set()
    if odd:
        sys.exit(f"{folder}: names or dtypes are not the source's: {sorted(odd)[:8]}")
    want, count = reference.evaluate(model, reference.tokens(tokens), seq_len, torch.float32)
    got = json.load(open(eval_path))
    far = abs(got["loss"] - want) / want
    print(f"{folder.rsplit('/', 1)[-1]}: transformers {want:.7f}, zinc {got['loss']:.7f}, {count} windows: relative difference {far:.1e}")
    if got["windows"] != count or not far <= BOUND:
        sys.exit(f"{folder}: beyond {BOUND}, or {got['windows']} windows")


if __name__ == "__main__":
    for at in range(3, len(sys.argv), 3):
        check(sys.argv[1], int(sys.argv[2]), *sys.argv[at:at + 3])

#!/usr/bin/env python3
"""Holds an adapter of a real model that zinc trained to transformers and PEFT in fp32.

    check_lora_chat.py PROGRAM DIR ADAPTER_DIR MERGED_DIR

The ids of a greedy answer with --adapter are PEFT's, and the merged model (fp32) gives the logits of the adapted one.
"""
import json
import subprocess
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

QUESTION = "What do you eat?"


def load(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def main():
    program, folder, adapter, merged = sys.argv[1:]
    said = subprocess.run([program, "generate", "--model", folder, "--adapter", adapter, "--chat", "--prompt", QUESTION, "--max-tokens",
                           "24", "--json"], capture_output=True, check=True)
    got = json.loads(said.stdout)
    adapted = PeftModel.from_pretrained(load(folder), adapter).eval()
    ids = torch.tensor([got["prompt_ids"]])
    with torch.no_grad():
        expected = adapted.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
        expected = expected[0, ids.shape[1]:].tolist()
        if got["ids"] != expected:
            sys.exit(f"zinc goes on with {got['ids']}, PEFT with {expected}")
        whole = torch.tensor([got["prompt_ids"] + got["ids"]])
        a, b = (model(input_ids=whole).logits for model in (adapted, load(merged)))
    worst = ((a - b).abs().max() / a.abs().max()).item()
    print(f"{len(expected)} tokens of an answer as PEFT's ({got['text']!r}); logits of the merged model within {worst:.1e}")
    sys.exit(not worst <= 1e-5)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the loss that `zinc eval --json` gave for JSONL conversations with transformers' own.

    check_chat_loss.py MODEL ROWS.jsonl SEQ_LEN EVAL.json

The tokens are rendered and encoded by transformers, the answers found by offsets, the windows cut as documented.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model_folder, rows, length, result = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.load(open(sys.argv[4]))
tokenizer = AutoTokenizer.from_pretrained(model_folder)
ids, counts = [], []
for line in open(rows):
    messages = json.loads(line)["messages"]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    spans, at = [], 0
    for message in messages:
        at = text.index(message["content"], at)
        end = at + len(message["content"])
        if message["role"] == "assistant":
            spans.append((at, end + len(tokenizer.eos_token)))
        at = end
    ids += encoding["input_ids"] + [tokenizer.eos_token_id]
    counts += [any(a < e and b > s for s, e in spans) for a, b in encoding["offset_mapping"]] + [False]
model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
total, n = 0.0, 0
with torch.no_grad():
    for i in range((len(ids) - 1) // length):
        window = torch.tensor([ids[i * length:(i + 1) * length]])
        logp = model(window).logits[0].double().log_softmax(-1)
        for t in range(length):
            if counts[i * length + t + 1]:
                total -= logp[t, ids[i * length + t + 1]].item()
                n += 1
print(f"loss of answers {result['loss']:.6f} over {result['tokens']} targets; transformers {total / n:.6f} over {n}")
sys.exit(0 if n == result["tokens"] and abs(result["loss"] - total / n) <= 1e-5 * abs(total / n) + 1e-6 else 1)

#!/usr/bin/env python3
"""Compares the losses that `zinc eval --json` gave for JSONL conversations with transformers' own, row by row.

    check_chat_loss.py MODEL ROWS.jsonl EVAL.json…

Each row is rendered and encoded by transformers, run alone, and the answers are found by offsets: what the assistant says
and the token that ends its turn."""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
folder, rows, results = sys.argv[1], sys.argv[2], sys.argv[3:]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
total, n_targets, n_tokens, n_rows, longest = 0.0, 0, 0, 0, 0
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
    ids = encoding["input_ids"]
    counts = [any(a < e and b > s for s, e in spans) for a, b in encoding["offset_mapping"]]
    with torch.no_grad():
        logp = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    for t in range(1, len(ids)):
        if counts[t]:
            total -= logp[t - 1, ids[t]].item()
            n_targets += 1
    n_tokens += len(ids) - 1
    n_rows += 1
    longest = max(longest, len(ids))
truth = total / n_targets
print(f"transformers, row by row: {truth:.7f} over {n_targets} targets of {n_rows} rows, the longest of {longest} tokens")
worst = 0.0
for path in results:
    found = json.load(open(path))
    far = abs(found["loss"] - truth) / truth
    worst = max(worst, far)
    counted = (found["targets"], found["tokens"], found["examples"])
    print(f"{path.split('/')[-1]}: {found['loss']:.7f}, {found['windows']} windows, {far:.1e} away")
    if counted != (n_targets, n_tokens, n_rows) or not far <= 1e-5:
        sys.exit(f"{path}: {counted}, should be {(n_targets, n_tokens, n_rows)}, or too far")
print(f"at most {worst:.1e} away")

#!/usr/bin/env python3
"""Holds `zinc generate` to transformers in fp32 on one model: ids and text of greedy generation for ten prompts, 64 tokens
or up to the end of text; the ids of a chat prompt, and what the model answers to it.

    compare_generate.py PROGRAM DIR
"""
import json
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = [
    "The capital of France is",
    "Once upon a time, there was a",
    "def fibonacci(n):\n",
    "The quick brown fox",
    "In 1969, humans first",
    "Water boils at",
    "My favourite recipe for bread:\n1.",
    "Le café est très",
    "To be, or not to be,",
    "Q: What is 12 + 30?\nA:",
]
QUESTION = "What is the capital of France?"


def generate(program, folder, *flags):
    command = [program, "generate", "--model", folder, "--json", "--max-tokens", "64", *flags]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def reference(model, prompts, end):
    """Greedy tokens of all prompts, each up to its end of text. They are one batch, for a token costs one reading of
    the weights whatever the number of prompts; shorter ones are filled up at the left."""
    longest = max(map(len, prompts))
    given = torch.tensor([[end] * (longest - len(ids)) + ids for ids in prompts])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    with torch.no_grad():
        out = model.generate(given, attention_mask=mask, max_new_tokens=64, do_sample=False, pad_token_id=end)
    rows = out[:, longest:].tolist()
    return [row[:row.index(end) + 1] if end in row else row for row in rows]


def main(program, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts = [tokenizer(prompt).input_ids for prompt in PROMPTS]
    chat = list(tokenizer.apply_chat_template([{"role": "user", "content": QUESTION}], add_generation_prompt=True,
                                              return_dict=True)["input_ids"])
    wanted = reference(model, prompts + [chat], tokenizer.eos_token_id)
    wrong = 0
    for prompt, ids, want in zip(PROMPTS, prompts, wanted):
        got = generate(program, folder, "--prompt", prompt)
        text = tokenizer.decode(want, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if got["prompt_ids"] != ids:
            print(f"{prompt!r}: the prompt is {got['prompt_ids']}, not {ids}")
        elif got["ids"] != want:
            at = next((i for i, pair in enumerate(zip(got["ids"], want)) if pair[0] != pair[1]), "its end")
            print(f"{prompt!r}: differs from token {at}:\n  {got['ids']}\n  {want}")
        elif got["text"] != text:
            print(f"{prompt!r}: the text is {got['text']!r}, not {text!r}")
        else:
            continue
        wrong += 1
    answer = generate(program, folder, "--chat", "--prompt", QUESTION)
    if answer["prompt_ids"] != chat:
        print(f"the chat prompt is {answer['prompt_ids']}, not {chat}")
        wrong += 1
    if answer["ids"] != wanted[-1] or "Paris" not in answer["text"]:
        print(f"{QUESTION} {answer['text']!r}")
        wrong += 1
    print(f"{len(PROMPTS)} prompts, {wrong} deviate; {QUESTION} {answer['text']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

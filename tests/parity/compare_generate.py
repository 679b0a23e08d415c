#!/usr/bin/env python3
"""Holds `zinc generate` to transformers in fp32 on one model: ids and text of greedy generation for ten prompts, 64 tokens
or up to the end of text, as it is, with a repetition penalty, and with stop strings; the ids of a chat prompt, and what the
model answers to it; and a conversation, whose answers are those of each prompt computed from the beginning.

    compare_generate.py PROGRAM DIR
"""
import json
import subprocess
import sys
import tempfile

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


STOP = [" the", ".\n", "1"]
PENALTY = 1.3
TALK = ["What is the capital of France?", "And of Italy?", "Tell me a story about both, please.", "Thanks! How long was it?"]


def generate(program, folder, *flags, given=None):
    """One object for each prompt."""
    command = [program, "generate", "--model", folder, "--json", "--max-tokens", "64", *flags]
    out = subprocess.run(command, input=given, capture_output=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def reference(model, prompts, end, **settings):
    """Greedy tokens of all prompts, each up to its end. They are one batch, for a token costs one reading of the weights
    whatever the number of prompts. Shorter ones are filled up at the left with their own first token, which changes nothing
    that a repetition penalty sees, and at the right with a token that the model does not write."""
    longest = max(map(len, prompts))
    given = torch.tensor([ids[:1] * (longest - len(ids)) + ids for ids in prompts])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    pad = 0
    assert pad != end
    with torch.no_grad():
        out = model.generate(given, attention_mask=mask, max_new_tokens=64, do_sample=False, pad_token_id=pad, **settings)
    rows = out[:, longest:].tolist()
    return [row[:row.index(pad)] if pad in row else row for row in rows]


def cut(text):
    """Text before the first stop string, as ours is; theirs has it at the end."""
    return text[:min([text.index(stop) for stop in STOP if stop in text], default=len(text))]


def compare(name, tokenizer, prompts, wanted, got, cuts=lambda text: text):
    wrong = 0
    for prompt, ids, want, have in zip(PROMPTS, prompts, wanted, got, strict=True):
        text = cuts(tokenizer.decode(want, skip_special_tokens=True, clean_up_tokenization_spaces=False))
        if have["prompt_ids"] != ids:
            print(f"{name}, {prompt!r}: the prompt is {have['prompt_ids']}, not {ids}")
        elif have["ids"] != want:
            at = next((i for i, pair in enumerate(zip(have["ids"], want)) if pair[0] != pair[1]), "its end")
            print(f"{name}, {prompt!r}: differs from token {at}:\n  {have['ids']}\n  {want}")
        elif have["text"] != text:
            print(f"{name}, {prompt!r}: the text is {have['text']!r}, not {text!r}")
        else:
            continue
        wrong += 1
    print(f"{name}: {len(PROMPTS)} prompts, {sum(map(len, wanted))} tokens, {wrong} deviate")
    return wrong


def compare_talk(program, folder, tokenizer):
    """Each answer of a conversation, where keys and values stay, is that of its prompt alone."""
    answers = generate(program, folder, "--chat", given="\n".join(TALK).encode())
    messages, wrong = [], 0
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for message, answer in zip(TALK, answers, strict=True):
            messages.append({"role": "user", "content": message})
            ids = list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"])
            file.seek(0)
            file.truncate()
            file.write(json.dumps({"messages": messages}) + "\n")
            file.flush()
            alone = generate(program, folder, "--chat", "--prompts", file.name)[0]
            if answer != alone or answer["prompt_ids"] != ids:
                print(f"{message!r}: {answer} in a conversation, {alone} alone; the prompt is {ids}")
                wrong += 1
            messages.append({"role": "assistant", "content": answer["text"]})
    print(f"a conversation: {len(TALK)} messages, {wrong} deviate")
    return wrong


def main(program, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    end = tokenizer.eos_token_id
    prompts = [tokenizer(prompt).input_ids for prompt in PROMPTS]
    chat = list(tokenizer.apply_chat_template([{"role": "user", "content": QUESTION}], add_generation_prompt=True,
                                              return_dict=True)["input_ids"])
    *wanted, wanted_chat = reference(model, prompts + [chat], end)
    penalized = reference(model, prompts, end, repetition_penalty=PENALTY)
    stopped = reference(model, prompts, end, stop_strings=STOP, tokenizer=tokenizer)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS)
        file.flush()
        plain, with_penalty, with_stop = (generate(program, folder, "--prompts", file.name, *flags) for flags in (
            [], ["--repetition-penalty", str(PENALTY)], ["--stop", *STOP]))
    wrong = compare("greedy", tokenizer, prompts, wanted, plain)
    wrong += compare(f"--repetition-penalty {PENALTY}", tokenizer, prompts, penalized, with_penalty)
    wrong += compare("--stop", tokenizer, prompts, stopped, with_stop, cut)
    if generate(program, folder, "--prompt", PROMPTS[-1]) != plain[-1:]:
        print(f"{PROMPTS[-1]!r}: alone it has another text than after the others")
        wrong += 1
    answer = generate(program, folder, "--chat", "--prompt", QUESTION)[0]
    if answer["prompt_ids"] != chat:
        print(f"the chat prompt is {answer['prompt_ids']}, not {chat}")
        wrong += 1
    if answer["ids"] != wanted_chat or "Paris" not in answer["text"]:
        print(f"{QUESTION} {answer['text']!r}")
        wrong += 1
    print(f"{QUESTION} {answer['text']}")
    wrong += compare_talk(program, folder, tokenizer)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

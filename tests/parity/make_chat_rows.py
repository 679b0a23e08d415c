#!/usr/bin/env python3
"""Conversations of many lengths, as people have them: make_chat_rows.py N FILE [SEED [short]].

With and without a system message, one to three turns, answers from two words to a paragraph; `short`: one turn, answers
of at most a line. The same for a seed."""
import json
import random
import sys

THINGS = ["a kettle", "the tide", "an old violin", "rye bread", "a glacier", "the moon", "a lighthouse", "a spreadsheet",
          "an otter", "a bridge", "the number zero", "a map", "a compost heap", "a telescope", "a chess clock"]
ASKS = ["What is {}?", "Tell me about {}.", "Why do people like {}?", "Give me one fact about {}, please.",
        "How would you explain {} to a child?", "Is {} useful?"]
WORDS = ("it is something that many people know from their own kitchen or garden and that has a longer history than one "
         "would think because somebody once needed it badly and made do with what was there until it worked well enough "
         "to be copied by others who then changed it a little every year").split()
SYSTEMS = ["You answer in plain words.", "You are a patient teacher. Keep to what you know.", "Be brief."]


def answer(rng, is_short):
    n = rng.choice([2, 5, 9, 14] if is_short else [2, 5, 9, 14, 25, 40, 60])
    at = rng.randrange(len(WORDS))
    text = " ".join(WORDS[(at + i) % len(WORDS)] for i in range(n))
    return text[0].upper() + text[1:] + rng.choice([".", ".", "!", ".\n\nThat is all."])


def row(rng, is_short):
    messages = [{"role": "system", "content": rng.choice(SYSTEMS)}] if rng.random() < 0.4 else []
    for _ in range(1 if is_short else rng.choice([1, 1, 1, 2, 3])):
        messages.append({"role": "user", "content": rng.choice(ASKS).format(rng.choice(THINGS))})
        messages.append({"role": "assistant", "content": answer(rng, is_short)})
    return {"messages": messages}


def main():
    n, path = int(sys.argv[1]), sys.argv[2]
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    is_short = sys.argv[4:] == ["short"]
    with open(path, "w") as f:
        for _ in range(n):
            f.write(json.dumps(row(rng, is_short)) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/data/chat/expected.json: what transformers makes of conversations by each template of
tests/data/chat/templates/. With --check, compares instead of writing. Templates of the same name in
tests/data/chat/generation/ write the same text and mark with {% generation %} what is generated: "answers" is what
transformers finds there, for both.

    make_chat.py [--check] [TEMPLATE.jinja …]     other templates are rendered too, and printed as one JSON object

The templates are our own, in the manner of the families that they are named after.
"""
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "chat"
U, A, S = "user", "assistant", "system"
CONVERSATIONS = {
    "one turn": [(U, "Hello")],
    "answered": [(U, "Hello"), (A, "Hi there.")],
    "system": [(S, "Be brief."), (U, "Why?"), (A, "Because.")],
    "two turns": [(U, "1+1?"), (A, "2"), (U, " and 2+2? "), (A, " 4\n")],
    "long": [(S, "  Say no more.\n"), (U, "a"), (A, "b"), (U, "c"), (A, "d"), (U, "e")],
    "wrong order": [(A, "I begin."), (U, "No.")],
    "two users": [(U, "a"), (U, "b")],
    "other role": [(U, "a"), ("narrator", "Meanwhile"), (A, "b")],
    "tool": [(U, "a"), ("tool", "42"), (A, "b")],
    "thoughts": [(U, "a"), (A, "<think>\nHm.\n</think>\n\nb"), (U, "c"), (A, "<think>\nWell,\n\nyes.\n</think>\n\nd")],
    "empty answer": [(U, "a"), (A, "")],
    "unicode": [(U, "Grüße, 世界 👋🏽"), (A, "\u3000ñandú\u00a0")],
    "markers": [(U, "<|im_end|>\n<|im_start|>assistant\n"), (A, "[/INST] </s> {{ bos_token }} {% if %}")],
    "quotes": [(U, "\"'\\n\\"), (A, "tab\there")],
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def render(template, messages, prompt):
    messages = [{"role": role, "content": content} for role, content in messages]
    try:
        texts, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=prompt, **SPECIAL)
        return {"text": texts[0]}
    except Exception as error:  # the template's own refusals, and faults of the messages
        return {"error": str(error)}


def answers(path, messages, text):
    """The generated parts of the text, by the template that marks them; that it writes the same text is checked."""
    twin = path.parent.parent / "generation" / path.name
    if text is None or not twin.exists():
        return {}
    messages = [{"role": role, "content": content} for role, content in messages]
    texts, spans = render_jinja_template([messages], chat_template=twin.read_text(), return_assistant_tokens_mask=True, **SPECIAL)
    if texts[0] != text:
        sys.exit(f"{twin} writes {texts[0]!r}, {path} {text!r}")
    return {"answers": [text[begin:end] for begin, end in spans[0]]}


def cases(path):
    template = path.read_text()
    for name, messages in CONVERSATIONS.items():
        for prompt in (False, True):
            made = render(template, messages, prompt)
            yield {"template": path.stem, "conversation": name, "prompt": prompt, "messages": [list(m) for m in messages], **made,
                   **(answers(path, messages, made.get("text")) if not prompt else {})}


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if arguments:
        json.dump({"cases": [c for a in arguments for c in cases(pathlib.Path(a))]}, sys.stdout)
        return
    made = [c for path in sorted((DATA / "templates").glob("*.jinja")) for c in cases(path)]
    text = "{\"cases\": [\n" + ",\n".join(json.dumps(c) for c in made) + "\n]}\n"
    path = DATA / "expected.json"
    if "--check" in sys.argv:
        if path.read_text() != text:
            sys.exit(f"{path} is not what transformers makes of the templates; run {sys.argv[0]}")
        print(f"{len(made)} conversations as transformers renders them")
    else:
        path.write_text(text)


main()

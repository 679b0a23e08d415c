#!/usr/bin/env python3
"""`zinc tokenize` as a person runs it, against the `tokenizers` library.

    check_tokenize.py ZINC TOKENIZERS WORK
"""
import json
import os
import shutil
import subprocess
import sys

import numpy
from tokenizers import Tokenizer

zinc, tokenizers, work = sys.argv[1:4]
DOCUMENTS = ["One document.\nWith two lines.", "Another: 漢字, é, 👩🏽‍💻\r\n", "x" * 3000 + " y"]


def run(*words, code=0, data=None):
    done = subprocess.run([zinc, "tokenize", *words], input=data, capture_output=True)
    assert done.returncode == code, (words, done)
    return done


def folder(name, **config):
    path = os.path.join(work, name)
    shutil.copytree(os.path.join(tokenizers, name), path)
    with open(os.path.join(path, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
    return path, Tokenizer.from_file(path + "/tokenizer.json")


def check_texts(path, tok, special):
    text = f" A text, {special} and\n  more 12 é 🙂"
    ids = tok.encode(text, add_special_tokens=False).ids
    assert json.loads(run("--model", path, "--text", text, "--json").stdout) == {"ids": ids}
    assert json.loads(run("--model", path, "--stdin", "--json", data=text.encode()).stdout) == {"ids": ids}
    assert run("--model", path, "--text", text).stdout.split() == [str(i).encode() for i in ids]
    bad = json.loads(run("--model", path, "--stdin", "--json", data=b"a\xffb\xe2\x82").stdout)["ids"]
    assert bad == tok.encode("a\ufffdb\ufffd", add_special_tokens=False).ids
    decoded = json.loads(run("--model", path, "--decode", *map(str, ids), "--json").stdout)
    assert decoded == {"text": tok.decode(ids, skip_special_tokens=False)}
    assert json.loads(run("--model", path, "--text", "", "--json").stdout) == {"ids": []}


def check_files(path, tok, end, width):
    names = []
    for i, text in enumerate(DOCUMENTS[:2]):
        names.append(os.path.join(work, f"{i}.txt"))
        with open(names[-1], "w", newline="", encoding="utf-8") as f:
            f.write(text)
    names.append(os.path.join(work, "rows.jsonl"))
    with open(names[-1], "w") as f:
        f.write(json.dumps({"text": DOCUMENTS[2]}) + "\n")
    out = os.path.join(work, "out.bin")
    said = json.loads(run("--model", path, *names, "--output", out, "--json").stdout)
    expected = [i for text in DOCUMENTS for i in tok.encode(text).ids + [end]]
    header = numpy.fromfile(out, dtype="<i4", count=256)
    ids = numpy.fromfile(out, dtype="<u2" if width == 2 else "<u4", offset=1024)
    assert header[2] == len(expected) == said["tokens"] and ids.tolist() == expected, (header[:3], len(ids), len(expected))


def main():
    gpt2, tok = folder("gpt2", eos_token="<|endoftext|>")
    check_texts(gpt2, tok, "<|endoftext|>")
    check_files(gpt2, tok, tok.token_to_id("<|endoftext|>"), 2)
    llama3, tok = folder("llama3", eos_token={"content": "<|end_of_text|>"})
    check_texts(llama3, tok, "<|eot_id|>")
    check_files(llama3, tok, tok.token_to_id("<|end_of_text|>"), 4)
    llama2, tok = folder("llama2")
    with open(llama2 + "/config.json", "w") as f:
        json.dump({"eos_token_id": [2, 1]}, f)
    check_texts(llama2, tok, "</s>")
    check_files(llama2, tok, 2, 2)
    for words, code, cause in [(["--text", "a", "--stdin"], 2, b"either"), ([], 2, b"either"), (["a.txt"], 2, b"--output"),
                               (["--output", "x.bin"], 2, b"inputs"), (["--decode", "x"], 2, b"no id"),
                               (["--decode", "99999999"], 1, b"99999999"), (["gone.txt", "--output", "x.bin"], 1, b"gone.txt"),
                               (["out.bin", "--output", "x.bin"], 1, b"out.bin")]:
        done = run("--model", gpt2, *words, code=code)
        assert cause in done.stderr and done.stderr.count(b"\n") == 1 and not done.stdout, done
    print("ok zinc tokenize")


main()

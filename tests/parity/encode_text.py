#!/usr/bin/env python3
"""encode_text.py FOLDER TEXT OUT.bin COUNT…: encodes TEXT with the folder's tokenizer.json by the `tokenizers` library
and writes one token file for each COUNT, OUT being cut before `.bin` as OUT-1.bin, OUT-2.bin …, in the text's order."""
import json
import sys

from tokenizers import Tokenizer

import reference


def main(folder, text, out, *counts):
    vocab = json.load(open(f"{folder}/config.json"))["vocab_size"]
    ids = Tokenizer.from_file(f"{folder}/tokenizer.json").encode(open(text).read(), add_special_tokens=False).ids
    if len(ids) < sum(map(int, counts)):
        sys.exit(f"{text}: only {len(ids)} tokens")
    start = 0
    for i, count in enumerate(map(int, counts), 1):
        reference.write_tokens(f"{out.removesuffix('.bin')}-{i}.bin", ids[start:start + count], vocab)
        start += count


if __name__ == "__main__":
    main(*sys.argv[1:])

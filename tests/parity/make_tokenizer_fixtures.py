#!/usr/bin/env python3
"""Writes tests/data/tokenizer/: two small BPE models, and what the `tokenizers` library makes of texts with them and
every component that Zinc has. The test puts each tokenizer.json together from `parts` and a model.

    make_tokenizer_fixtures.py tests/data/tokenizer
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

rng = random.Random(5)
TEXTS = [
    "Hello, world! It's 2024; we'll pay $1,234.50 -- or not?", "  two  spaces   here\n\nand\tlines \r\n", "", " ", "a", "ab--ba-a---b",
    "the-final--countdown", "don't DON'T ÉTÉ été ſtraße ŒUVRE", "naïve e\u0301a\u0308 ﬁ ① ｶﾞ Å \u1112\u1161\u11ab", "漢字、かな。交じり文 and 한글 ١٢٣ १२३",
    "👩🏽‍💻 🏳️‍🌈 x\u200dy\u200cz \U00031350\U0001fae8\U00010d40\u1c89", "a1b22c333 4444 ½ Ⅷ", "snake_case camelCase x_1 <tag> </s>", "\x01\x02\x7f\x85 \u00a0\u3000\u180ex",
    "▁ under▁score ▁▁ ▁a", "[A] [B][A]  [B]x x[B] a[C]b [C] c [d] [D]  \n[E] [E] x [F]yes[F] no [E]  [B]", "aaaaaaaaaaaaaaaaaaaaaaaa", "zzz ééé ☃☃ q☃q",
    "end.", "\n", "x\ny\nz", "İI ẞ ǅ Σ q\u0307\u0323x\u0301\u0316\u0301", "(a[b]{c})^$.|*+?\\/",
]

# Words that are cut in parts, and parts that are merged with the heap.
LONG = ["".join(rng.choice("ab-") for _ in range(400)), "hello-" * 50 + "☃☃é" * 20, "a" * 300, "ab☃" * 60 + "qqq" + "1é" * 60]


def train(byte_level):
    corpus = TEXTS * 3 + ["".join(rng.choice("ab-, 12.\n") for _ in range(60)) for _ in range(60)]
    corpus += ["hello world the final countdown and lines here we will pay in spaces"] * 8
    tok = Tokenizer(models.BPE())
    alphabet = []
    if byte_level:
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        corpus = [t.replace(" ", "▁") if i % 2 else t for i, t in enumerate(corpus)]
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=620, initial_alphabet=alphabet, limit_alphabet=300, show_progress=False))
    model = json.loads(tok.to_str())["model"]
    vocab = list(model["vocab"])
    if not byte_level:
        vocab = [t for t in vocab if t not in ("☃", "İ", "é")]
        vocab += ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
    else:
        vocab += ["ĠcamelCase", "countdown"]  # no merges lead there
    known = set(vocab)
    merges = [m for m in model["merges"] if m[0] in known and m[1] in known and "".join(m) in known]
    return {t: i for i, t in enumerate(vocab)}, merges


VOCAB = {"bytes": train(True), "chars": train(False)}


def model_json(kind, options):
    vocab, merges = VOCAB[kind]
    # Older files have merges as texts; a space in a token needs the newer form.
    listed = [" ".join(m) for m in merges] if kind == "bytes" else merges
    return json.dumps({"type": "BPE", **options, "vocab": vocab, "merges": listed}, ensure_ascii=False, separators=(",", ":"))


def added(content, **flags):
    return {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
SPACE = {"type": "Metaspace", "replacement": "▁"}
SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
PATTERNS = [
    r"\s+", r"\S", r"\w+", r"\W", r"\d", r"\D+", r"\h", r"\H+", r"\bt", r"\B-", r"\p{L}+", r"\P{L}", r"\p{^L}+", r"[^\p{L}\s]+", r"\p{Han}+", r"\p{Lu}",
    r"^.", r".$", r"(?i:TWO|été)", r"(?m:x.y)", r"x.y", r"\d{2}+", r"\d{1,2}+", r"\d{2}?", r"\d{,2}-", r"a{1,}", r"a{,}", r"[[:alpha:]]+", r"[[:punct:]]", r"[a[bc]]+",
    r"\u00e9|\x61", r"[\u4e00-\u9fff]+", r"a*", r"-*?", r"(?=b)", r"(?<=a)b", r"(?<!a)b", r"a++b", r"(?>a+)b", r"(a|b)-", r"[\S]", r"[^\S\n]+", r"\t|\n|\v|\f",
    r"\R", r"\Aa", r"b\z", r"]", r"[]a]", r"\{|\}|\[", "(?i)hello|É", r"\p{Nd}+|\p{No}|\p{Nl}", r"[\p{M}\p{S}]", r"[[:space:]]",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def variants():
    def v(group, kind, options=None, **parts):
        return group, kind, options or {}, parts
    byte_decoder = {"decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}}
    gpt2 = BYTES | {"use_regex": True}
    yield v("byte_level", "bytes", pre_tokenizer=BYTES, **byte_decoder)
    yield v("byte_level", "bytes", pre_tokenizer=gpt2, **byte_decoder)
    yield v("byte_level", "bytes", pre_tokenizer=gpt2 | {"add_prefix_space": True}, **byte_decoder)
    yield v("byte_level", "bytes", {"ignore_merges": True}, pre_tokenizer=gpt2, **byte_decoder)
    yield v("byte_level", "bytes", pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTES, {"type": "Digits", "individual_digits": False}]}, **byte_decoder)
    yield v("byte_level", "bytes", pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, gpt2]}, **byte_decoder)
    yield v("byte_level", "chars", {"unk_token": "<unk>"}, pre_tokenizer=gpt2, **byte_decoder)
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in [False, True]:
            yield v("behaviors", "chars", pre_tokenizer=SPLIT | {"pattern": {"Regex": r"-|\d|\s"}, "behavior": behavior, "invert": invert})
        yield v("behaviors", "chars", pre_tokenizer=SPLIT | {"pattern": {"String": "-"}, "behavior": behavior})
        yield v("behaviors", "chars", pre_tokenizer={"type": "Punctuation", "behavior": behavior})
    for pattern in PATTERNS:
        yield v("patterns", "chars", pre_tokenizer=SPLIT | {"pattern": {"Regex": pattern}, "behavior": "Isolated"})
    for pattern in [r"\p{L}+", r"[\p{S}\d]", r"\w", r"\W"]:  # with characters that are new in Unicode 15 and 16
        yield v("patterns", "chars", {"byte_fallback": True}, pre_tokenizer=SPLIT | {"pattern": {"Regex": pattern}, "behavior": "Removed"})
    for single in [{"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True},
                   {"type": "Digits", "individual_digits": False}, {"type": "Punctuation"}]:
        yield v("pre_tokenizers", "chars", pre_tokenizer=single)
    yield v("pre_tokenizers", "chars", pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Whitespace"}, {"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, {"type": "Digits", "individual_digits": True}]}]})
    for scheme in ["always", "first", "never"]:
        for split in [True, False]:
            space = SPACE | {"prepend_scheme": scheme, "split": split}
            yield v("metaspace", "chars", pre_tokenizer=space, decoder=space, added_tokens=[added("[A]"), added("[C]", normalized=True)])
    yield v("metaspace", "chars", pre_tokenizer=SPACE, decoder=SPACE)
    yield v("metaspace", "chars", pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, SPACE | {"prepend_scheme": "first", "split": True}]})
    yield v("metaspace", "chars", normalizer={"type": "Prepend", "prepend": "▁"}, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        SPLIT | {"pattern": {"String": "▁"}}, SPACE | {"prepend_scheme": "first", "split": False}]})
    for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase"]:
        yield v("normalizers", "chars", normalizer={"type": name})
        yield v("normalizers", "bytes", normalizer={"type": name}, pre_tokenizer=gpt2, **byte_decoder)
    yield v("normalizers", "chars", normalizer={"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "})
    yield v("normalizers", "chars", normalizer={"type": "Replace", "pattern": {"String": "a"}, "content": ""})
    yield v("normalizers", "chars", normalizer={"type": "Sequence", "normalizers": [
        {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})
    tokens = [added("[A]", special=True), added("[B]", lstrip=True), added("[C]", single_word=True), added("[D]", normalized=True),
              added("[E]", rstrip=True), added("[F]", lstrip=True, rstrip=True, special=True), added("[F]yes"), added("  "), added("lines", single_word=True)]
    yield v("added_tokens", "chars", added_tokens=tokens)
    yield v("added_tokens", "chars", added_tokens=tokens, normalizer={"type": "Lowercase"})
    yield v("added_tokens", "bytes", added_tokens=tokens, pre_tokenizer=gpt2, **byte_decoder)
    yield v("added_tokens", "chars", added_tokens=[added("[A]", normalized=True), added("a", special=True), added("[A]", normalized=True, special=True), added("")],
            normalizer={"type": "Prepend", "prepend": "▁"})
    for options in [{}, {"unk_token": "<unk>"}, {"unk_token": "<unk>", "fuse_unk": True}, {"byte_fallback": True},
                    {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}]:
        yield v("unknown_characters", "chars", options)
        yield v("long_words", "chars", options)
    yield v("long_words", "bytes", pre_tokenizer=BYTES, **byte_decoder)
    yield v("long_words", "bytes", {"ignore_merges": True}, pre_tokenizer=BYTES, **byte_decoder)
    llama = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                               {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}}
    chain = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    fallback = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    yield v("decoders", "chars", fallback, decoder={"type": "Sequence", "decoders": chain}, **llama)
    yield v("decoders", "chars", fallback, decoder=chain[1], **llama)
    yield v("decoders", "chars", fallback, decoder=chain[2], **llama)
    yield v("decoders", "chars", fallback, decoder={"type": "Replace", "pattern": {"Regex": "[a-c▁]+"}, "content": "_"}, **llama)
    yield v("decoders", "chars", fallback, decoder={"type": "Strip", "content": "▁", "start": 2, "stop": 0}, **llama)
    special = {"X": {"id": "X", "ids": [3, 4], "tokens": ["x", "y"]}, "Y": {"id": "Y", "ids": [5], "tokens": ["z"]}}

    def piece(name):
        return {"Sequence": {"id": name, "type_id": 0}} if name in "AB" else {"SpecialToken": {"id": name, "type_id": 0}}
    for single in ["A", "XA", "AY", "XYAYX"]:
        template = {"type": "TemplateProcessing", "single": [piece(p) for p in single], "pair": [piece("A"), piece("B")], "special_tokens": special}
        yield v("post_processors", "chars", post_processor=template)
    yield v("post_processors", "bytes", pre_tokenizer=gpt2, post_processor={"type": "Sequence", "processors": [BYTES, template]}, **byte_decoder)


def cases(tok, group):
    """What is left out is as usual: the decoded text is the text, special tokens change nothing."""
    found = []
    for i, text in enumerate(TEXTS + LONG):
        if (group == "long_words") != (i >= len(TEXTS)):
            continue
        ids = tok.encode(text, add_special_tokens=False).ids
        case = {"text": i, "ids": ids}
        if group not in ("patterns", "behaviors", "pre_tokenizers"):
            decoded, skipped = (tok.decode(ids, skip_special_tokens=skip) for skip in (False, True))
            whole = tok.encode(text, add_special_tokens=True).ids
            case |= ({"decoded": decoded} if decoded != text else {}) | ({"skipped": skipped} if skipped != decoded else {})
            case |= {"special": whole} if whole != ids else {}
        found.append(case)
    return found


def main(out):
    os.makedirs(out, exist_ok=True)
    for kind in VOCAB:
        with open(os.path.join(out, kind + ".json"), "w", encoding="utf-8") as f:
            f.write(model_json(kind, {})[1:] + "\n")
    lines = []
    for group, kind, options, parts in variants():
        head = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))[1:-1]
        # The model's options stand before its vocabulary, which is the file without its opening brace.
        model = json.dumps(options, separators=(",", ":"))[:-1] + ("," if options else "")
        text = "{" + head + ("," if head else "") + '"model":' + model
        tok = Tokenizer.from_str(text + model_json(kind, {})[1:] + "}")
        lines.append(json.dumps({"group": group, "model": kind, "json": text, "cases": cases(tok, group)},
                                ensure_ascii=False, separators=(",", ":")))
    with open(os.path.join(out, "cases.json"), "w", encoding="utf-8") as f:
        f.write('{"texts":' + json.dumps(TEXTS + LONG, ensure_ascii=False) + ',\n"variants":[\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])

#!/usr/bin/env python3
"""Writes the small tokenizers of tests/data/chat/: `bytes`, a byte-level BPE with ChatML's special tokens, and
`pieces`, a BPE with byte fallback, a space before every text and a begin-of-text token, as Llama 2 has.

Each folder also has what transformers makes of a conversation, token by token: expected.json.
"""
import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "chat"
TEXT = ["You are a helpful assistant. The user asks and the assistant answers.\n\n",
        "What is the capital of France? The capital of France is Paris.\n",
        "How many legs has a spider? A spider has eight legs, and an ant has six.\n",
        "Hello there! How are you today? I am well, thank you. Yes. No. Because the system said so.\n\n"] * 8
CONVERSATION = [{"role": "user", "content": "What is the capital of France?"},
                {"role": "assistant", "content": "The capital of France is Paris."},
                {"role": "user", "content": "Hello  there\n\nHow many?"},
                {"role": "assistant", "content": "\n\nNone — no, 8."}]


def byte_level():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    special = [AddedToken(t, special=True, normalized=False) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(TEXT, trainer)
    return tok, {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}, "chatml-default"


def pieces():
    tok = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    words = sorted({w for line in TEXT for w in spaces.normalize_str(line.replace("\n", " ")).replace("▁", " ▁").split()})
    vocab = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    vocab += sorted({c for w in words for c in w})
    trained = Tokenizer(models.BPE())
    trained.train_from_iterator([words] * 4, trainers.BpeTrainer(vocab_size=200, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    for a, b in merges:
        if a + b not in vocab:
            vocab.append(a + b)
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(vocab)}, merges=merges, byte_fallback=True,
                               unk_token="<unk>", fuse_unk=True))
    tok.normalizer = spaces
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    return tok, {"bos_token": "<s>", "eos_token": "</s>"}, "llama2"


def write(name, tok, special, template):
    folder = DATA / name
    folder.mkdir(exist_ok=True)
    whole = json.loads(tok.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    source = (DATA / "templates" / f"{template}.jinja").read_text()
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **special, "chat_template": source}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    hub = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)
    hub.chat_template = source
    text = hub.apply_chat_template(CONVERSATION, tokenize=False)
    encoding = tok.encode(text, add_special_tokens=False)
    ends = {"bytes": "<|im_end|>", "pieces": " </s>"}[name]
    spans, at = [], 0
    for message in CONVERSATION:
        content = message["content"] if name == "bytes" else message["content"].strip()
        at = text.index(content, at)
        if message["role"] == "assistant":
            spans.append((at, at + len(content) + len(ends)))
        at += len(content)
    counts = [int(any(a < e and b > s for s, e in spans)) for a, b in encoding.offsets]
    expected = {"messages": CONVERSATION, "text": text, "ids": encoding.ids, "counts": counts,
                "tokens": [text[a:b] for a, b in encoding.offsets]}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(name, tok.get_vocab_size(), "".join(f"[{t!r}{'*' if c else ''}]" for t, c in zip(expected["tokens"], counts)))


write("bytes", *byte_level())
write("pieces", *pieces())

#!/usr/bin/env python3
"""check_gguf.py ZINC fixtures DATA WORK        GGUF files of the parity fixtures
   check_gguf.py ZINC tokenizers TEXT WORK      tokenizers of every kind that can be exported
   check_gguf.py ZINC model FOLDER TEXT WORK    a real model

What `zinc export --gguf` writes, as others read it. The `gguf` package lists the tensors by its own map of names, with the bytes
that its own quantize gives for the folder's values in llama.cpp's layout, and the metadata that config.json asks for.
transformers' logits from the f32 file are those from the folder within 1e-4. Where its loader knows the pre-tokenizer, its
tokenizer from the file gives the folder's ids.
"""
import json
import os
import shutil
import subprocess
import sys

os.environ["TQDM_DISABLE"] = "1"
import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from make_tokenizers import LLAMA3, LLAMA4, QWEN, byte_characters

BOUND = 1e-4
TYPES = {"f32": Type.F32, "f16": Type.F16, "bf16": Type.BF16, "q8_0": Type.Q8_0}
FILE_TYPES = {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7}
ARCHITECTURES = {"gpt2": gguf.MODEL_ARCH.GPT2, "llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA,
                 "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3}
TEKKEN = LLAMA4.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")


def fail(what):
    sys.exit(f"FAIL {what}")


# A child's peak begins with that of the process that starts it: this one is small.
STARTER = """import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(child.pid, 0)
print(used.ru_maxrss)
sys.exit(1 if status else 0)"""


def export(folder, kind, out, *more):
    """Returns the peak resident memory in bytes."""
    words = [zinc, "export", "--model", folder, "--gguf", kind, "--output", out, "--overwrite", *more]
    done = subprocess.run([sys.executable, "-S", "-c", STARTER, *words], capture_output=True, text=True)
    if done.returncode:
        fail(f"{' '.join(words)}: {done.stderr}")
    return int(done.stdout.splitlines()[-1]) * 1024


# ---- Tensors ----

def permuted(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def expected_tensors(folder, config):
    kind = config["model_type"]
    arch = ARCHITECTURES[kind]
    names = gguf.get_tensor_name_map(arch, config.get("num_hidden_layers") or config["n_layer"])
    tied = config.get("tie_word_embeddings", kind == "gpt2")
    tensors = {}
    for name, value in load_file(f"{folder}/model.safetensors").items():
        if tied and name == "lm_head.weight" or name.endswith((".attn.bias", ".attn.masked_bias")):
            continue
        w = value.to(torch.float32).numpy()
        if kind == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            w = w.T
        if arch == gguf.MODEL_ARCH.LLAMA and ".q_proj." in name:
            w = permuted(w, config["num_attention_heads"])
        if arch == gguf.MODEL_ARCH.LLAMA and ".k_proj." in name:
            w = permuted(w, config["num_key_value_heads"])
        renamed = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if renamed is None or renamed in tensors:
            fail(f"{folder}: {name} has no name of its own in the gguf package")
        tensors[renamed] = np.ascontiguousarray(w)
    return tensors


def type_of(name, w, kind):
    if w.ndim == 1 or name == "position_embd.weight":
        return Type.F32
    return Type.F16 if kind == "q8_0" and w.shape[-1] % 32 else TYPES[kind]


def check_tensors(path, kind, wanted, scaled):
    reader = gguf.GGUFReader(path)
    found = {t.name: t for t in reader.tensors}
    extra = {"rope_freqs.weight"} if scaled else set()
    if set(found) != set(wanted) | extra:
        fail(f"{path}: tensors {sorted(set(found) ^ (set(wanted) | extra))}")
    for name, w in wanted.items():
        t, qtype = found[name], type_of(name, w, kind)
        if t.tensor_type != qtype or tuple(reversed(t.shape.tolist())) != w.shape:
            fail(f"{path}: {name} is {t.tensor_type.name} {t.shape}, not {qtype.name} {w.shape}")
        if np.ascontiguousarray(t.data).tobytes() != gguf.quantize(w, qtype).tobytes():
            fail(f"{path}: {name}: other bytes than gguf.quantize's in {qtype.name}")
        if t.data_offset % 32:
            fail(f"{path}: {name} is not aligned")
    return reader


# ---- Metadata ----

def value(reader, key):
    field = reader.get_field(key)
    return None if field is None else field.contents()


def expected_metadata(folder, config, kind):
    vocab = config["vocab_size"]
    if config["model_type"] == "gpt2":
        own = {"gpt2.context_length": config["n_positions"], "gpt2.embedding_length": config["n_embd"],
               "gpt2.block_count": config["n_layer"], "gpt2.feed_forward_length": config.get("n_inner") or 4 * config["n_embd"],
               "gpt2.attention.head_count": config["n_head"], "gpt2.attention.head_count_kv": config["n_head"],
               "gpt2.attention.layer_norm_epsilon": config["layer_norm_epsilon"], "gpt2.vocab_size": vocab}
    else:
        a = gguf.MODEL_ARCH_NAMES[ARCHITECTURES[config["model_type"]]]
        rope = config.get("rope_parameters") or config
        scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
        linear = scaling.get("rope_type", scaling.get("type")) == "linear"
        head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        slides = config["model_type"] == "mistral" or config.get("use_sliding_window")
        own = {f"{a}.context_length": config["max_position_embeddings"], f"{a}.embedding_length": config["hidden_size"],
               f"{a}.block_count": config["num_hidden_layers"], f"{a}.feed_forward_length": config["intermediate_size"],
               f"{a}.attention.head_count": config["num_attention_heads"],
               f"{a}.attention.head_count_kv": config["num_key_value_heads"],
               f"{a}.attention.key_length": head, f"{a}.attention.value_length": head, f"{a}.rope.dimension_count": head,
               f"{a}.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], f"{a}.rope.freq_base": rope["rope_theta"],
               f"{a}.attention.sliding_window": config["sliding_window"] if slides else None, f"{a}.vocab_size": vocab,
               f"{a}.rope.scaling.type": "linear" if linear else None,
               f"{a}.rope.scaling.factor": scaling["factor"] if linear else None}
    return own | {"general.architecture": next(iter(own)).split(".")[0], "general.type": "model",
                  "general.name": os.path.basename(folder), "general.file_type": FILE_TYPES[kind],
                  "general.quantization_version": gguf.GGML_QUANT_VERSION}


def check_metadata(path, reader, wanted):
    for key, want in wanted.items():
        got = value(reader, key)
        if got != want and not (isinstance(want, float) and got == np.float32(want)):
            fail(f"{path}: {key} is {got}, not {want}")


# ---- Logits ----

def logits(folder, ids, **more):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **more).eval()
    with torch.no_grad():
        return model(ids).logits


def check_logits(folder, path, ids, what, **more):
    far = (logits(folder, ids) - logits(os.path.dirname(path), ids, gguf_file=os.path.basename(path), **more)).abs().max().item()
    print(f"{os.path.basename(folder)}: {what}: logits differ by {far:.1e}")
    if not far <= BOUND:
        fail(f"{path}: logits differ by {far}")


# ---- Fixtures ----

def tiny_tokenizer(folder):
    """98 tokens: ASCII, a merge and the end of text. The other ids of the 101 are unused."""
    vocab = {byte_characters()[b]: i for i, b in enumerate(range(32, 127))} | {"th": 95, "the": 96}
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[("t", "h"), ("th", "e")]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    tok.save(f"{folder}/tokenizer.json")
    json.dump({"eos_token": "<|end|>", "chat_template": "{{ messages[0].content }}"},
              open(f"{folder}/tokenizer_config.json", "w"))


def check_rope(path, reader, config):
    """Llama 3's scaling divides the plain frequencies by the tensor's factors."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    rope = config.rope_parameters
    head = config.head_dim
    plain = 1 / rope["rope_theta"] ** (torch.arange(0, head, 2, dtype=torch.float64) / head)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    factors = next(t for t in reader.tensors if t.name == "rope_freqs.weight").data
    far = np.abs(plain.numpy() / factors / scaled.numpy() - 1).max()
    if not far < 1e-6:
        fail(f"{path}: rope_freqs.weight gives other frequencies, relative {far}")


def check_fixture(data, work, name):
    folder = f"{work}/small-{name}"
    shutil.copytree(f"{data}/{name}", folder)
    tiny_tokenizer(folder)
    config = json.load(open(f"{folder}/config.json"))
    scaled = config.get("rope_parameters", {}).get("rope_type") == "llama3"
    wanted = expected_tensors(folder, config)
    for kind in TYPES:
        path = f"{work}/{name}-{kind}.gguf"
        export(folder, kind, path)
        reader = check_tensors(path, kind, wanted, scaled)
        check_metadata(path, reader, expected_metadata(folder, config, kind) |
                       {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.eos_token_id": 97,
                        "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.merges": ["t h", "th e"],
                        "tokenizer.chat_template": "{{ messages[0].content }}"})
        if value(reader, "tokenizer.ggml.tokens")[96:] != ["the", "<|end|>", "[PAD98]", "[PAD99]", "[PAD100]"]:
            fail(f"{path}: tokens {value(reader, 'tokenizer.ggml.tokens')}")
        if value(reader, "tokenizer.ggml.token_type") != [1] * 97 + [3, 5, 5, 5]:
            fail(f"{path}: types of tokens")
    path = f"{work}/{name}-f32.gguf"
    theirs = AutoConfig.from_pretrained(folder)
    if scaled:
        check_rope(path, gguf.GGUFReader(path), theirs)
    ids = torch.arange(3, 35)[None] * 5 % 96
    if config["model_type"] != "mistral":  # the loader knows no file of that class, which is a llama's
        check_logits(folder, path, ids, "f32 with the folder's config", config=theirs)
    # What the loader makes of the metadata alone: it has no windows, no scaling and no head_dim of Qwen3.
    if name in ("llama2", "qwen2", "mistral"):
        check_logits(folder, path, ids[:, :8], "f32 with the file's own metadata")


# ---- Tokenizers ----

def byte_level(text, pattern, size=600, **options):
    tok = Tokenizer(models.BPE(**options))
    if pattern:
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(text.splitlines(), trainer)
    tok.add_tokens([AddedToken("<think>", normalized=False, special=False)])
    return tok


def smollm(text):
    tok = byte_level(text, None)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tok


def sentencepiece(text):
    """A vocabulary of BPE with all merges that its tokens have, in the order of the tokens: as SentencePiece's files are
    converted."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tok.train_from_iterator(text.splitlines(), trainers.BpeTrainer(vocab_size=600, show_progress=False, limit_alphabet=120))
    pieces = sorted(tok.get_vocab(), key=tok.get_vocab().get)
    special = ["<unk>", "<s>", "</s>"]
    vocab = {t: i for i, t in enumerate(special + [f"<0x{b:02X}>" for b in range(256)])}
    vocab |= {t: len(vocab) + i for i, t in enumerate(pieces)}
    merges = [(p[:i], p[i:]) for p in pieces for i in range(1, len(p)) if p[:i] in vocab and p[i:] in vocab]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tok


SAMPLES = ["Hello world", "the quick brown fox's jump", "  two  spaces and\na line\n\n", "Grüße, naïve café — 你好 🦉!",
           "it's I'LL we've", "a<|end|>b", "x <think> y", "12345 and 6.78", "\ttabs\r\nand more   ", "foo_bar(baz) == {}[];"]


def random_model(folder, n_tokens):
    config = LlamaConfig(vocab_size=n_tokens, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                         max_position_embeddings=64, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(1)
    LlamaForCausalLM(config).save_pretrained(folder)


def check_ids(path, tok, samples):
    loaded = AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
    for text in samples:
        want = tok.encode(text, add_special_tokens=False).ids
        got = loaded(text, add_special_tokens=False)["input_ids"]
        if want != got:
            fail(f"{path}: {text!r} gives {got}, not {want}")


def check_tokenizers(text_file, work):
    text = open(text_file, encoding="utf-8").read()
    no_digits = [s for s in SAMPLES if not any(c.isdigit() for c in s)]
    # Name, tokenizer, name in the file, and the samples that the loader can: it has no Digits, and a prefix of its own.
    kinds = [("gpt-2", byte_level(text, None), SAMPLES), ("qwen2", byte_level(text, QWEN), SAMPLES),
             ("llama-bpe", byte_level(text, LLAMA3, ignore_merges=True), SAMPLES), ("dbrx", byte_level(text, LLAMA3), SAMPLES),
             ("tekken", byte_level(text, TEKKEN, ignore_merges=True), SAMPLES), ("gpt-4o", byte_level(text, LLAMA4), SAMPLES),
             ("smollm", smollm(text), no_digits),
             ("default", sentencepiece(text), ["Hello world", "the owl's  hoot 12,5", "Grüße — 你好 🦉!", "one\ntwo"])]
    for name, tok, samples in kinds:
        folder, path = f"{work}/tok-{name}", f"{work}/tok-{name}.gguf"
        random_model(folder, tok.get_vocab_size() + 3)
        tok.save(f"{folder}/tokenizer.json")
        spm = name == "default"
        json.dump({"bos_token": "<s>", "eos_token": "</s>"} if spm else {"eos_token": "<|end|>"},
                  open(f"{folder}/tokenizer_config.json", "w"))
        export(folder, "f16", path)
        reader = gguf.GGUFReader(path)
        check_metadata(path, reader, {"tokenizer.ggml.pre": name, "tokenizer.ggml.model": "llama" if spm else "gpt2",
                                      "tokenizer.ggml.add_bos_token": spm, "tokenizer.ggml.add_eos_token": False,
                                      "tokenizer.ggml.add_space_prefix": True if spm else None,
                                      "tokenizer.ggml.bos_token_id": 1 if spm else None,
                                      "tokenizer.ggml.unknown_token_id": 0 if spm else None})
        tokens = value(reader, "tokenizer.ggml.tokens")
        if [tok.id_to_token(i) for i in range(tok.get_vocab_size())] != tokens[:-3]:
            fail(f"{path}: tokens are not the folder's")
        if not spm and [tuple(m.split(" ")) for m in value(reader, "tokenizer.ggml.merges")] != [
                tuple(m) for m in json.loads(tok.to_str())["model"]["merges"]]:
            fail(f"{path}: merges are not the folder's")
        check_ids(path, tok, samples)
        print(f"{name}: {len(tokens)} tokens, {len(samples)} texts with the same ids")


# ---- A real model ----

def check_model(folder, text_file, work):
    config = json.load(open(f"{folder}/config.json"))
    wanted = expected_tensors(folder, config)
    for kind in TYPES:
        path = f"{work}/model-{kind}.gguf"
        peak = export(folder, kind, path)
        reader = check_tensors(path, kind, wanted, False)
        check_metadata(path, reader, expected_metadata(folder, config, kind))
        size = os.path.getsize(f"{folder}/model.safetensors")
        print(f"{os.path.basename(folder)} in {kind}: {len(wanted)} tensors, {os.path.getsize(path) >> 20} MiB written from "
              f"{size >> 20} MiB with {peak >> 20} MiB of memory")
        if peak > size / 3:
            fail(f"{path}: {peak} bytes of memory for a model of {size}")
        if kind != "f32":
            os.remove(path)
    path = f"{work}/model-f32.gguf"
    tok = Tokenizer.from_file(f"{folder}/tokenizer.json")
    text = open(text_file, encoding="utf-8").read()[:2000]
    ids = torch.tensor([tok.encode(text, add_special_tokens=False).ids[:96]])
    check_logits(folder, path, ids, "f32 with the file's own metadata")
    check_ids(path, tok, [line for line in text.splitlines() if not any(c.isdigit() for c in line)])
    template = json.load(open(f"{folder}/tokenizer_config.json")).get("chat_template")
    check_metadata(path, gguf.GGUFReader(path), {"tokenizer.chat_template": template, "tokenizer.ggml.pre": "smollm"})


if __name__ == "__main__":
    zinc, what, *rest = sys.argv[1:]
    if what == "fixtures":
        for fixture in sorted(os.listdir(rest[0])):
            if os.path.isdir(f"{rest[0]}/{fixture}") and fixture != "gpt2-gelu":  # which llama.cpp does not have
                check_fixture(rest[0], rest[1], fixture)
    elif what == "tokenizers":
        check_tokenizers(*rest)
    else:
        check_model(*rest)

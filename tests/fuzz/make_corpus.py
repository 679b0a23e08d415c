#!/usr/bin/env python3
"""Writes the seeds of the fuzzers: small files, good and nearly good, in corpus/<fuzzer>/."""
import json
import pathlib
import struct

CORPUS = pathlib.Path(__file__).parent / "corpus"


def write(fuzzer, name, data):
    folder = CORPUS / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def safetensors(entries, n_data, pad=0):
    header = json.dumps(entries, separators=(",", ":")).encode() + b" " * pad
    return struct.pack("<Q", len(header)) + header + bytes(i % 251 for i in range(n_data))


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    good = {"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 3], 0, 24), "b": entry("BF16", [4], 24, 32)}
    whole = safetensors(good, 32, pad=3)
    seeds = {
        "good": whole,
        "cut_header": whole[:40],
        "cut_data": whole[:-1],
        "empty": safetensors({}, 0),
        "scalar": safetensors({"s": entry("F16", [], 0, 2)}, 2),
        "no_elements": safetensors({"z": entry("F32", [0, 5], 0, 0)}, 0),
        "types": safetensors({"i": entry("I64", [1], 0, 8), "m": entry("BOOL", [2], 8, 10), "q": entry("F4", [4], 10, 12)}, 12),
        "overlap": safetensors({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, 12),
        "hole": safetensors({"a": entry("F32", [2], 4, 12)}, 12),
        "large_shape": safetensors({"a": entry("F32", [2**62, 4], 0, 0)}, 0),
        "long_length": struct.pack("<Q", 2**64 - 1) + b"{}",
    }
    for name, data in seeds.items():
        write("fuzz_safetensors", name, data)


def make_json():
    seeds = {
        "config": '{"model_type":"llama","hidden_size":64,"rope_theta":10000.0,"rope_scaling":{"factor":8.0,'
                  '"rope_type":"llama3"},"eos_token_id":[1,2],"tie_word_embeddings":true,"sliding_window":null}',
        "index": '{"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors"}}',
        "long_numbers": '{"model_max_length":1000000000000000019884624838656,"x":[-9223372036854775809,1e5],"y":tru}',
        "numbers": '[0,-1,1e5,1.5,-0.0,9223372036854775807,1e308]',
        "escapes": '{"\\u00e9\\n":"\\ud83d\\ude00 \\" \\\\ /"}',
        "nested": '[[[[{"a":[{"b":[]}]}]]]]',
        "twice": '{"a":1,"a":2}',
        "cut": '{"a":[1,2',
    }
    for name, text in seeds.items():
        write("fuzz_json", name, text.encode())


def make_tokens():
    # The fuzzer puts in the zeros of the header.
    for name, how, magic, version, count, body in [
        ("narrow", 0x32, 20240520, 1, 3, struct.pack("<3H", 1, 2, 256)),
        ("wide", 0x33, 20240801, 7, 2, struct.pack("<2I", 1, 65535)),
        ("wrong_count", 0x30, 20240520, 1, 9, b"\1\0"),
    ]:
        head = bytes([how]) + struct.pack("<3I", magic, version, count)
        write("fuzz_tokens", name, head + body)
    write("fuzz_tokens", "text", bytes([0x0E]) + b"two words and \xff")
    write("fuzz_tokens", "short", bytes([0x30]) + b"\x48\xd7\x34\x01")


def make_jsonl():
    seeds = {
        "text": b'{"text":"a \\u00e9"}\n\n{"text":"b","id":1}\n',
        "completion": b'{"prompt":"2+2=","completion":"4"}',
        "messages": b'{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}]}\r\n',
        "two_kinds": b'{"text":"x","messages":[]}\n',
        "types": b'{"text":5}\n',
        "tools": b'{"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}\n',
        "bytes": b'\xef\xbb\xbf{"text":"\xff\xe2\x82\xed\xa0\x80"}\n',
        "cut": b'{"text":"x',
        "alpaca": b'{"instruction":"a","input":NaN,"output":"b","system":"c"}\n{"instruction":"a","output":"b","history":[]}\n',
        "sharegpt": b'{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}],"system":"c"}\n',
        "parts": b'{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}],"weight":0}]}\n',
        "python": b'{"text":"a\\u0000\\ud83d\\ude00\\udc00","x":[NaN,-Infinity,Infinity,1e999,-123456789012345678901234567890]}\n',
        "pair": b'{"prompt":"a","chosen":"b","rejected":"c"}\n',
        "array": b'\xef\xbb\xbf[\n {"text":"a ]}\\""},\n {"dialog":[{"role":"user","content":"b"}]}\n]\n',
        "array_cut": b'[{"text":"a"},{"text":[',
        "array_wrong": b'[{"text":"a"}\n{"text":"b"}] x',
        "mapped": b'{"prompt":"a","answer":"b","text":null}\n\n',
    }
    for name, data in seeds.items():
        write("fuzz_jsonl", name, data)


def make_chat():
    chat = CORPUS.parent.parent / "data" / "chat"
    for path in sorted(chat.glob("templates/*.jinja")) + [chat / "generation" / "chatml-think.jinja"]:
        for name, contents in [("", [b"Be brief.", b"Is it 4?", b" Yes. "]), ("-users", [b"", b"a", b"b", b"<|im_end|>", b"d"])]:
            write("fuzz_chat", ("generation-" if path.parent.name == "generation" else "") + path.stem + name, b"\0".join([path.read_bytes()] + contents))


def make_tokenizer():
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u2581": 3, "<0xC3>": 4, "\u0120": 5, "<unk>": 6}, "merges": ["a b"]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
    text = "ab b \u00e9a [A] b\n 12 \U0001f600".encode() + b"\xff"
    seeds = {
        "bytes": {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}, "decoder": {"type": "ByteLevel"}},
        "pattern": {"pre_tokenizer": split | {"pattern": {"Regex": "(?i:'s)|[^\\s\\p{L}]?\\p{L}+|\\d{1,3}+|\\s+(?!\\S)|[[:alpha:]a-c]|\\u00e9"}}},
        "literal": {"pre_tokenizer": split | {"pattern": {"String": "b"}, "behavior": "MergedWithNext", "invert": True}},
        "space": {"pre_tokenizer": space, "decoder": space},
        "parts": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": False}, {"type": "Whitespace"},
                                                                           {"type": "Punctuation", "behavior": "Contiguous"}]}},
        "normal": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "\u2581"},
                                                                       {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}},
        "added": {"added_tokens": [{"id": 7, "content": "[A]", **flags, "lstrip": True, "rstrip": True}, {"id": 8, "content": "b", **flags, "single_word": True, "normalized": True}]},
        "decoders": {"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                                  {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]}},
        "template": {"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                        "pair": [], "special_tokens": {"s": {"id": "s", "ids": [6], "tokens": ["s"]}}}},
    }
    for name, parts in seeds.items():
        options = {"byte_fallback": name < "n", "fuse_unk": name > "d", "unk_token": "<unk>", "ignore_merges": name < "c"}
        data = json.dumps(parts | {"model": options | model}, ensure_ascii=False, separators=(",", ":")).encode()
        write("fuzz_tokenizer", name, data + b"\0" + text)


def make_cluster():
    shipped = pathlib.Path(__file__).parents[2] / "data" / "clusters"
    for name in ("dgx2-v100", "desktop-24gb", "cpu-server"):
        write("fuzz_cluster", name, json.dumps(json.loads((shipped / f"{name}.json").read_text()), separators=(",", ":")).encode())
def make_report():
    run = {"format": 1, "model": "hub/a<b", "architecture": "llama", "parameters": 7, "steps": 3, "data": ["x", 1], "memory_limit": 4096,
           "offload": {"parameters": "nvme"}, "delayed_update": -1, "lr": 2e-5,
           "bytes": {kind: {"device": 1, "host": 2, "nvme": 3} for kind in ("parameters", "gradients", "optimizer", "activations", "buffers")}}
    step = {"step": 1, "loss": 5.5, "grad_norm": 0.5, "lr": 1e-3, "tokens": 64, "seconds": 0.5, "tokens_per_second": 128, "eval_loss": 5.25,
            "memory": {"device": 9, "host": 8, "nvme": 7, "resident": 6}, "states": {"parameters": 1, "buffers": 2}, "comm_bytes": 5}
    skipped = {"step": 2, "loss": None, "skipped": True, "reason": "gradient of <a> is not finite"}
    lines = [json.dumps(line, separators=(",", ":")) for line in (run, step, skipped, step | {"step": 3, "loss": 0.01})]
    whole = "\n".join(lines).encode() + b"\n"
    write("fuzz_report", "whole", whole)
    write("fuzz_report", "cut", whole[:-60])
    write("fuzz_report", "no_run", b"\n" + lines[1].encode() + b"\n")
    write("fuzz_report", "strange", b'{}\n{"step":1,"loss":NaN,"lr":-inf}\n{"step":2,"loss":1e99}\n\0\n<b>\n')
def make_settings_yaml():
    seeds = {
        "flat": "stage: 3\nlr: 1e-3\nmemory-limit: 4GiB\nfreeze: ['*.bias', \"a: b\"]\nno-shuffle: true\nresume: true\n",
        "section": "%YAML 1.2\n---\nzinc:\n  micro-batch: 2  # windows\n  loss-scale: 512\n  delayed-update: 40\n  recompute: on\n...\n",
        "json": '{"zinc": {"stage": 2, "offload-optimizer": "nvme", "data": ["a"], "schedule": "vertical", "keep-logits": "off"}}',
        "blocks": "output: >-\n  one\n  line\nmap:\n  - messages=dialog\nlog: |\n  x\n",
        "refused": "a: &x 1\nb: *x\n? [c]\n: !!str {d: [e]}\n--- \n",
        "wrong": "steps: -1\nstages: 3\nbeta1: 1.5\nprecision: fp8\ndevice: cuda\nhost-cache: ~\n",
    }
    for name, text in seeds.items():
        write("fuzz_settings_yaml", name, text.encode())


def make_checkpoint():
    digest = "0123456789abcdef"
    tensors = [{"name": "__header__", "bytes": 10, "hash": digest}, {"name": "x", "bytes": 10, "hash": digest}]
    files = [{"name": "a.safetensors", "bytes": 20, "blocks": [digest], "tensors": tensors},
             {"name": "b.json", "bytes": 1 << 24, "blocks": [digest]}, {"name": "c", "bytes": 0, "blocks": []}]
    listed = {"format": 1, "hash": "xxh3-64", "block_bytes": 1 << 24, "files": files}
    state = {"format": 1, "step": 4, "updates": 3, "skipped_in_a_row": 1,
             "data": {"windows": 137, "consumed": 8, "seq_len": 16, "seed": 1, "shuffle": True, "sample": digest},
             "loss_scale": {"scale": 65536, "step": 4, "last_overflow": -1, "patience": 2}, "optimizer": "adamw",
             "precision": "bf16", "dtype": "bf16", "masters": "optimizer", "states": ["master", "exp_avg", "exp_avg_sq"],
             "configuration": {}}
    seeds = {
        "list": json.dumps(listed)[:-1],  # the fuzzer ends it with the hash of itself
        "list_twice": json.dumps(listed | {"files": files[:1] * 2})[:-1],
        "list_out": json.dumps(listed | {"files": [files[0] | {"name": "../a"}]})[:-1],
        "list_later": json.dumps(listed | {"format": 2})[:-1],
        "state": json.dumps(state),
        "state_fp32": json.dumps(state | {"dtype": "fp32", "masters": "model", "states": []}),
        "state_later": json.dumps(state | {"format": 2}),
    }
    for name, data in seeds.items():
        write("fuzz_checkpoint", name, data.encode())


def make_settings_deepspeed():
    for path in (pathlib.Path(__file__).parent.parent / "data" / "deepspeed").glob("*.json"):
        write("fuzz_settings_deepspeed", path.name, path.read_bytes())


make_safetensors()
make_json()
make_tokens()
make_jsonl()
make_chat()
make_tokenizer()
make_cluster()
make_report()
make_settings_yaml()
make_settings_deepspeed()
make_checkpoint()

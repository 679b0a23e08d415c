#!/usr/bin/env python3
"""Regenerates tests/data/parity: small hub folders with what PyTorch says their training gives.

    make_fixtures.py [NAME…]           all fixtures, or the named ones; needs torch, transformers, safetensors, numpy

Each folder holds config.json, model.safetensors (random weights, large enough that a fault in rotary embeddings,
masks or activations is far above the bound) and expected.json: the flags of `zinc train`, losses and gradient norms
of every step in float32 and float64, the loss of the untrained folder, and under "sharpness", for each feature, how
far the float64 losses and norms move when it is switched off. A feature that moves them by less than its floor fails
the run: such a fixture would not notice the fault. Where the feature can be switched off in config.json, "sed" says how, so
that the test can show the same with Zinc.
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import save_file

import reference

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "parity")
BOUNDS = {"loss": 2e-5, "grad_norm": 1e-4, "eval": 2e-5}
# A feature is sharp when, switched off, losses leave their bound by LOSS_FLOOR times, and losses or norms by so many.
LOSS_FLOOR, MODEL_FLOOR, OPTIMIZER_FLOOR = 5, 50, 10
TOKEN_LIMIT = 96                               # every vocabulary holds at least the ids of the shared token file
N_TOKENS = 2200                                # 68 windows of 32: step 18 of the 20 begins the second epoch

COMMON = {"hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "hidden_act": "silu", "initializer_range": 0.4, "max_position_embeddings": 128,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "vocab_size": 101}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 2, "n_head": 4,
        "n_positions": 40, "n_ctx": 40, "initializer_range": 0.3, "layer_norm_epsilon": 1e-5, "vocab_size": 101,
        "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "bos_token_id": 100, "eos_token_id": 100}
# Normalisation keeps a GPT-2 with random weights so close to linear that its kinds of gelu cannot be told apart; louder
# norms before attention and head, and a louder MLP, make them differ by far more than the bound.
GPT2_GAINS = {"ln_1.weight": 2, "ln_f.weight": 4, "mlp.c_proj.weight": 3}
FLAGS = {"steps": 20, "accumulate": 2, "micro-batch": 2, "seq-len": 32, "lr": 1e-3, "weight-decay": 0.1}
COSINE = {"lr-schedule": "cosine", "warmup": 5, "min-lr": 1e-4}
LINEAR = {"lr-schedule": "linear", "warmup": 3, "min-lr": 0.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}


# Faults made on the model itself; each takes the loaded model.

def zero_bias(ending):
    def fault(model):
        hit = [p for name, p in model.named_parameters() if name.endswith(ending)]
        assert hit, ending
        for p in hit:
            p.data.zero_()
            p.requires_grad_(False)
    return fault


def untie(model):
    assert model.lm_head.weight is model.get_input_embeddings().weight
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())


def tie(model):
    assert model.lm_head.weight is not model.get_input_embeddings().weight
    model.lm_head.weight = model.get_input_embeddings().weight


def no_qk_norm(which):
    def fault(model):
        for layer in model.model.layers:
            setattr(layer.self_attn, which, torch.nn.Identity())
    return fault


def strided_groups(model):
    """Query head h reads key head h mod K in place of h / (H/K)."""
    c = model.config
    heads, keys = c.num_attention_heads, c.num_key_value_heads
    order = torch.arange(heads).reshape(heads // keys, keys).t().reshape(-1)

    def rows(t):
        return t.reshape(heads, -1, *t.shape[1:])[order].reshape(t.shape)
    for layer in model.model.layers:
        a = layer.self_attn
        a.q_proj.weight.data = rows(a.q_proj.weight.data)
        a.o_proj.weight.data = rows(a.o_proj.weight.data.t()).t().contiguous()
        if a.q_proj.bias is not None:
            a.q_proj.bias.data = rows(a.q_proj.bias.data)


def biases(*names):
    return {f"bias of {n}": zero_bias(f"{n}.bias") for n in names}


def llama(name, **keys):
    kind = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[name]
    return {"model_type": name, "architectures": [f"{kind}ForCausalLM"], **COMMON, **keys}


# name: configuration; "flags" of training; "off": keys of config.json that switch a feature off; "faults": on the
# model. "storage" is the dtype of the file, "bare" drops GPT-2's `transformer.` and adds the mask buffers of old files.
GROUPS = {"grouped queries": strided_groups}
FIXTURES = {
    "gpt2": {
        "config": {**GPT2, "activation_function": "gelu_new"}, "storage": "float32", "bare": True,
        "gains": GPT2_GAINS, "flags": {**COSINE, "lr": 3e-3},
        "off": {"gelu_new": {"activation_function": "gelu"}, "epsilon": {"layer_norm_epsilon": 1e-2}},
        "faults": {"tying": untie, **biases("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj", "ln_1", "ln_f")}},
    "gpt2-gelu": {
        "config": {**GPT2, "activation_function": "gelu", "tie_word_embeddings": False, "n_inner": 72},
        "gains": GPT2_GAINS, "flags": {"lr": 3e-3},
        "off": {"gelu": {"activation_function": "gelu_new"}},
        "faults": {"untied head": tie, **biases("attn.c_attn", "mlp.c_fc")}},
    "llama2": {
        "config": llama("llama", num_key_value_heads=4, rope_theta=1000.0, rope_scaling=None, rms_norm_eps=0.05),
        "flags": LINEAR,
        "off": {"rope_theta": {"rope_theta": 10000.0}, "epsilon": {"rms_norm_eps": 1e-5}},
        "faults": {"untied head": tie}},
    "llama-linear": {
        "config": llama("llama", rope_theta=1000.0, rope_scaling={"type": "linear", "factor": 4.0}),
        "off": {"rope scaling": {"rope_scaling": None}}, "faults": GROUPS},
    "llama3": {
        "config": llama("llama", head_dim=16, hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                        max_position_embeddings=256, tie_word_embeddings=True,
                        rope_parameters={"rope_theta": 10000.0, **LLAMA3}),
        "flags": COSINE,
        "off": {"rope scaling": {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
                "unscaled band": {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 8.0}},
                "low frequency factor": {"rope_parameters": {"rope_theta": 10000.0, **LLAMA3, "low_freq_factor": 2.0}},
                "high frequency factor": {"rope_parameters": {"rope_theta": 10000.0, **LLAMA3,
                                                              "high_freq_factor": 8.0}}},
        "faults": {"tying": untie}},
    "llama-bias": {
        "config": llama("llama", attention_bias=True, mlp_bias=True, head_dim=12,
                        rope_parameters={"rope_theta": 500.0, "rope_type": "default"}),
        "faults": {**GROUPS, **biases(*(f"{p}_proj" for p in ("q", "k", "v", "o", "gate", "up", "down")))}},
    "mistral": {
        "config": llama("mistral", head_dim=8, sliding_window=8, rope_theta=1000.0),
        "off": {"window": {"sliding_window": None}, "window by one": {"sliding_window": 9}}, "faults": GROUPS},
    "qwen2": {
        "config": llama("qwen2", tie_word_embeddings=True, use_sliding_window=False, sliding_window=8,
                        max_window_layers=0, rope_theta=1000.0),
        "flags": LINEAR,
        "off": {"unused window": {"use_sliding_window": True}},
        "faults": {"tying": untie, **GROUPS, **biases("q_proj", "k_proj", "v_proj")}},
    "qwen2-window": {
        "config": llama("qwen2", use_sliding_window=True, sliding_window=6, max_window_layers=1,
                        layer_types=["sliding_attention", "full_attention"],
                        rope_parameters={"rope_theta": 1000.0, "rope_type": "default"}),
        "off": {"window": {"use_sliding_window": False, "layer_types": ["full_attention"] * 2},
                "layer types": {"layer_types": ["full_attention", "sliding_attention"]}}},
    "qwen3": {
        "config": llama("qwen3", head_dim=16, attention_bias=False, use_sliding_window=False, sliding_window=None,
                        max_window_layers=2, rope_parameters={"rope_theta": 1000.0, "rope_type": "default"}),
        "off": {"rope_theta": {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}},
        "faults": {"norm of q": no_qk_norm("q_norm"), "norm of k": no_qk_norm("k_norm"), "untied head": tie, **GROUPS}},
    "qwen3-window": {
        "config": llama("qwen3", head_dim=12, attention_bias=False, use_sliding_window=True, sliding_window=6,
                        max_window_layers=1, tie_word_embeddings=True, rope_theta=1000.0),
        "off": {"window": {"use_sliding_window": False}, "first window layer": {"max_window_layers": 0}},
        "faults": {"norm of q": no_qk_norm("q_norm"), "norm of k": no_qk_norm("k_norm"), "tying": untie}},
    # For mixed precision: loud norms make more of bf16's rounding than two correct programs could agree on.
    "gpt2-calm": {
        "config": {**GPT2, "activation_function": "gelu_new"}, "storage": "float32", "flags": {"clip": 1.0},
        "faults": {"tying": untie, **biases("attn.c_attn", "mlp.c_fc")}},
}


def write_config(folder, config):
    """One key a line, so that sed can change one."""
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write("{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in config.items()) + "\n}\n")


def write_model(folder, fixture, seed):
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():                      # biases and norms away from their neutral start
        for name, p in model.named_parameters():
            if p.dim() < 2:
                p.add_(0.2 * torch.randn_like(p))
            for ending, gain in fixture.get("gains", {}).items():
                if name.endswith(ending):
                    p.mul_(gain)
    dtype = getattr(torch, fixture.get("storage", "bfloat16"))
    tensors = {n: p.detach().to(dtype).contiguous() for n, p in model.named_parameters()}
    if fixture.get("bare"):
        tensors = {n.removeprefix("transformer."): t for n, t in tensors.items()}
        n = config.n_positions
        for layer in range(config.n_layer):
            tensors[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(1, 1, n, n)).to(dtype)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def sed_script(changes):
    return ";".join(f's|"{key}": .*[^,]|"{key}": {json.dumps(value)}|' for key, value in changes.items())


def run(folder, flags, tok, dtype, fault=None, **more):
    """The rows of one training run; `flags` as in FLAGS."""
    argv = ["train", folder, "-", "--dtype", dtype]
    for key, value in flags.items():
        argv += [f"--{key}", str(value)]
    model = reference.load(folder, getattr(torch, dtype))
    if fault:
        fault(model)
    return list(reference.train(reference.parser().parse_args(argv), model, tok, **more))


def distance(rows, truth):
    """The largest relative differences of loss and norm over the steps."""
    return {key: max(abs(r[key] - t[key]) / t[key] for r, t in zip(rows, truth)) for key in ("loss", "grad_norm")}


def times_bound(far):
    return max(far[key] / BOUNDS[key] for key in ("loss", "grad_norm"))


def sharpness(folder, fixture, flags, tok, truth):
    """For every feature: how far the run goes when it is off, and how to switch it off in config.json if that can be."""
    found, floor = {}, {}

    def measure(name, at_least, where=folder, changes=(), **more):
        found[name] = distance(run(where, {**flags, **dict(changes)}, tok, "float64", **more), truth)
        floor[name] = at_least

    for name, changes in fixture.get("off", {}).items():
        assert all(key in fixture["config"] for key in changes), name
        with tempfile.TemporaryDirectory() as tmp:
            shutil.copy(os.path.join(folder, "model.safetensors"), tmp)
            write_config(tmp, {**fixture["config"], **changes})
            measure(name, MODEL_FLOOR, where=tmp)
            found[name]["sed"] = sed_script(changes)
    for name, fault in fixture.get("faults", {}).items():
        measure(name, MODEL_FLOOR, fault=fault)
    for name, changes in {"clip": {"clip": 0}, "weight-decay": {"weight-decay": 0}, "accumulate": {"accumulate": 1},
                          "lr-schedule": {"lr-schedule": "constant"}, "warmup": {"warmup": 0},
                          "min-lr": {"min-lr": 0}}.items():
        if name in flags and flags[name] != changes[name]:
            measure(name, OPTIMIZER_FLOOR, changes=changes)
    measure("no decay of vectors", OPTIMIZER_FLOOR, decay_vectors=True)
    weak = [n for n, far in found.items()
            if far["loss"] < LOSS_FLOOR * BOUNDS["loss"] or times_bound(far) < floor[n]]
    return found, weak


def make(name, seed, tok):
    fixture, folder = FIXTURES[name], os.path.join(DATA, name)
    os.makedirs(folder, exist_ok=True)
    write_config(folder, {**fixture["config"], "torch_dtype": fixture.get("storage", "bfloat16")})
    write_model(folder, fixture, seed)

    flags = {**FLAGS, **fixture.get("flags", {})}
    first = run(folder, {**flags, "steps": 1}, tok, "float64")[0]["grad_norm"]
    flags.setdefault("clip", float(f"{first / 2:.3g}"))
    rows = {dtype: run(folder, flags, tok, dtype) for dtype in ("float32", "float64")}
    evals = {dtype: reference.evaluate(reference.load(folder, getattr(torch, dtype)), tok, flags["seq-len"],
                                       getattr(torch, dtype))[0] for dtype in ("float32", "float64")}
    found, weak = sharpness(folder, fixture, flags, tok, rows["float64"])
    argv = [w for key, value in flags.items() for w in (f"--{key}", str(value))]
    write_expected(folder, {"train": argv + ["--no-shuffle", "--precision", "fp32"],
                            "bounds": BOUNDS, "eval": evals, "sharpness": found, "reference": rows})

    own = times_bound(distance(rows["float32"], rows["float64"]))
    least = min(found, key=lambda n: times_bound(found[n]))
    size = sum(e.stat().st_size for e in os.scandir(folder))
    print(f"{name}: {size // 1024} KiB, loss {rows['float64'][0]['loss']:.3f} to {rows['float64'][-1]['loss']:.3f}, "
          f"torch's fp32 at {own:.2g} of the bound, least sharp: {least}, {times_bound(found[least]):.0f} times the bound",
          flush=True)
    return [f"{name}, {w}: loss by {found[w]['loss']:.1e}, norm by {found[w]['grad_norm']:.1e}" for w in weak]


def write_expected(folder, expected, name="expected.json"):
    """One entry a line: a change of numbers shows as such."""
    def block(items, end):
        return "{\n    " + ",\n    ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in items) + "\n  }" + end
    rows = expected.pop("reference")
    lists = [f"    {json.dumps(d)}: [\n" + ",\n".join(f"      {json.dumps(r)}" for r in v) + "\n    ]"
             for d, v in rows.items()]
    with open(os.path.join(folder, name), "w") as f:
        f.write("{\n")
        for key, value in expected.items():
            text = block(value.items(), "") if key == "sharpness" else json.dumps(value)
            f.write(f"  {json.dumps(key)}: {text},\n")
        f.write('  "reference": {\n' + ",\n".join(lists) + "\n  }\n}\n")


def be_quiet():
    """No words of transformers, and one thread: sums do not depend on the machine."""
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)


def main():
    be_quiet()
    names = sys.argv[1:] or list(FIXTURES)
    os.makedirs(DATA, exist_ok=True)
    path = os.path.join(DATA, "tokens.bin")
    reference.write_tokens(path, np.random.RandomState(7).randint(0, TOKEN_LIMIT, N_TOKENS), TOKEN_LIMIT)
    tok = reference.tokens(path)
    weak = [w for name in names for w in make(name, 1 + list(FIXTURES).index(name), tok)]
    if weak:
        sys.exit("not sharp enough:\n  " + "\n  ".join(weak))


if __name__ == "__main__":
    main()

"""Random configurations. A base holds all that decides bits; a variation holds what must change none. Both are functions
of the seed and their numbers alone."""
import random
import re

import models

PER_BASE = 6  # configurations that share a reference
MIB = 1 << 20


def pick(rng, weighted):
    """One of {value: weight}."""
    return rng.choices(list(weighted), list(weighted.values()))[0]


def freeze_patterns(model):
    if "gpt2" in model:
        return ("*wte*", "*.bias", "*h.0.*", "*ln_*", "*mlp*")
    return ("*embed_tokens*", "*norm*", "*layers.0.*", "*mlp*", "*q_proj*")


def draw_base(seed, number, flags, steps=None):
    """What the reference is known by, as a dictionary. `flags`: those that the program has."""
    rng = random.Random("%s/base/%s" % (seed, number))
    is_odd = rng.random() < 0.55
    model = rng.choice(sorted(models.ODD)) if is_odd else rng.choice(models.GIVEN)
    base = {
        "model": model,
        "data": pick(rng, {"text": 2, "chat": 3, "prompts": 2, "mixed": 2}) if is_odd else "tokens",
        "ranks": pick(rng, {1: 30, 2: 35, 3: 22, 4: 13}),
        "micro": pick(rng, {1: 5, 2: 3, 3: 1}),
        "accumulate": pick(rng, {1: 5, 2: 4, 3: 2}),
        "seq_len": rng.choice((8, 13, 16, 24, 31, 48, 64)),
        "precision": pick(rng, {"fp32": 4, "bf16": 4, "fp16": 2}),
        "seed": rng.randint(1, 99),
        "optimizer": pick(rng, {"adamw": 6, "adam": 2, "sgd": 2, "sgd-momentum": 2, "lion": 1, "adagrad": 1,
                                "adamw8bit": 2, "adamw-bf16": 1, "muon": 2}),
        "clip": pick(rng, {"1.0": 4, "0.05": 2, "0": 3}),
        "steps": steps or rng.randint(3, 5),
        "lr_schedule": pick(rng, {"constant": 3, "linear": 1, "cosine": 2}),
        "warmup": rng.choice((0, 0, 1, 2)),
        "decay": rng.choice(("0", "0.1")),
        "delayed": rng.choice((0, 1, 2)) if rng.random() < 0.15 else None,
        "freeze": rng.choice(freeze_patterns(model)) if rng.random() < 0.25 else None,
        "shuffle": rng.random() < 0.85,
        "window": rng.choice((2, 3, 1000)),
        "packing": None,
        "reduce": None,
    }
    if base["optimizer"] == "muon":  # refuses it
        base["delayed"] = None
    if base["accumulate"] > 1:
        base["reduce"] = rng.choice(("every", "last"))
    if base["data"] in ("chat", "prompts", "mixed"):
        base["seq_len"] = rng.choice((48, 64, 96))
        if "--packing" in flags:
            base["packing"] = rng.choice(("best-fit", "none", "stream"))
    return base


def base_words(base, source, folder, flags):
    """The flags that both a reference and its configurations have."""
    words = ["--model", models.model_path(source, folder, base["model"]),
             "--data", models.data_path(source, folder, base["data"]),
             "--micro-batch", base["micro"], "--accumulate", base["accumulate"], "--seq-len", base["seq_len"],
             "--precision", base["precision"], "--seed", base["seed"], "--clip", base["clip"], "--steps", base["steps"],
             "--lr", "3e-3", "--lr-schedule", base["lr_schedule"], "--warmup", base["warmup"],
             "--weight-decay", base["decay"], "--optimizer", base["optimizer"].removesuffix("-momentum")]
    if base["model"] in models.ODD:
        words.append("--from-scratch")
    if base["optimizer"] == "sgd-momentum":
        words += ["--momentum", "0.9"]
    if base["precision"] == "fp16":
        words += ["--loss-scale-init", "1024", "--loss-scale-window", base["window"]]
    if base["delayed"] is not None:
        words.append("--delayed-update=%d" % base["delayed"])
    if base["freeze"]:
        words += ["--freeze", base["freeze"]]
    if not base["shuffle"]:
        words.append("--no-shuffle")
    if base["packing"]:
        words += ["--packing", base["packing"]]
    if base["packing"] in ("best-fit", "none") and "--truncate-rows" in flags:
        words.append("--truncate-rows")
    if base["ranks"] > 1:
        words += ["-n", base["ranks"]]
    return words


def reference_words(base):
    words = ["--stage", 0, "--threads", 1, "--recompute", "off", "--keep-logits", "on", "--tile-limit", 0,
             "--offload-optimizer", "none", "--offload-gradients", "none", "--offload-activations", "none"]
    return words + (["--reduce", base["reduce"]] if base["reduce"] else [])


def draw_places(rng, base, words):
    """Stage, schedule and tiers, as the rules of src/plan/fit.c allow them together."""
    last = base["reduce"] == "last"
    schedule = pick(rng, {"horizontal": 5, "vertical": 3 if base["reduce"] != "every" else 0, "auto": 2})
    stage = rng.choice((0, 1) if last and schedule == "horizontal" else (0, 1, 2, 3, 3))
    in_backward = (base["clip"] == "0" and base["precision"] != "fp16" and base["delayed"] is None and base["optimizer"] != "muon" and
                   rng.random() < 0.5)
    if in_backward and base["ranks"] > 1:
        stage = max(stage, 1)
    if schedule == "auto" and last and stage >= 2:
        schedule = "vertical"
    recompute = pick(rng, {"on": 4, "off": 0 if schedule == "vertical" else 3, None: 2})
    tiers = {"none": 3, "cpu": 2, "nvme": 4}
    words += ["--stage", stage, "--schedule", schedule]
    if recompute:
        words += ["--recompute", recompute]
    if base["reduce"] and not (schedule == "vertical" and rng.random() < 0.5):
        words += ["--reduce", base["reduce"]]
    if in_backward:
        words.append("--optimizer-in-backward")
    places = {"optimizer": pick(rng, tiers), "param": pick(rng, tiers) if stage == 3 else "none",
              "activations": "none" if recompute == "off" else pick(rng, tiers)}
    can_swap = (stage >= 2 or base["ranks"] == 1) and not (last and schedule != "vertical")
    if rng.random() < 0.6:
        places["gradients"] = pick(rng, tiers if can_swap else {"none": 1, "cpu": 1})
    for state, tier in sorted(places.items()):
        if tier != "none" or rng.random() < 0.7:
            words += ["--offload-" + state, tier]
    return "nvme" in places.values()


def draw_sizes(rng, words):
    if rng.random() < 0.5:
        words += ["--tile-limit", rng.choice((0, 777, 2048, 5000, 16384, 65536))]
    if rng.random() < 0.5:
        words += ["--prefetch-bytes", rng.choice((0, 1000, 8192, 100000, 1 << 26))]
    if rng.random() < 0.5:
        words += ["--persist-below", rng.choice((0, 300, 4096, 1 << 20))]
    if rng.random() < 0.4:
        words += ["--host-cache", rng.choice((0, 1000, 20000, 1 << 24))]
    if rng.random() < 0.5:
        words += ["--keep-logits", rng.choice(("on", "off"))]


def limit_words(base, limit):
    """A run whose settings the planner chooses."""
    words = ["--memory-limit", limit, "--threads", 2]
    return words + (["--reduce", base["reduce"]] if base["reduce"] else [])


def draw_variation(rng, base, paths, least):
    """Words that change no bits. `paths`: folders for swap; `least`: the least limit that the run fits into."""
    words = []
    if least and rng.random() < 0.2:
        # A resumed run, or one that evaluates, needs a little more.
        words += limit_words(base, least + rng.choice((0, 100000, MIB // 2, MIB, 4 * MIB)))
    else:
        draw_places(rng, base, words)
        draw_sizes(rng, words)
        words += ["--threads", rng.choice((1, 1, 2, 3))]
    return words + ["--nvme-path"] + rng.sample(paths, rng.choice((1, 1, len(paths)))) + ["--allow-buffered-swap"]


def draw_saving(rng, words):
    if rng.random() < 0.4:
        words += ["--checkpoint-every", rng.randint(1, 3), "--keep", rng.choice((1, 2, 9))]
        if rng.random() < 0.5:
            words.append("--checkpoint-async")


def flags_of(text):
    """The flags that a help text names."""
    return set(re.findall(r"(?:^|\s)(--?[a-z][a-z0-9-]*)", text))

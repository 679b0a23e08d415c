"""Training runs: what they are drawn from, their command lines, and what they leave."""
import glob
import hashlib
import itertools
import os
import random

import checks
import configurations
import covering
import jobs
import models

STEPS = 3
TIERS = ("none", "cpu", "nvme")
FACTORS = {
    "stage": (0, 1, 2, 3),
    "ranks": (1, 2, 3, 4),
    "optimizer": TIERS,
    "param": TIERS,
    "gradients": TIERS,
    "activations": TIERS,
    "schedule": ("horizontal", "vertical"),
    "precision": ("fp32", "bf16", "fp16"),
    "accumulate": ("1", "2 every", "2 last", "3 every", "3 last"),
    "update": ("at the end", "delayed", "in backward"),
    "recompute": ("on", "off"),
    "input": ("gpt2 tokens", "llama3 tokens", "qwen3 tokens", "odd-gpt2 text", "odd-qwen3 best-fit", "odd-llama none",
              "odd-wide stream"),
    "tiles": (0, 2048, 5000),
    "freeze": ("nothing", "one", "many"),
    "prefetch": (0, 8192, 1 << 26),
    "persist": (0, 4096),
    "cache": (0, 20000),
    "logits": ("on", "off"),
    "rule": ("adamw", "sgd-momentum"),
    "goes on": ("no", "yes"),
    "evaluates": ("no", "yes"),
}
CORE = ("stage", "ranks", "schedule", "optimizer", "gradients")
FULL = ("stage", "ranks", "optimizer", "param", "gradients", "activations", "schedule", "precision")
LEDGER = ("memory", "states", "comm_bytes", "nvme_read_bytes", "nvme_write_bytes", "eval_loss")


# The rules of src/plan/fit.c: what does not go together.
RULES = (
    (("param", "stage"), lambda tier, stage: tier != "none" and stage != 3),
    (("gradients", "stage", "ranks"), lambda tier, stage, ranks: tier == "nvme" and stage < 2 and ranks > 1),
    (("recompute", "activations"), lambda recompute, tier: recompute == "off" and tier != "none"),
    (("recompute", "schedule"), lambda recompute, schedule: recompute == "off" and schedule == "vertical"),
    (("schedule", "accumulate"), lambda schedule, reduce: schedule == "vertical" and reduce.endswith("every")),
    (("schedule", "accumulate", "stage"),
     lambda schedule, reduce, stage: schedule == "horizontal" and reduce.endswith("last") and stage >= 2),
    (("schedule", "accumulate", "gradients"),
     lambda schedule, reduce, tier: schedule == "horizontal" and reduce.endswith("last") and tier == "nvme"),
    (("update", "precision"), lambda update, precision: update == "in backward" and precision == "fp16"),
    (("update", "stage", "ranks"), lambda update, stage, ranks: update == "in backward" and stage == 0 and ranks > 1),
)


def all_rows():
    """The product of what places states; the other factors are drawn."""
    for number, values in enumerate(itertools.product(*(FACTORS[factor] for factor in FULL))):
        row = covering.complete(random.Random(number), FACTORS, RULES, dict(zip(FULL, values)))
        if row:
            yield row


def rows(is_full):
    return list(all_rows()) if is_full else covering.covering_list(FACTORS, CORE, RULES)


def input_words(row, source, folder):
    model, data = row["input"].split()
    patterns = configurations.freeze_patterns(model)
    words = ["--model", models.model_path(source, folder, model), "--seed", 7, "--steps", STEPS]
    if data in ("tokens", "text"):
        files = data
        words += ["--seq-len", 24]
    else:
        files = "mixed"
        words += ["--seq-len", 64, "--packing", data] + ([] if data == "stream" else ["--truncate-rows"])
    words += ["--data", models.data_path(source, folder, files)]
    if model in models.ODD:
        words.append("--from-scratch")
    if row["freeze"] != "nothing":
        words += ["--freeze"] + list(patterns[:1] if row["freeze"] == "one" else patterns[1:3])
    if row["evaluates"] == "yes":
        words += ["--eval-data", models.data_path(source, folder, files), "--eval-every", 2]
    return words


def update_words(row):
    words = ["--lr", "3e-3", "--lr-schedule", "cosine", "--weight-decay", "0.1", "--optimizer", row["rule"].split("-")[0],
             "--clip", "0" if row["update"] == "in backward" else "1.0"]
    if row["rule"] == "sgd-momentum":
        words += ["--momentum", "0.9"]
    if row["precision"] == "fp16":
        words += ["--loss-scale-init", 1024, "--loss-scale-window", 2]
    if row["update"] == "delayed":
        words.append("--delayed-update=1")
    if row["update"] == "in backward":
        words.append("--optimizer-in-backward")
    return words


def place_words(row):
    """Every choice is given: what a plan would choose depends on the memory that the machine has left."""
    accumulate, _, reduce = row["accumulate"].partition(" ")
    words = ["--stage", row["stage"], "--schedule", row["schedule"], "--precision", row["precision"],
             "--accumulate", accumulate, "--recompute", row["recompute"], "--keep-logits", row["logits"],
             "--tile-limit", row["tiles"], "--prefetch-bytes", row["prefetch"], "--persist-below", row["persist"],
             "--host-cache", row["cache"], "--memory-limit", "1GiB", "--threads", 2 if row["ranks"] == 1 else 1]
    for state in ("optimizer", "param", "gradients", "activations"):
        words += ["--offload-" + state, row[state]]
    words += ["--reduce", reduce] if reduce else []
    return words + (["-n", row["ranks"]] if row["ranks"] > 1 else [])


RUN = ["--output", "run", "--nvme-path", ".", "--allow-buffered-swap", "--save", "all", "--keep", 9]


def commands(row, zinc, source, work, results):
    """The command lines of a configuration. Those before have their results."""
    words = [zinc, "train"] + input_words(row, source, work) + update_words(row) + place_words(row) + RUN
    yield words + ["--checkpoint-every", 2]
    if row["goes on"] == "yes" and results[-1].code == 0:
        at = words.index("--steps") + 1
        yield words[:at] + [STEPS + 2] + words[at + 1:] + ["--resume"]


def file_lines(folder):
    """Hashes of weights and of the optimizer's states, in the output folder and in every checkpoint."""
    for path in sorted(glob.glob(os.path.join(folder, "**/*.safetensors"), recursive=True)):
        with open(path, "rb") as file:
            yield "file %s: %s" % (os.path.relpath(path, folder), hashlib.sha256(file.read()).hexdigest())


def log_lines(folder):
    for step, entry in sorted(checks.log_of(folder, checks.DECIDED + LEDGER).items()):
        (entry["memory"] or {}).pop("resident", None)
        for key, value in entry.items():
            yield "step %d, %s: %s" % (step, key, value)


def request_lines(folder, number):
    """By rank and by thread, as threads interleave by time. Those beside the first are known by what they ask for."""
    for path in sorted(glob.glob(os.path.join(folder, "requests-%d.*" % number))):
        threads = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                thread, _, request = line.rstrip("\n").partition(" ")
                threads.setdefault(thread, []).append(request)
        main = threads.pop("0", [])
        for name, requests in [("first", main)] + [("another", other) for other in sorted(threads.values())]:
            for at, request in enumerate(requests):
                yield "%s, %s thread, request %d: %s" % (os.path.basename(path), name, at, request)


def record(commands_of_row, results, folder):
    """Runs commands in a folder, one after the other, and adds their results: what they left, in lines."""
    lines = []
    for number, words in enumerate(commands_of_row):
        result = jobs.run(words, folder, {"ZINC_REQUEST_LOG": os.path.join(folder, "requests-%d" % number)},
                          name="command-%d" % number)
        results.append(result)
        lines += ["command %d, exit code: %d%s" % (number, result.code, " (hangs)" if result.hung else "")]
        lines += ["command %d, says: %s" % (number, line) for line in checks.cause_of(result).splitlines()]
        lines += request_lines(folder, number)
    output = os.path.join(folder, "run")
    return list(log_lines(output)) + list(file_lines(output)) + lines


def run(row, zinc, source, work, folder):
    """Runs a configuration in a folder: its results, one for each command, and what it left, in lines."""
    results = []
    return results, record(commands(row, zinc, source, work, results), results, folder)

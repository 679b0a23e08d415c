"""Plans and simulated steps of clusters that are described: everything but the machine's own speed decides them."""
import json
import os

import covering
import jobs
from training import TIERS

# Nodes and ranks that a cluster is asked for.
RANKS = {"dgx2-v100": (2, 32), "dgx-a100": (1, 4), "dgx-h100": (2, 16), "desktop-24gb": (1, 1), "cpu-server": (2, 3)}
FACTORS = {
    "cluster": tuple(RANKS),
    "stage": (0, 1, 2, 3),
    "optimizer": TIERS,
    "param": TIERS,
    "activations": TIERS,
    "schedule": ("horizontal", "vertical"),
    "precision": ("fp32", "bf16", "fp16"),
    "accumulate": (1, 3),
    "update": ("at the end", "delayed", "in backward"),
    "recompute": ("on", "off"),
    "tiles": (0, 1 << 16),
    "prefetch": (0, 1 << 20),
    "cache": (0, 1 << 18),
}
CORE = ("cluster", "stage", "optimizer", "schedule")
SHAPE = ["--layers", 3, "--hidden", 128, "--heads", 4, "--vocab", 1000, "--seq-len", 64, "--micro-batch", 2]

# Plans that choose for themselves, and the searches.
CHOSEN = (
    ["--params", "1.5B", "--cluster", "dgx2-v100", "--ranks", 16, "--simulate"],
    ["--params", "100B", "--cluster", "dgx2-v100", "--nodes", 4, "--simulate"],
    ["--params", "8B", "--cluster", "desktop-24gb", "--simulate"],
    ["--params", "13B", "--cluster", "dgx-a100", "--nodes", 1, "--accumulate", 4, "--schedule", "auto", "--simulate"],
    ["--params", "7B", "--cluster", "dgx-h100", "--nodes", 2, "--simulate"],
    ["--params", "1.5B", "--cluster", "cpu-server", "--nodes", 2, "--simulate"],
    ["--params", "350M", "--cluster", "desktop-24gb", "--memory-limit", "2GiB", "--simulate"],
    ["--params", "1.5B", "--cluster", "desktop-24gb", "--fit=fit.json"],
    ["--params", "1.5B", "--cluster", "cpu-server", "--ranks", 2, "--fit=fit.json"],
    ["--largest", "--cluster", "desktop-24gb"],
    ["--largest", "--cluster", "dgx2-v100", "--ranks", 16],
)


# The rules of src/plan/search.c: what does not go together.
RULES = (
    (("cluster", "precision"), lambda cluster, precision: cluster == "dgx2-v100" and precision == "bf16"),
    (("param", "stage"), lambda tier, stage: tier != "none" and stage != 3),
    (("cluster", "param", "optimizer"),
     lambda cluster, param, optimizer: cluster != "cpu-server" and param != "none" and optimizer == "none"),
    (("cluster", "stage", "optimizer"), lambda cluster, stage, optimizer: stage < 2 and RANKS[cluster][1] > 1 and (
        optimizer == "nvme" or (optimizer == "cpu" and cluster != "cpu-server"))),
    (("recompute", "activations"), lambda recompute, tier: recompute == "off" and tier != "none"),
    (("recompute", "schedule"), lambda recompute, schedule: recompute == "off" and schedule == "vertical"),
    (("update", "precision"), lambda update, precision: update == "in backward" and precision == "fp16"),
    (("cluster", "stage", "update"),
     lambda cluster, stage, update: update == "in backward" and stage == 0 and RANKS[cluster][1] > 1),
)


def rows(is_full):
    """Rows of factors first, then the words of plans that choose."""
    core = tuple(FACTORS) if is_full else CORE
    return covering.covering_list(FACTORS, core, RULES) + [{"words": words} for words in CHOSEN]


def words_of(row):
    if "words" in row:
        return row["words"]
    nodes, ranks = RANKS[row["cluster"]]
    words = SHAPE + ["--cluster", row["cluster"], "--nodes", nodes, "--ranks", ranks, "--stage", row["stage"],
                     "--schedule", row["schedule"], "--precision", row["precision"], "--accumulate", row["accumulate"],
                     "--recompute", row["recompute"], "--tile-limit", row["tiles"], "--prefetch-bytes", row["prefetch"],
                     "--host-cache", row["cache"], "--simulate", "--trace", "trace.json"]
    for state in ("optimizer", "param", "activations"):
        words += ["--offload-" + state, row[state]]
    if row["update"] == "delayed":
        words.append("--delayed-update=1")
    if row["update"] == "in backward":
        words.append("--optimizer-in-backward")
    return words


def flat_lines(value, path=""):
    """A JSON value, a line for each of its leaves, with numbers as they are written."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from flat_lines(below, path + "." + key if path else key)
    elif isinstance(value, list):
        for at, below in enumerate(value):
            yield from flat_lines(below, "%s[%d]" % (path, at))
    else:
        yield "%s: %s" % (path, value)


def json_lines(text):
    try:
        return list(flat_lines(json.loads(text, parse_float=str)))
    except ValueError:
        return text.splitlines()


def run(row, zinc, _source, _work, folder):
    """Plans a configuration in a folder: its results, and the plan and its time line in lines."""
    result = jobs.run([zinc, "plan", "--json"] + words_of(row), folder, name="command-0")
    lines = ["exit code: %d" % result.code] + ["says: " + line for line in result.err.splitlines()] + json_lines(result.out)
    for name in ("fit.json", "trace.json"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines += ["%s: %s" % (name, line.rstrip("\n")) for line in file]
    return [result], lines

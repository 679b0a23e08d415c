"""Training runs under a memory limit, whose settings the plan chooses: each first asks for the least limit."""
import checks
import covering
import training

FACTORS = {
    "ranks": (1, 2, 3),
    "above the least": (0, 300000, 1 << 20),
    "precision": training.FACTORS["precision"],
    "accumulate": ("1", "2 every", "2 last"),
    "schedule": ("horizontal", "auto"),
    "input": ("odd-wide text", "odd-qwen3 best-fit", "llama3 tokens"),
}
FIXED = {"freeze": "nothing", "evaluates": "no", "update": "at the end", "rule": "adamw"}


def rows(is_full):
    return covering.covering_list(FACTORS, tuple(FACTORS) if is_full else (), ())


def commands(row, zinc, source, work, results):
    settings = dict(row, **FIXED)
    accumulate, _, reduce = row["accumulate"].partition(" ")
    words = [zinc, "train"] + training.input_words(settings, source, work) + training.update_words(settings)
    words += ["--precision", row["precision"], "--schedule", row["schedule"], "--accumulate", accumulate, "--micro-batch", 2,
              "--threads", 1] + (["--reduce", reduce] if reduce else []) + training.RUN
    words += ["-n", row["ranks"]] if row["ranks"] > 1 else []
    yield words + ["--memory-limit", "1MiB"]
    least = checks.least_limit(results[-1])
    if least:
        yield words + ["--memory-limit", least + row["above the least"]]


def run(row, zinc, source, work, folder):
    """As training.run."""
    results = []
    return results, training.record(commands(row, zinc, source, work, results), results, folder)

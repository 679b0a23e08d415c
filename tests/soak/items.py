"""The kinds of work of a soak run. Each item is a function of the seed and its index."""
import glob
import math
import os
import random
import shutil
import signal
import threading
import time

import checks
import configurations
import jobs

SIGNALS = {"job": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT, "hup": signal.SIGHUP}
ERRORS = {"EIO": 5, "ENOMEM": 12, "ENOSPC": 28, "EMFILE": 24}


class Refused(Exception):
    """A combination that the program refuses by name."""


class Item:
    """One of them: its folder, the commands it ran, what it found."""

    def __init__(self, soak, index, kind):
        self.soak, self.index, self.kind = soak, index, kind
        self.rng = random.Random("%s/%s/%s" % (soak.seed, index, kind))
        self.folder = os.path.join(soak.work, "item-%d" % index)
        self.commands, self.findings, self.counts, self.refusal = [], [], {}, None
        os.makedirs(self.folder)
        self.paths = [os.path.join(self.folder, "swap"), os.path.join(soak.disk, "swap-%d" % index)]
        for path in self.paths:
            os.makedirs(path, exist_ok=True)

    def find(self, *texts):
        self.findings += texts

    def count(self, what, n=1):
        self.counts[what] = self.counts.get(what, 0) + n

    def start(self, words, environment=None):
        name = "%02d" % len(self.commands)
        words = [self.soak.zinc, "train"] + words + ["--output", os.path.join(self.folder, "run")]
        job = jobs.Job(words, self.folder, environment, name)
        self.commands.append(jobs.Result(job.words, job.environment, 0, "", "", False).command())
        return job

    def note(self, text):
        """Goes beside the commands."""
        self.commands.append("# " + text)

    def run(self, words, environment=None):
        return self.start(words, environment).wait()

    def run_folder(self):
        return os.path.join(self.folder, "run")

    def close(self):
        """Removes all but the folders of findings."""
        shutil.rmtree(self.paths[1], ignore_errors=True)
        if self.findings:
            kept = os.path.join(self.soak.kept, str(self.index))
            shutil.rmtree(kept, ignore_errors=True)
            shutil.move(self.folder, kept)
            with open(os.path.join(kept, "commands"), "w", encoding="utf-8") as file:
                file.write(self.soak.as_kept(self.index, "\n".join(self.commands) + "\n"))
            with open(os.path.join(kept, "findings"), "w", encoding="utf-8") as file:
                file.write("\n".join(self.findings) + "\n")
        shutil.rmtree(self.folder, ignore_errors=True)


class References:
    """Plain runs by what decides their bits; each is made once."""

    def __init__(self, soak):
        self.soak, self.guard, self.known = soak, threading.Lock(), {}

    def of(self, base, item):
        """(log, weights, the least memory that a rank can be limited to)."""
        key = repr(sorted(base.items(), key=str))
        with self.guard:
            lock, made = self.known.setdefault(key, (threading.Lock(), {}))
        with lock:
            if "result" not in made:
                made["result"] = self.make(base, item)
        if isinstance(made["result"], str):
            raise Refused(made["result"])
        return made["result"]

    def make(self, base, item):
        folder = os.path.join(self.soak.work, "reference-%d" % item.index)
        os.makedirs(folder)
        words = configurations.base_words(base, self.soak.source, self.soak.folder, self.soak.flags)
        out = os.path.join(folder, "run")
        result = jobs.run([self.soak.zinc, "train"] + words + configurations.reference_words(base) + ["--output", out], folder)
        item.note("the reference: " + result.command())
        made = result.err
        if result.code == 0 and not result.hung:
            probe = jobs.run([self.soak.zinc, "train"] + words + configurations.limit_words(base, 1) +
                             ["--output", os.path.join(folder, "probe")], folder, name="probe")
            made = (checks.log_of(out), checks.weights_of(out), checks.least_limit(probe))
        elif not checks.is_refused(result):
            item.find("the reference fails: code %d: %s" % (result.code, result.err[-400:]))
        shutil.rmtree(folder)
        return made


def drawn(item, steps=None, per_base=configurations.PER_BASE):
    """Base, its words and its reference."""
    soak = item.soak
    number = "%s%d" % ("long" if steps else "", item.index // per_base)
    base = configurations.draw_base(soak.seed, number, soak.flags, steps)
    words = configurations.base_words(base, soak.source, soak.folder, soak.flags)
    return base, words, soak.references.of(base, item)


def vary(item, base, reference):
    return configurations.draw_variation(item.rng, base, item.paths, reference[2])


def compare_configuration(item):
    """One configuration against its reference, to the bit."""
    base, words, reference = drawn(item)
    words = words + vary(item, base, reference)
    configurations.draw_saving(item.rng, words)
    if item.rng.random() < 0.15:
        words += ["--eval-data", item.soak.data("tokens" if base["data"] == "tokens" else base["data"]), "--eval-every", 2]
    environment = {"ZINC_ISA": item.rng.choice(item.soak.isas)} if item.rng.random() < 0.15 else {}
    result = item.run(words, environment)
    item.count("configurations")
    if result.code == 0 and not result.hung:
        item.find(*checks.differences(item.run_folder(), reference))
    elif checks.is_refused(result):
        raise Refused(result.err)
    else:
        item.find("hangs" if result.hung else "fails: code %d: %s" % (result.code, result.err[-400:]))
    problems, _ = checks.verify(item.soak.zinc, item.run_folder(), item.folder)
    item.find(*problems)


# ---- Kills ----

def wait_for_step(job, folder, step, seconds):
    """Until the log has the step, the job is over, or the time is."""
    end = time.monotonic() + seconds
    path, wanted = os.path.join(folder, "metrics.jsonl"), ('{"step":%d,' % step).encode()
    while job.process.poll() is None and time.monotonic() < end:
        try:
            with open(path, "rb") as file:
                if wanted in file.read():
                    return
        except OSError:
            pass
        time.sleep(0.002)


def deliver(item, job, how):
    ranks = job.ranks()
    if how == "rank":
        job.send(item.rng.choice(ranks), signal.SIGKILL)
    elif how == "ranks":
        for pid in ranks:
            job.send(pid, signal.SIGKILL)
    else:
        job.send(job.process.pid, SIGNALS[how])


def kill_once(item, words, base):
    """A run that is killed at a point. True: it came to its end before."""
    rng, folder = item.rng, item.run_folder()
    how = configurations.pick(rng, {"rank": 4, "ranks": 2, "job": 2, "term": 3, "int": 2, "hup": item.soak.saves_on_hangup,
                                   "saving": 4, "start": 2})
    step, delay, point = rng.randint(1, base["steps"] - 1), rng.uniform(0, 0.05), rng.randint(1, 150)
    who = rng.choice(["", "@%d" % rng.randrange(base["ranks"])])
    job = item.start(words, {"ZINC_TEST_KILL_AT": "save:%d%s" % (point, who)} if how == "saving" else None)
    item.note("%s, after step %d and %.3f s" % (how, step, delay))
    if how == "start":
        time.sleep(rng.uniform(0, 1.0))
        deliver(item, job, rng.choice(("rank", "job", "term")))
    elif how != "saving":
        wait_for_step(job, folder, step, jobs.LIMIT)
        time.sleep(delay)
        deliver(item, job, how)
    result = job.wait()
    item.count("kills")
    left = job.left(20)
    if left:
        item.find("%s: ranks are still there 20 s after the job: %s" % (how, left))
        job.end()
    if result.hung:
        item.find("%s: hangs" % how)
    if checks.is_refused(result) and result.code != 0:
        raise Refused(result.err)
    if how in ("term", "int", "hup") and result.code == 0 and not checks.weights_of(folder) and \
            not glob.glob(os.path.join(folder, "checkpoints", "step-*")):
        item.find("%s: ended well and saved nothing" % how)
    problems, _ = checks.verify(item.soak.zinc, folder, item.folder)
    item.find(*problems)
    return result.code == 0 and checks.weights_of(folder) is not None


def close_to(log, reference, tolerance):
    """Losses of another order of sums."""
    if sorted(log) != sorted(reference):
        return ["steps of the log: %s, reference %s" % (sorted(log), sorted(reference))]
    for step in log:
        a, b = log[step]["loss"], reference[step]["loss"]
        if (a is None) != (b is None) or (a is not None and
                                          not math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance)):
            return ["step %d: loss %s, reference %s" % (step, a, b)]
    return []


def other_ranks(item, base):
    """The base on another number of ranks whose steps have the same windows, or None."""
    windows = base["ranks"] * base["micro"]
    others = [n for n in (1, 2, 3, 4) if n != base["ranks"] and windows % n == 0]
    if not others or base["reduce"] or base["packing"] == "none" or item.rng.random() > 0.25:
        return None
    n = item.rng.choice(others)
    return dict(base, ranks=n, micro=windows // n)


def kill_and_resume(item):
    """Kills at random points, each resumed in another configuration; the end has the bits of the reference."""
    base, words, reference = drawn(item, steps=8)
    saving = ["--checkpoint-every", item.rng.randint(1, 3), "--keep", item.rng.choice((1, 2, 3))]
    if item.rng.random() < 0.5:
        saving.append("--checkpoint-async")
    resume = []
    for _ in range(item.rng.randint(1, 3)):
        if kill_once(item, words + saving + vary(item, base, reference) + resume, base):
            break
        resume = ["--resume"]
    other = other_ranks(item, base)
    last = other or base
    final = configurations.base_words(last, item.soak.source, item.soak.folder, item.soak.flags)
    result = item.run(final + saving + vary(item, last, reference) + ["--resume"])
    if checks.is_refused(result) and result.code != 0:
        raise Refused(result.err)
    if result.code != 0 or result.hung:
        item.find("does not go on: code %d: %s" % (result.code, result.err[-400:]))
    elif other:
        item.find(*close_to(checks.log_of(item.run_folder()), reference[0], 1e-3 if base["precision"] == "fp32" else 0.1))
    else:
        item.find(*checks.differences(item.run_folder(), reference))
    if "passed over" in result.err:
        item.find("a checkpoint was broken: " + result.err[-400:])
    if glob.glob(os.path.join(item.run_folder(), "checkpoints", ".tmp-*")):
        item.find("a temporary folder is left")


# ---- Faults ----

def draw_fault(item, base):
    rng = item.rng
    if rng.random() < 0.3:
        name = rng.choice(("EIO", "ENOSPC", "ENOMEM", "SHORT", "EINTR", "EAGAIN"))
        return {"ZINC_STORAGE_FAULT": "%d:%s" % (int(2 ** rng.uniform(0, 9)) - 1, name)}
    kind = configurations.pick(rng, {"file": 4, "memory": 5, "storage": 1})
    most = {"file": 9.5, "memory": 13, "storage": 8}[kind]
    code = 12 if kind == "memory" else rng.choice(sorted(ERRORS.values()))
    who = "@%d" % rng.randrange(base["ranks"]) if base["ranks"] > 1 else ""
    return {"FAIL_NTH": "%s:%d:%d%s" % (kind, int(2 ** rng.uniform(0, most)), code, who),
            "LD_PRELOAD": item.soak.library, "FAIL_MARK": os.path.join(item.folder, "mark"),
            "SITES_PROGRAM": os.path.basename(item.soak.zinc)}


def fail_and_resume(item):
    """One call fails. The run ends with a cause or goes on; what was saved is whole, and from there it ends as the reference."""
    base, words, reference = drawn(item, steps=8)
    words = words + vary(item, base, reference) + ["--checkpoint-every", 2]
    item.rng.random() < 0.4 and words.append("--checkpoint-async")
    result = item.run(words, draw_fault(item, base))
    item.count("faults")
    problems = checks.ends_well(result)
    item.find(*problems)
    if checks.is_refused(result) and result.code == 2:
        raise Refused(result.err)
    if result.code == 0:
        item.find(*checks.differences(item.run_folder(), reference))
    problems, _ = checks.verify(item.soak.zinc, item.run_folder(), item.folder)
    item.find(*problems)
    if result.code == 0:
        return
    again = item.run(words + ["--resume"])
    if again.code != 0 or again.hung:
        if checks.is_refused(again):
            raise Refused(again.err)
        item.find("does not go on: code %d: %s" % (again.code, again.err[-400:]))
    else:
        found = checks.differences(item.run_folder(), reference)
        if "the run goes on without a log" in result.err:  # the log itself could not be written, and that was said
            found = [text for text in found if not text.startswith("step")]
        item.find(*found)


# ---- Fuzzers ----

def fuzz(item):
    """One of the fuzzers for some seconds, beginning with the seeds of the repository."""
    fuzzers = item.soak.fuzzers
    if not fuzzers:
        return
    path = fuzzers[item.soak.turn(item.index) % len(fuzzers)]
    name = os.path.basename(path)
    found = os.path.join(item.folder, "corpus")
    os.makedirs(found)
    words = [path, "-max_total_time=%d" % item.soak.fuzz_seconds, "-rss_limit_mb=2048", "-timeout=10",
             "-seed=%d" % item.rng.randint(1, 2 ** 31), "-artifact_prefix=" + item.folder + "/", found]
    seeds = os.path.join(item.soak.source, "tests/fuzz/corpus", name)
    result = jobs.run(words + ([seeds] if os.path.isdir(seeds) else []), item.folder,
                      {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"})
    item.commands.append(result.command())
    item.count("fuzz runs")
    if result.code != 0 or result.hung:
        item.find("%s: code %d: %s" % (name, result.code, result.err[-600:]))


KINDS = {"configuration": compare_configuration, "kill": kill_and_resume, "fault": fail_and_resume, "fuzz": fuzz}
# In this order, over and over: what an index is does not depend on chance.
ORDER = ("configuration", "kill", "configuration", "fault", "configuration", "kill", "configuration", "configuration",
         "fault", "configuration", "kill", "configuration", "fault", "configuration", "kill", "fuzz")


def make(soak, index):
    """Does the item of an index and returns it."""
    item = Item(soak, index, ORDER[index % len(ORDER)])
    try:
        KINDS[item.kind](item)
    except Refused as refusal:
        item.count("refused")
        item.refusal = checks.reason(str(refusal))
    finally:
        item.close()
    return item

#!/usr/bin/env python3
"""An error at every call site of a short run for storage, files and memory, one after the other: training with states on NVMe
and checkpoints, and going on from one; on one rank and on two. Each run ends with a cause or goes on; after each, what was
saved is whole, and from there the run comes to the weights it would have come to.

A site is a distinct chain of callers (fail_sites.c)."""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import checks
import configurations
import jobs
import models

EIO, ENOMEM = 5, 12
REQUESTS = 2000  # more than a run here has
SAMPLED_REQUESTS = 100


class Scenario:
    """A run that calls are failed in."""

    def __init__(self, sweep, name, ranks, resumes):
        self.sweep, self.name, self.ranks, self.resumes = sweep, name, ranks, resumes
        self.begin = os.path.join(sweep.work, name + "-begin")  # what the output folder holds before

    def words(self, folder, steps=4):
        sweep = self.sweep
        words = [sweep.zinc, "train", "--model", sweep.model, "--data", sweep.rows, "--seq-len", 48, "--threads", 1, "--steps",
                 steps, "--lr", "1e-3", "--checkpoint-every", 2, "--stage", 3, "--offload-optimizer", "nvme", "--offload-param",
                 "nvme", "--offload-gradients", "nvme", "--offload-activations", "nvme", "--tile-limit", 4096,
                 "--allow-buffered-swap", "--output", os.path.join(folder, "run")]
        if "--save" in sweep.flags:
            words += ["--save", "all"]
        return words + sweep.row_words + (["-n", self.ranks] if self.ranks > 1 else [])

    def prepare(self):
        """Makes the folder it begins with and the weights it ends with, and lists its sites."""
        os.makedirs(self.begin)
        if self.resumes:
            self.must(jobs.run(self.words(self.begin, steps=2), self.begin))
        folder = os.path.join(self.sweep.work, self.name + "-clean")
        shutil.copytree(self.begin, folder)
        sites = os.path.join(self.sweep.work, self.name + "-sites")
        os.makedirs(sites)
        self.must(jobs.run(self.start_words(folder), folder,
                           {"SITES_LIST": sites, "LD_PRELOAD": self.sweep.library, "SITES_PROGRAM": self.sweep.program}))
        self.expected = checks.weights_of(os.path.join(folder, "run"))
        self.before = checks.weights_of(os.path.join(self.begin, "run"))
        shutil.rmtree(folder)
        found = {}  # (kind, site): [(process, count)…]
        for who in sorted(os.listdir(sites)):
            with open(os.path.join(sites, who), encoding="utf-8") as file:
                for line in file:
                    kind, site, count = line.split()[:3]
                    found.setdefault((kind, site), []).append((who, int(count)))
        return len(found), self.faults_at(found) + [(self, "request", "%d:EIO" % k) for k in range(self.n_requests())]

    def faults_at(self, found):
        """Of one rank the first and the last call of each site; of several the first on one of them."""
        rng, faults = random.Random(self.sweep.seed), []
        for (kind, site), processes in sorted(found.items()):
            who, count = rng.choice(processes)
            for n in sorted({1, count if self.ranks == 1 else 1}):
                faults.append((self, kind, "%s:%s:%d:%d@%s" % (kind, site, n, ENOMEM if kind == "memory" else EIO, who)))
        return faults

    def start_words(self, folder):
        return self.words(folder) + (["--resume"] if self.resumes else [])

    def n_requests(self):
        """How many requests the storage gets: the first that nobody meets with, found by halving. A sample takes early ones."""
        if self.sweep.sample:
            return SAMPLED_REQUESTS
        low, high = 0, REQUESTS
        while low < high:
            middle = (low + high) // 2
            folder = tempfile.mkdtemp(dir=self.sweep.work)
            shutil.copytree(self.begin, folder, dirs_exist_ok=True)
            result = jobs.run(self.start_words(folder), folder, {"ZINC_STORAGE_FAULT": "%d:EIO" % middle})
            shutil.rmtree(folder)
            low, high = (low, middle) if result.code == 0 else (middle + 1, high)
        return low

    def must(self, result):
        if result.code != 0:
            sys.exit("a run without a fault fails: %s\n%s" % (result.command(), result.err))


class Sweep:
    def __init__(self, options):
        self.source, self.seed = os.path.abspath(options.source), options.seed
        self.sample = options.sample
        self.work = tempfile.mkdtemp(prefix="sweep-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        # Copies: a build beside it changes nothing.
        self.zinc, self.library = shutil.copy(options.zinc, self.work), shutil.copy(options.library, self.work)
        self.program = os.path.basename(self.zinc)
        self.guard, self.findings, self.made = threading.Lock(), [], {}
        self.unmet = 0
        self.flags = configurations.flags_of(jobs.run([self.zinc, "train", "--help"], self.work).out)
        self.row_words = ["--truncate-rows"] if "--truncate-rows" in self.flags else []

    def prepare(self, numbers_of_ranks):
        """The model, the rows and all faults, in an order of the seed."""
        inputs = os.path.join(self.work, "inputs")
        os.makedirs(inputs)
        models.make(self.source, inputs)
        self.rows, self.model = os.path.join(self.work, "rows.jsonl"), os.path.join(self.work, "model")
        models.write_rows(self.rows, models.mixed, 12)
        made = jobs.run([self.zinc, "train", "--model", os.path.join(inputs, "odd-gpt2"), "--from-scratch", "--data", self.rows,
                         "--seq-len", 48, "--steps", 0, "--keep", 0, "--output", self.model] + self.row_words, self.work)
        if made.code != 0:
            sys.exit("cannot make the model: " + made.err)
        faults, n_sites = [], 0
        for ranks in numbers_of_ranks:
            for resumes in (False, True):
                name = "%s-%d" % ("resume" if resumes else "train", ranks)
                n, more = Scenario(self, name, ranks, resumes).prepare()
                n_sites += n
                faults += more
                print("%s: %d call sites, %d faults" % (name, n, len(more)), flush=True)
        random.Random(self.seed).shuffle(faults)
        return n_sites, faults[:self.sample] if self.sample else faults

    def cause_is_named(self, kind, result):
        return re.search("memory|thread" if kind == "memory" else "Input/output error|memory|ring", result.err, re.I) is not None

    def make(self, fault):
        """One fault; what is wrong, in words, and the commands."""
        scenario, kind, word = fault
        folder = tempfile.mkdtemp(dir=self.work)
        run, mark = os.path.join(folder, "run"), os.path.join(folder, "mark")
        shutil.copytree(scenario.begin, folder, dirs_exist_ok=True)
        environment = {"ZINC_STORAGE_FAULT": word} if kind == "request" else {
            "FAIL_SITE": word, "FAIL_MARK": mark, "LD_PRELOAD": self.library, "SITES_PROGRAM": self.program}
        result = jobs.run(scenario.start_words(folder), folder, environment)
        found = checks.ends_well(result)
        if not found and result.code != 0 and not self.cause_is_named(kind, result):
            found.append("the cause is lost: " + result.err[-300:])
        weights = checks.weights_of(run)
        if weights not in (scenario.expected, scenario.before) or (result.code == 0 and weights != scenario.expected):
            if weights is not None or result.code == 0:
                found.append("the model is another")
        problems, _ = checks.verify(self.zinc, run, folder)
        found += problems
        if result.code != 0 and not problems:
            again = jobs.run(scenario.words(folder) + ["--resume"], folder, name="again")
            if again.code != 0 or again.hung:
                found.append("does not go on: " + again.err[-300:])
            elif checks.weights_of(run) != scenario.expected:
                found.append("goes on to other weights")
        met = kind == "request" or os.path.exists(mark)
        place = self.place(mark) if found and kind != "request" and met else ""
        shutil.rmtree(folder)
        return found, met, place, result

    def place(self, mark):
        """The functions of a site, from the mark that the failed call left."""
        with open(mark, encoding="utf-8") as file:
            addresses = file.readline().split()[1:]
        try:
            lines = subprocess.run(["addr2line", "-f", "-s", "-e", self.zinc] + addresses, capture_output=True, text=True,
                                   check=False).stdout.splitlines()
        except OSError:
            return " ".join(addresses)
        return " < ".join(lines[::2])

    def run_all(self, faults):
        while True:
            with self.guard:
                if not faults:
                    return
                fault = faults.pop()
            found, met, place, result = self.make(fault)
            with self.guard:
                self.made[fault[1]] = self.made.get(fault[1], 0) + 1
                self.unmet += not met
                for text in found:
                    self.findings.append(text)
                    print("FINDING %s %s [%s]: %s\n  %s" % (fault[0].name, fault[2], place, text, result.command()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zinc", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--library", required=True, help="libfail_sites.so")
    parser.add_argument("--sample", type=int, default=0, help="so many faults, drawn by the seed; 0: all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    os.nice(10)
    sweep = Sweep(options)
    try:
        n_sites, faults = sweep.prepare(options.ranks)
        workers = [threading.Thread(target=sweep.run_all, args=(faults,)) for _ in range(options.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        jobs.end_all()
        shutil.rmtree(sweep.work, ignore_errors=True)
    print("%d call sites; %d faults (%s), %d of them not met with, %d findings" % (
        n_sites, sum(sweep.made.values()), ", ".join("%d %s" % (n, kind) for kind, n in sorted(sweep.made.items())),
        sweep.unmet, len(sweep.findings)))
    return 1 if sweep.findings else 0


if __name__ == "__main__":
    sys.exit(main())

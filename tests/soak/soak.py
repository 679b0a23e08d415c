#!/usr/bin/env python3
"""Random configurations against their plain references, kills, faults and fuzzers, for a time. `make soak` starts it; docs/testing.md
has what it does and how a finding is replayed."""
import argparse
import collections
import glob
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

import configurations
import items
import jobs
import models

COUNTS = ("configurations", "refused", "kills", "faults", "fuzz runs")
DRY = 8  # items of a run without minutes


class Soak:
    """What all items share."""

    def __init__(self, options):
        self.source = os.path.abspath(options.source)
        self.seed, self.fuzz_seconds = options.seed, options.fuzz_seconds
        self.fuzzers = sorted(path for path in glob.glob(os.path.join(os.path.abspath(options.fuzzers), "fuzz_*"))
                              if os.access(path, os.X_OK) and os.path.isfile(path)) if options.fuzzers else []
        self.kept = os.path.join(os.path.abspath(options.kept), str(self.seed))
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.work = tempfile.mkdtemp(prefix="soak-", dir=memory)
        self.disk = tempfile.mkdtemp(prefix="soak-")
        self.folder, self.originals = os.path.join(self.work, "inputs"), {}
        os.makedirs(self.folder)
        os.makedirs(self.kept, exist_ok=True)
        # Copies: a build beside it changes nothing.
        self.zinc, self.library = self.take(options.zinc), self.take(options.library)
        models.make(self.source, self.folder)
        text = jobs.run([self.zinc, "train", "--help"], self.work, name="help").out
        self.flags = configurations.flags_of(text)
        self.saves_on_hangup = "SIGHUP" in text
        self.isas = [isa for isa in ("plain", "avx2", "avx512") if
                     jobs.run([self.zinc, "doctor"], self.work, {"ZINC_ISA": isa}, "doctor").code == 0]
        self.references = items.References(self)

    def take(self, path):
        self.originals[os.path.join(self.work, os.path.basename(path))] = os.path.abspath(path)
        return shutil.copy(path, self.work)

    def as_kept(self, index, text):
        """Commands with the paths that stay: of the program, of the inputs and of the item."""
        kept = os.path.join(self.kept, "inputs")
        if not os.path.isdir(kept):
            shutil.copytree(self.folder, kept, dirs_exist_ok=True)
        places = dict(self.originals)
        places[self.folder] = kept
        places[os.path.join(self.work, "item-%d" % index)] = os.path.join(self.kept, str(index))
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(place, places[place])
        return text

    def data(self, name):
        return models.data_path(self.source, self.folder, name)

    def turn(self, index):
        """How many items of its kind come before it."""
        return index // len(items.ORDER)

    def close(self):
        jobs.end_all()
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.disk, ignore_errors=True)
        if os.path.isdir(self.kept) and not os.listdir(self.kept):
            os.rmdir(self.kept)


class Progress:
    """Which index is next, and what was counted; shared by the workers."""

    def __init__(self, soak, minutes, only):
        self.soak, self.guard = soak, threading.Lock()
        self.end = time.monotonic() + 60 * minutes
        self.last = DRY if minutes == 0 else None
        self.only, self.next = only, 0
        self.counts, self.refusals = dict.fromkeys(COUNTS, 0), collections.Counter()
        self.findings, self.shown, self.stopped = [], time.monotonic(), False

    def take(self):
        """An index, or None at the end."""
        with self.guard:
            if self.stopped:
                return None
            if self.only:
                return self.only.pop(0)
            if self.only is not None or (self.last is not None and self.next >= self.last) or \
                    (self.last is None and time.monotonic() > self.end):
                return None
            self.next += 1
            return self.next - 1

    def add(self, item):
        with self.guard:
            if self.stopped:
                return  # its processes were ended
            for key, n in item.counts.items():
                self.counts[key] += n
            if item.refusal is not None:
                self.refusals[item.refusal] += 1
            for text in item.findings:
                self.findings.append((item.index, item.kind, text))
                print("FINDING %d (%s): %s" % (item.index, item.kind, text), flush=True)
            if time.monotonic() - self.shown > 60:
                self.shown = time.monotonic()
                print("%s; %.0f minutes left" % (self.line(), max(0, self.end - self.shown) / 60), flush=True)

    def line(self):
        return ", ".join("%d %s" % (self.counts[key], key) for key in COUNTS) + ", %d findings" % len(self.findings)

    def work(self):
        while True:
            index = self.take()
            if index is None:
                return
            try:
                self.add(items.make(self.soak, index))
            except Exception as error:  # a fault of this program is a finding too: nothing is lost silently
                with self.guard:
                    if not self.stopped:
                        self.findings.append((index, "soak", repr(error)))
                        print("FINDING %d (soak): %r" % (index, error), flush=True)


def show(progress, soak):
    print("\nseed %s: %s" % (soak.seed, progress.line()))
    for text, n in progress.refusals.most_common(8):
        print("  refused %d times: %s" % (n, text))
    indices = sorted(set(index for index, _, _ in progress.findings))
    for index in indices:
        first = next(text for at, _, text in progress.findings if at == index)
        print("  make soak SEED=%s ONLY=%d   # %s" % (soak.seed, index, first.splitlines()[0][:150] if first else ""))
    if indices:
        print("commands and files: %s/INDEX" % soak.kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zinc", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--library", required=True, help="libfail_sites.so")
    parser.add_argument("--fuzzers", help="folder of the fuzzers")
    parser.add_argument("--kept", default="soak", help="where findings are kept")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", default=None)
    parser.add_argument("--only", type=int, nargs="*", default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fuzz-seconds", type=int, default=5)
    options = parser.parse_args()
    if options.seed is None:
        options.seed = str(int(time.time()))
    print("seed %s" % options.seed, flush=True)
    os.nice(10)
    soak = Soak(options)
    progress = Progress(soak, options.minutes, options.only)

    def stop(number, frame):
        progress.stopped = True
        jobs.end_all()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    workers = [threading.Thread(target=progress.work) for _ in range(options.jobs)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(0.5)
    finally:
        soak.close()
    show(progress, soak)
    return 1 if progress.findings else 0


if __name__ == "__main__":
    sys.exit(main())

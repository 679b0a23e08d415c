"""Whether two programs do the same, configuration by configuration: compare_builds.sh calls it with two programs."""
import argparse
import itertools
import os
import shutil
import sys
import tempfile
import threading

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(SOURCE, "tests/soak"))

import checks  # noqa: E402
import fitting  # noqa: E402
import jobs  # noqa: E402
import models  # noqa: E402
import planning  # noqa: E402
import training  # noqa: E402

KINDS = {"training": training, "fitted": fitting, "plan": planning}
QUICK = {"training": 3, "fitted": 1, "plan": 4}
SIDES = ("old", "new")


def parse():
    parser = argparse.ArgumentParser(prog="compare_builds.sh", usage="compare_builds.sh OLD NEW [flags]")
    parser.add_argument("old", help="a program, a build folder or a git revision")
    parser.add_argument("new")
    parser.add_argument("--quick", action="store_true", help="a handful of configurations")
    parser.add_argument("--full", action="store_true", help="all placements instead of a list that covers pairs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these configurations, such as training-17")
    parser.add_argument("--list", action="store_true", help="show the configurations and end")
    parser.add_argument("--keep", metavar="FOLDER", help="where the files of configurations that differ go")
    return parser.parse_args()


def choose(options):
    """(name, kind, row) of what shall be compared."""
    kinds = {name.partition("-")[0] for name in options.only} if options.only else KINDS
    rows = []
    for kind in (kind for kind in KINDS if kind in kinds):
        of_kind = [("%s-%d" % (kind, number), kind, row) for number, row in enumerate(KINDS[kind].rows(options.full))]
        rows += of_kind[::-(-len(of_kind) // QUICK[kind])] if options.quick else of_kind
    unknown = set(options.only or ()) - {name for name, _, _ in rows}
    if unknown:
        sys.exit("compare_builds.sh: --only: no configuration %s" % ", ".join(sorted(unknown)))
    return [row for row in rows if not options.only or row[0] in options.only]


def describe(row):
    return ", ".join("%s %s" % (key, " ".join(map(str, value)) if isinstance(value, list) else value)
                     for key, value in row.items())


def logs_requests(zinc, work):
    """Whether a program writes its requests."""
    folder = tempfile.mkdtemp(dir=work)
    prefix = os.path.join(folder, "requests")
    words = [zinc, "train", "--model", models.model_path(SOURCE, work, "gpt2"), "--data",
             models.data_path(SOURCE, work, "tokens"), "--steps", 1, "--seq-len", 8, "--output", "run", "--threads", 1]
    result = jobs.run(words, folder, {"ZINC_REQUEST_LOG": prefix})
    if result.code:
        sys.exit("compare_builds.sh: %s does not train: %s" % (zinc, result.err))
    return os.path.exists(prefix + ".0")


class Comparison:
    """Runs configurations on both programs and counts."""

    def __init__(self, programs, work, keep):
        self.programs, self.work, self.keep = programs, work, keep
        self.n_compared = self.n_failing = self.n_lines = self.n_differences = 0
        with_log = [logs_requests(zinc, work) for zinc in programs]
        self.compares_requests = all(with_log)
        for side, zinc, has in zip(SIDES, programs, with_log):
            if not has:
                print("%s: %s writes no log of requests: sequences of requests are not compared" % (side, zinc))

    def run_both(self, kind, row, folder):
        """[(results, lines)] of the two programs, which run at once."""
        found = [None, None]

        def run_one(side):
            here = os.path.join(folder, SIDES[side])
            os.makedirs(here)
            results, lines = KINDS[kind].run(row, self.programs[side], SOURCE, self.work, here)
            # Folders and programs have other names on each side.
            lines = [line.replace(here, "FOLDER").replace(self.programs[side], "ZINC") for line in lines]
            found[side] = results, [line for line in lines if self.compares_requests or not line.startswith("requests-")]

        threads = [threading.Thread(target=run_one, args=(side,)) for side in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def tell(self, name, row, both, first):
        print("DIFFERENCE %s: %s" % (name, describe(row)))
        for side, (results, _) in zip(SIDES, both):
            for result in results:
                print("  %s runs: %s" % (side, result.command()))
        for side, line in zip(SIDES, first):
            print("  %s has:  %s" % (side, "no further line" if line is None else line))

    def compare(self, name, kind, row):
        folder = os.path.join(self.work, name)
        both = self.run_both(kind, row, folder)
        differing = [pair for pair in itertools.zip_longest(both[0][1], both[1][1]) if pair[0] != pair[1]]
        crashed = any(result.hung or checks.has_crashed(result) for results, _ in both for result in results)
        self.n_compared += 1
        self.n_lines += len(both[0][1])
        failing = [results[-1] for results, _ in both if results[-1].code]
        if failing:
            self.n_failing += 1
            print("%s ends with code %d: %s" % (name, failing[0].code, checks.reason(failing[0].err)))
        if differing or crashed:
            self.n_differences += 1
            self.tell(name, row, both, differing[0] if differing else ["a crash or a hang"] * 2)
            if self.keep:
                shutil.copytree(folder, os.path.join(self.keep, name), dirs_exist_ok=True)
        shutil.rmtree(folder)


def main():
    options = parse()
    chosen = choose(options)
    if options.list:
        for name, _, row in chosen:
            print("%s: %s" % (name, describe(row)))
        return 0
    with tempfile.TemporaryDirectory(prefix="zinc-builds-") as work:
        models.make(SOURCE, work)
        comparison = Comparison([os.path.abspath(path) for path in (options.old, options.new)], work, options.keep)
        try:
            for name, kind, row in chosen:
                comparison.compare(name, kind, row)
                sys.stdout.flush()
        finally:
            jobs.end_all()
        print("%d configurations, %d compared (%d lines, %d failing), %d differences" % (
            len(chosen), comparison.n_compared, comparison.n_lines, comparison.n_failing, comparison.n_differences))
        return 1 if comparison.n_differences else 0


if __name__ == "__main__":
    sys.exit(main())

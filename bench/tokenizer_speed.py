"""See bench_tokenize.sh. The text is prose and code: this repository's and Python's own library's."""
import glob
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time

from tokenizers import Tokenizer

N_BYTES = 10_000_000


def make_text():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    names = sorted(glob.glob(here + "/examples/**/*.txt", recursive=True) + glob.glob(here + "/docs/*.md"))
    names += sorted(glob.glob(sysconfig.get_path("stdlib") + "/**/*.py", recursive=True))
    text = ""
    for name in names:
        with open(name, encoding="utf-8", errors="replace") as f:
            text += f.read()
        if len(text) >= N_BYTES:
            break
    return text[:N_BYTES]


def seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def zinc_seconds(program, folder, path, threads):
    """Without the time to load the tokenizer: that of a file of one letter is taken off."""
    def run(name):
        subprocess.run([program, "tokenize", "--model", folder, name, "--output", path + ".bin", "--threads", str(threads)],
                       check=True, capture_output=True)
    with open(path + ".short.txt", "w") as f:
        f.write("a")
    load = min(seconds(lambda: run(path + ".short.txt"))[0] for _ in range(2))
    return min(seconds(lambda: run(path))[0] for _ in range(2)) - load, load


def main(program, folder):
    text = make_text()
    tok = Tokenizer.from_file(folder + "/tokenizer.json")
    library, _ = seconds(lambda: tok.encode_batch_fast([text], add_special_tokens=False))
    with tempfile.TemporaryDirectory() as work:
        path = work + "/text.txt"
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        one, load = zinc_seconds(program, folder, path, 1)
        cores = len(os.sched_getaffinity(0))
        more = zinc_seconds(program, folder, path, cores)[0] if cores > 1 else one
    megabytes = len(text.encode()) / 1e6
    print(json.dumps({"benchmark": "tokenize", "machine": platform.processor() or platform.machine(), "tokenizer": folder,
                      "megabytes": round(megabytes, 2), "load_seconds": round(load, 3),
                      "zinc_mb_per_second": {"1": round(megabytes / one, 2), str(cores): round(megabytes / more, 2)},
                      "library_mb_per_second": round(megabytes / library, 2), "times_faster": round(library / one, 2)}))


main(*sys.argv[1:3])

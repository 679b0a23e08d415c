#!/usr/bin/env python3
"""Where a predicted step and a real one differ: two time lines by what they do, the longest first.

    zinc plan … --trace simulated.json; zinc train … --trace real.json; compare_traces.py simulated.json real.json

Requests to drives overlap in a real run, and those between ranks hold what a rank waits for another: their sums are more than
the time in which they work.
"""
import collections
import json
import sys


def sums(path):
    found, end = collections.defaultdict(lambda: [0, 0.0]), 0
    with open(path) as f:
        spans = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    for e in spans:
        one = found[e["cat"], e["name"].split(",")[0]]
        one[0] += 1
        one[1] += e["dur"] / 1e6
        end = max(end, (e["ts"] + e["dur"]) / 1e6)
    return found, end


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    (simulated, whole), (real, took) = (sums(path) for path in sys.argv[1:])
    print(f"{'':40} {'simulated':>16} {'real':>16} {'difference':>11}")
    for key in sorted({*simulated, *real}, key=lambda k: -max(simulated[k][1], real[k][1])):
        (n, a), (m, b) = simulated[key], real[key]
        print(f"{key[0]:14} {key[1]:25} {n:7} {a:8.4f} {m:7} {b:8.4f} {a - b:+11.4f}")
    print(f"{'step':40} {whole:16.4f} {took:16.4f} {whole - took:+11.4f}")


if __name__ == "__main__":
    main()

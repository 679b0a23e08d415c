#!/usr/bin/env python3
"""Draws the program of a step, as `zinc plan --program` prints it, as an SVG: what the device computes, and beside it from where
to where each gather, reduction and transfer may run, from the point that issues it to the point that waits for it.

usage: zinc plan … --program | scripts/draw_step.py > docs/step.svg"""
import re
import sys
from html import escape

LANES = [("computing", ()), ("between ranks", ("gather", "reduce", "gather sums")), ("drive", ("read", "write")),
         ("link", ("copy out", "copy in", "offload")), ("updates", ("update",))]
COLOURS = {"gather": "#4c78a8", "gather sums": "#4c78a8", "reduce": "#e45756", "read": "#72b7b2", "write": "#f2a14a",
           "copy out": "#b279a2", "copy in": "#b279a2", "offload": "#b279a2", "update": "#54a24b"}
LEFT, STEP, ROW, TOP = 118, 40, 18, 66


def read(lines):
    """Positions along the pass: (text of the point, instructions there); and bars [operation, unit, size, begin, end]."""
    points, bars, by_number, section = [], [], {}, 0
    for line in lines:
        if line.startswith("== "):
            section += 1
            continue
        if section != 1:
            continue
        found = re.match(r" +(\d+) ([a-z ]+?)  +(.*)", line)
        if not found:
            points += [line.strip()] if line.strip() else []
            continue
        number, operation, rest = int(found[1]), found[2].strip(), re.split(r"  +", found[3].strip())
        waited = re.search(r"#(\d+)", line) if operation in ("wait", "await") else None
        if waited and int(waited[1]) in by_number:
            by_number[int(waited[1])][4] = len(points)
        elif operation in COLOURS:
            size = next((word for word in rest[1:] if re.match(r"[\d.]+ [KMGT]?i?B", word)), "")
            by_number[number] = [operation, rest[0], re.match(r"[\d.]+ \w+|", size)[0], len(points), len(points) + 1]
            bars.append(by_number[number])
    return points, bars


def short(unit):
    """A name that fits into a bar: the tooltip has the whole."""
    return {"embedding": "emb"}.get(unit, unit.replace("block ", ""))


def rows_of(bars, operations):
    """The bars of a lane, in as few rows as keep them apart."""
    ends, placed = [], []
    for bar in (bar for bar in bars if bar[0] in operations):
        row = next((i for i, end in enumerate(ends) if end <= bar[3]), len(ends))
        ends[row:row + 1] = [bar[4]]
        placed.append((row, bar))
    return placed, len(ends)


def segments(points):
    """Runs of points of one unit: (name, begin, end, is backward)."""
    runs, backward, last = [], False, None
    for i, point in enumerate(points):
        backward = backward or point.startswith(("open", "close"))
        block = re.search(r"\.(\d+)\.", point)
        name = "block %s" % block[1] if block else "head" if "ln_f" in point or "model.norm" in point else "embedding" if " " in point else last
        if point.startswith("end"):
            name = last
        if runs and runs[-1][0] == name and runs[-1][3] == backward:
            runs[-1][2] = i + 1
        else:
            runs.append([name, i, i + 1, backward])
        last = name
    return runs


def main():
    points, bars = read(sys.stdin.read().split("\n"))
    out, y = [], TOP
    width = LEFT + STEP * (len(points) + 1) + 10
    def text(x, height, words, anchor="start", colour="currentColor", size=11):
        out.append('<text x="%g" y="%g" text-anchor="%s" fill="%s" font-size="%d">%s</text>' % (x, height, anchor, colour, size, escape(words)))
    def bar(x0, x1, top, colour, words, title):
        out.append('<g><title>%s</title><rect x="%g" y="%g" width="%g" height="%g" rx="3" fill="%s"/>' % (
            escape(title), LEFT + STEP * x0 + 1, top + 2, STEP * (x1 - x0) - 2, ROW - 4, colour))
        if STEP * (x1 - x0) > 6 * len(words) + 6:
            text(LEFT + STEP * (x0 + x1) / 2, top + ROW - 5, words, "middle", "#fff", 10)
        out.append("</g>")
    text(LEFT, 16, "One step at stage 3 on two ranks, optimizer and gradients on NVMe, from its program", size=13)
    text(LEFT, 32, "A bar begins where an instruction is issued and ends where something waits for it; what lies between is hidden.")
    x = LEFT
    for word, colour in [("forward", "#9a9a9a"), ("backward", "#6b6b6b")] + sorted({(b[0], COLOURS[b[0]]) for b in bars}):
        out.append('<rect x="%g" y="42" width="10" height="10" rx="2" fill="%s"/>' % (x, colour))
        text(x + 14, 51, word)
        x += 30 + 6.2 * len(word)
    text(8, y + ROW - 5, LANES[0][0])
    for name, begin, end, backward in segments(points):
        bar(begin, end, y, "#6b6b6b" if backward else "#9a9a9a", short(name or ""), "%s, %s" % (name, "backward" if backward else "forward"))
    y += ROW + 10
    for lane, operations in LANES[1:]:
        placed, n = rows_of(bars, operations)
        if not n:
            continue
        text(8, y + ROW - 5, lane)
        for row, (operation, unit, size, begin, end) in placed:
            bar(begin, end, y + ROW * row, COLOURS[operation], short(unit), "%s %s, %s" % (operation, unit, size))
        y += ROW * n + 10
    sys.stdout.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" color="#555">\n%s\n</svg>\n'
                     % (width, y, width, "\n".join(out)))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""run_pages.py TABLE SOURCE FIXTURES WORK PAGE…: runs the commands of Markdown pages.

A command is a line of a fenced block that begins with a program (PROGRAMS), or any line of a block marked sh. Lines with […], … or a
name in capitals for a value are forms, not commands. The blocks of a page run one after the other with bash in one folder, a copy of
FIXTURES; each must succeed. What cannot run as it stands is replaced by the rows of TABLE:

    PAGE | TEXT | REPLACEMENT | WHY

TEXT is replaced wherever the page's commands have it; a row that nothing has is stale, and fails.
"""
import pathlib
import re
import shutil
import subprocess
import sys

PROGRAMS = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:build/)?(zinc|make|hf|mpirun|srun|sbatch|scontrol|scancel|squeue|sinfo|llama-cli|bench/\S+|"
                      r"tests/\S+|scripts/\S+|pip|git|cat|cp)\b")
FORM = re.compile(r"\[-|…| (DIR|PATH|FILE|NAME|SIZE|N|X|TEXT)( |$)|^\S+$")


def blocks(text):
    """(line number, info string, lines) of each fenced block."""
    found, start = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if start is None:
                start = (number, line[3:].strip(), [])
            else:
                found.append(start)
                start = None
        elif start is not None:
            start[2].append(line)
    if start is not None:
        sys.exit(f"a block that begins in line {start[0]} has no end")
    return found


def commands(info, lines):
    if info == "sh":
        return lines
    return [line for line in lines if PROGRAMS.match(line) and not FORM.search(line.split(" #")[0]) or line == "make"]


def read_table(path):
    rows = []
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            row = [part.strip() for part in line.split(" | ")]
            if len(row) != 4:
                sys.exit(f"{path}: not four columns: {line}")
            rows.append(row)
    return rows


def run_page(name, source, fixtures, work, rows, used):
    folder = work / name.replace("/", "-")
    shutil.copytree(fixtures, folder, symlinks=True)
    n = 0
    for number, info, lines in blocks((source / name).read_text()):
        script = "\n".join(commands(info, lines))
        if not script:
            continue
        n += sum(bool(PROGRAMS.match(line)) for line in script.splitlines())
        for i, (page, text, replacement, _) in enumerate(rows):
            if page == name and text in script:
                used.add(i)
                script = script.replace(text, replacement)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, input="Hello.\n", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{name}:{number}: exit code {done.returncode}\n--- what was run\n{script}\n--- what it said\n{done.stdout[-3000:]}")
    return n


def main():
    table, source, fixtures, work = map(pathlib.Path, sys.argv[1:5])
    rows, used, total = read_table(table), set(), 0
    pages = sys.argv[5:]
    for page in pages:
        n = run_page(page, source, fixtures, work, rows, used)
        print(f"{page}: {n} commands")
        total += n
    stale = [row for i, row in enumerate(rows) if i not in used and row[0] in pages]
    if stale:
        sys.exit(f"rows of the table that no page has: {stale}")
    print(f"{total} commands of {len(pages)} pages")


if __name__ == "__main__":
    main()

"""What must hold after a run, and what a run's log and weights are."""
import glob
import hashlib
import json
import os
import re

import jobs

# Combinations that are refused by name are no findings.
REFUSED = re.compile(r"does not go with|needs --|--reduce last:|--offload-[a-z]+ needs|needs stage|does not fit|do not fit|"
                     r"nothing fits|at the least, the limit is")
CRASHED = re.compile(r"signal (4|6|7|8|11)\b|\*\*\* Process received signal|Segmentation fault|runtime error:|AddressSanitizer|"
                     r"ThreadSanitizer|Assertion .* failed|free\(\)|malloc\(\)|corrupted")
NOTE = re.compile(r"the job ended|: swap: |asks for dropout|zinc train: goes on from|differs from the checkpoint|holds no checkpoint|"
                  r"passed over|ranks disagree")
DECIDED = ("loss", "grad_norm", "lr", "scale", "tokens", "targets", "skipped")
ENDED = (129, 130, 137, 141, 143)  # ranks that were ended by the launcher when another had failed


def is_refused(result):
    return result.code == 2 or (result.code == 1 and REFUSED.search(result.err) is not None)


def reason(text):
    """A refusal without its numbers and notes, so that equal ones can be counted."""
    lines = [line for line in text.splitlines() if REFUSED.search(line)]
    lines += [line for line in text.splitlines() if not NOTE.search(line)] + [""]
    return re.sub(r"[0-9][0-9.,]*", "N", lines[0])[:110]


def least_limit(result):
    """Bytes that a run which does not fit says it needs, or None."""
    found = re.search(r"needs ([0-9.]+) (KiB|MiB|GiB) at the least", result.err)
    return found and int((float(found[1]) + 0.01) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[found[2]])


def log_of(folder, keys=DECIDED):
    """Step by step the values of keys, numbers with a point as they are written: by default what placement never changes."""
    lines = {}
    try:
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
            for line in file:
                if '"loss":' in line and line.endswith("}\n"):
                    entry = json.loads(line, parse_float=str)
                    lines[entry["step"]] = {key: entry.get(key) for key in keys}
    except (OSError, ValueError):
        pass
    return lines


def weights_of(folder):
    """A hash of the model's files, or None."""
    digest = hashlib.sha256()
    paths = sorted(glob.glob(os.path.join(folder, "model*.safetensors*")))
    for path in paths:
        with open(path, "rb") as file:
            digest.update(os.path.basename(path).encode() + b"\0" + file.read())
    return digest.hexdigest() if paths else None


def differences(folder, reference):
    """What a run has otherwise than the reference (log, weights), in words; empty: nothing."""
    log, weights = log_of(folder), weights_of(folder)
    found = []
    if sorted(log) != sorted(reference[0]):
        found.append("steps of the log: %s, reference %s" % (sorted(log), sorted(reference[0])))
    for step in sorted(set(log) & set(reference[0])):
        if log[step] != reference[0][step]:
            found.append("step %d: %s, reference %s" % (step, log[step], reference[0][step]))
            break
    if weights != reference[1]:
        found.append("the weights differ" if weights else "there is no model")
    return found


def cause_of(result):
    """The lines of the program that are more than notes."""
    return "\n".join(line for line in result.err.splitlines() if re.match(r"zinc[a-z ]*: ", line) and not NOTE.search(line))


def has_crashed(result):
    return result.code < 0 or (result.code > 2 and result.code not in ENDED) or CRASHED.search(result.err) is not None


def ends_well(result):
    """A run that may fail: in time, without a crash, with a cause. What is wrong, in words."""
    if result.hung:
        return ["hangs"]
    if has_crashed(result):
        return ["crashes: code %d: %s" % (result.code, result.err[-400:])]
    if result.code != 0 and not cause_of(result):
        return ["fails without a cause: code %d: %s" % (result.code, result.err[-400:])]
    return []


def verify(zinc, folder, work):
    """Whether all checkpoints of a run are whole. What is wrong, in words, and the command's result."""
    if not glob.glob(os.path.join(folder, "checkpoints", "step-*")):
        return [], None
    result = jobs.run([zinc, "checkpoint", "verify", folder], work, name="verify")
    return ([] if result.code == 0 else ["a checkpoint is damaged: " + (result.out + result.err)[-400:]]), result

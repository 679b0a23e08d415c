#!/bin/bash
# `zinc report`: the page of a real run has the run's numbers, is well-formed, needs nothing from outside and runs
# nothing, whatever names and texts it shows.
# test_report.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# expect CODE TEXT WORDS…: standard error is one line with TEXT, or nothing.
expect()
{
    local code=$1 text=$2 got
    shift 2
    "$zinc" report "$@" >out 2>err
    got=$?
    [ $got = "$code" ] || fail "zinc report $*: exit code $got, not $code: $(cat err)"
    if [ -z "$text" ]; then
        [ -s err ] && fail "zinc report $* says: $(cat err)"
    else
        grep -qF -- "$text" err || fail "zinc report $* should say '$text', not: $(cat err)"
        [ "$(wc -l <err)" = 1 ] || fail "zinc report $* says more than one line: $(cat err)"
    fi
}

# Reads pages as browsers do and as XML: they hold what is asked for, and only harmless elements.
cat >check.py <<'PYTHON'
import html.parser, json, re, sys, xml.etree.ElementTree as tree

ELEMENTS = set("""html head meta title style body main h1 h2 h3 p span dl div dt dd small figure figcaption svg text path
circle table thead tbody tfoot tr th td footer""".split())
ATTRIBUTES = set("""lang charset name content http-equiv class viewbox role aria-hidden d x y cx cy r""".split())

class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.words = []
        self.feed(text)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attributes):
        assert tag in ELEMENTS, tag
        assert {name for name, _ in attributes} <= ATTRIBUTES, (tag, attributes)

    def handle_data(self, data):
        self.words.append(data)

def read(path):
    source = open(path, encoding="utf-8").read()
    tree.fromstring(source.split("\n", 1)[1])  # after the document type
    for word in ("http:", "https:", "//", "url(", "@import", "javascript", "NaN", ">nan", "inf<"):
        assert word not in source.replace("</", "<"), (path, word)
    return Page(source)

def short(value):
    text = "%.5g" % value
    return re.sub(r"e([-+])0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], text)

if __name__ == "__main__":
    page = read(sys.argv[1])
    for text in sys.argv[2:]:
        assert text in page.text, (text, page.text)
PYTHON

# page FILE TEXT…: the page is good and shows the texts.
page()
{
    python3 check.py "$@" || fail "the page $1"
}

# ---- A real run ----
"$zinc" train --model "$data/gpt2" --data "$data/tokens.bin" --eval-data "$data/tokens.bin" --eval-every 5 --seq-len 16 \
    --threads 1 --steps 12 --warmup 3 --lr 1e-3 --output run >train.out 2>train.err || fail "zinc train: $(cat train.err)"
expect 0 "" run
[ "$(cat out)" = "wrote run/report.html" ] || fail "it says: $(cat out)"
python3 - <<'PYTHON' || fail "the numbers of a page"
import json
from check import read, short
lines = [json.loads(line) for line in open("run/metrics.jsonl")]
log = lines[1:] # the first is the held-out loss before step 1
assert lines[0]["step"] == 0 and set(lines[0]) == {"step", "eval_loss"}, lines[0]
run = json.load(open("run/run.json"))
text = read("run/report.html").text
losses = [step["loss"] for step in log]
held = [step["eval_loss"] for step in lines if "eval_loss" in step]
def holds(words):
    assert words in text, (words, text)
holds("Finished")
holds("steps 12 of 12")
holds("tokens {n} {n}".format(n=sum(step["tokens"] for step in log)))
holds("loss %s first %s" % (short(losses[-1]), short(losses[0])))
holds("held-out loss %s first %s" % (short(held[-1]), short(held[0])))
holds("least %s at step %d" % (short(min(losses)), losses.index(min(losses)) + 1))
for step in lines:
    if "eval_loss" in step:
        holds("step %d: %s" % (step["step"], short(step["eval_loss"])))
for key in ("grad_norm", "lr", "tokens_per_second"):
    values = [step[key] for step in log]
    holds("first %s least" % short(values[0]))
    holds("greatest %s at step %d" % (short(max(values)), values.index(max(values)) + 1))
    holds("last %s" % short(values[-1]))
holds("seq len 16")
holds("isa " + run["isa"])

# What was planned is what was charged.
for tier in ("device", "host", "nvme"):
    assert sum(kind[tier] for kind in run["bytes"].values()) == log[-1]["memory"][tier], tier
for kind, tiers in run["bytes"].items():
    assert sum(tiers.values()) == log[-1]["states"][kind], kind
PYTHON

# ---- Names and texts that try to be HTML ----
evil='<script>alert(1)</script> "&'"'"'><img src=x onerror=y> &lt;'
name="in ${evil//\//_} ü"
mkdir "$name"
python3 - "$name" "$evil" <<'PYTHON'
import json, sys
folder, evil = sys.argv[1:]
json.dump({"format": 1, "steps": 2, "model": "a\\b " + evil.replace("/", "_"), "architecture": evil, evil: evil, "data": [evil, ""],
           "offload": {evil: evil}, "parameters": 7}, open(folder + "/run.json", "w"))
with open(folder + "/metrics.jsonl", "w") as log:
    log.write(json.dumps({"step": 1, "loss": None, "skipped": True, "reason": evil}) + "\n" + evil + "\n")
PYTHON
expect 0 "1 of 2 lines of the log are left out" "$name" --output evil.html
page evil.html "$evil" "a\\b ${evil//\//_}" "$name" "offload $evil: $evil" "Cut short"
[ "$(grep -c '<script' evil.html)" = 0 ] || fail "a script got through"

# ---- Logs of every condition ----
mkdir empty one long many
: >empty/metrics.jsonl
expect 0 "" empty
page empty/report.html "Unknown end" "steps 0"
head -2 run/metrics.jsonl >one/metrics.jsonl
expect 0 "" one
page one/report.html "The last step in the log is 1;"
# Longer than the page has points: least and greatest are still there, and the page stays small.
awk 'BEGIN { for (s = 1; s <= 30000; s++) printf "{\"step\":%d,\"loss\":%s,\"lr\":0.001}\n", s,
    s == 12345 ? "19.5" : s == 23456 ? "0.125" : s % 1000 == 0 ? "NaN" : 2 + s % 10 / 10 }' >long/metrics.jsonl
expect 0 "" long
page long/report.html "least 0.125 at step 23456" "greatest 19.5 at step 12345" "steps 30,000" "of 64 steps"
[ "$(wc -c <long/report.html)" -lt 200000 ] || fail "a long log makes a page of $(wc -c <long/report.html) bytes"
awk 'BEGIN { for (s = 1; s <= 5000; s++) printf "{\"step\":%d,\"loss\":null,\"skipped\":true,\"reason\":\"r\"}\n", s }' \
    >many/metrics.jsonl
expect 0 "" many
page many/report.html "and 4,992 more" "no values"
[ "$(wc -c <many/report.html)" -lt 200000 ] || fail "many skipped steps make a page of $(wc -c <many/report.html) bytes"

# ---- Several runs ----
expect 0 "" run one long --output several.html
page several.html "3 runs" "steps 30,000" "zinc train --model"

# ---- The log elsewhere ----
mkdir apart
cp run/run.json apart/
expect 1 "apart: holds no metrics.jsonl" apart
expect 0 "" apart --log run/metrics.jsonl
page apart/report.html "Not finished"

# ---- Mistakes ----
expect 1 "nowhere: no such folder" nowhere
expect 1 "run/run.json: is a file" run/run.json
expect 1 "apart: holds no metrics.jsonl" run apart
expect 2 "give the output folder of a run"
expect 2 "at most 8 runs, not 9" run run run run run run run run run --output nine.html
expect 2 "--log is that of one run" run one --log run/metrics.jsonl --output two.html
expect 1 "run/run.json: " run --trace run/run.json
expect 2 "ends in .html" run --output run/metrics.jsonl
expect 1 "no line of it is a step" empty --log run/run.json
expect 1 "cannot create" run --output nowhere/page.html
echo '{"format":99}' >empty/run.json
expect 1 "has format 99" empty

exit $((failures > 0))

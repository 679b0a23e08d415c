#!/bin/bash
# `zinc generate` with a byte-level model of random weights: what is printed where, and what is refused.
# test_generate.sh ZINC SOURCE BUILD
zinc=$1 demo=$2/examples/demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() { echo "FAIL $*"; failures=$((failures + 1)); }

# expect CODE WORDS… -- standard output and standard error are left in $work.
expect()
{
    local code=$1 got
    shift
    "$zinc" generate --model "$work/model" "$@" >"$work/out" 2>"$work/err"
    got=$?
    [ "$got" = "$code" ] || { fail "zinc generate $*: exit code $got, not $code"; cat "$work/err"; }
}
holds() { grep -qF -- "$2" "$work/$1" || { fail "standard $1 does not hold '$2' but:"; cat "$work/$1"; }; }
is_empty() { [ ! -s "$work/$1" ] || { fail "standard $1 is not empty:"; cat "$work/$1"; }; }

"$zinc" train --model "$demo" --from-scratch --data "$demo/demo.txt" --steps 0 --seq-len 64 \
    --output "$work/model" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# One object, new tokens only, the text of the ids.
expect 0 --prompt 'Ah' --max-tokens 20 --json
is_empty err
cp "$work/out" "$work/greedy.json"
python3 - "$work/greedy.json" <<'PYTHON' || fail "the object of --json"
import json, sys
got = json.load(open(sys.argv[1]))
assert list(got) == ["text", "ids", "prompt_ids"], got
assert got["prompt_ids"] == [65, 104], got
assert len(got["ids"]) == 20 or got["ids"][-1] == 256, got
text = bytes(i for i in got["ids"] if i < 256).decode("utf-8", "replace")
assert got["text"] == text, (got["text"], text)
PYTHON

# The same tokens whatever the threads and the instruction set.
for setting in "--threads 1" ""; do
    # shellcheck disable=SC2086  # words on purpose
    expect 0 --prompt 'Ah' --max-tokens 20 --json $setting
    cmp -s "$work/out" "$work/greedy.json" || fail "other tokens with $setting"
done

# Seeds: the same draws the same, another draws others; temperature 0 needs none.
expect 0 --prompt 'Ah' --temperature 1 --seed 3 --json; cp "$work/out" "$work/first"
expect 0 --prompt 'Ah' --temperature 1 --seed 3 --json
cmp -s "$work/out" "$work/first" || fail "one seed, two texts"
expect 0 --prompt 'Ah' --temperature 1 --seed 4 --json
cmp -s "$work/out" "$work/first" && fail "two seeds, one text"
expect 0 --prompt 'Ah' --temperature 1 --top-k 1 --max-tokens 20 --json
cmp -s "$work/out" "$work/greedy.json" || fail "--top-k 1 is not greedy"
expect 0 --prompt 'Ah' --temperature 1 --top-p 0.000001 --max-tokens 20 --json
cmp -s "$work/out" "$work/greedy.json" || fail "a tiny --top-p is not greedy"

# A terminal gets the text as it comes, whole characters only; together it is the same text.
python3 - "$zinc" "$work/model" <<'PYTHON' || fail "the text on a terminal"
import json, os, pty, subprocess, sys
zinc, model = sys.argv[1:]
several = 0
for seed in range(1, 9):
    flags = ["generate", "--model", model, "--prompt", "Ah", "--temperature", "3", "--seed", str(seed), "--max-tokens", "120"]
    whole = json.loads(subprocess.run([zinc, *flags, "--json"], capture_output=True, check=True).stdout)["text"]
    main, side = pty.openpty()
    process = subprocess.Popen([zinc, *flags], stdout=side, stderr=subprocess.DEVNULL)
    os.close(side)
    pieces = []
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    assert process.wait() == 0
    os.close(main)
    shown = b"".join(pieces).decode("utf-8").replace("\r\n", "\n")
    assert shown == whole + "\n", (shown, whole)
    several += any(ord(c) > 127 and c != "\ufffd" for c in whole)
assert several > 0, "no character of several bytes came"
PYTHON
expect 0 --prompt 'Ah' --max-tokens 5
is_empty err
[ "$(cat "$work/out")" = "$(python3 -c 'import json,sys; print(bytes(json.load(open(sys.argv[1]))["ids"][:5]).decode("utf-8","replace"))' "$work/greedy.json")" ] ||
    fail "the text that is not JSON"

# Refusals.
expect 2 --prompt ''
expect 2 --prompt x --max-tokens 0
holds err "--max-tokens"
expect 2 --prompt x --top-p 0
expect 2 --prompt x --top-p 1.5
expect 2 --prompt x --temperature -1
expect 2 --prompt x --max-tokens 512
holds err "the model in $work/model takes at most 512 in all"
is_empty out
expect 2 --prompt x --chat
holds err "no chat template"
expect 1 --prompt x --memory-limit 1MiB
holds err "the limit is 1.00 MiB"
"$zinc" generate --prompt x >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "no --model"
if [ -w /dev/full ]; then
    "$zinc" generate --model "$work/model" --prompt x --max-tokens 2 >/dev/full 2>"$work/err"
    [ $? = 1 ] || fail "text to a full disk succeeded"
fi

# The end of text ends it: config.json names an id that comes early.
first=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["ids"][0])' "$work/greedy.json")
sed -i "s/\"eos_token_id\": *256/\"eos_token_id\": [256, $first]/" "$work/model/config.json"
expect 0 --prompt 'Ah' --max-tokens 20 --json
holds out "\"ids\":[$first],"

exit $((failures > 0))

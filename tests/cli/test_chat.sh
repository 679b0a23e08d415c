#!/bin/bash
# Conversations, prompts from files and standard input, and stop strings of `zinc generate`, with a small model of random
# weights that has a tokenizer and a chat template.
# test_chat.sh ZINC SOURCE BUILD
zinc=$1 source=$2
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak
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

mkdir "$work/made"
cp "$source"/tests/data/chat/bytes/tokenizer*.json "$work/made"
sed 's/"vocab_size": 257/"vocab_size": 380/; s/"max_position_embeddings": 512/"max_position_embeddings": 2048/
     s/"eos_token_id": 256/"eos_token_id": 2/' "$source/examples/demo/config.json" >"$work/made/config.json"
"$zinc" train --model "$work/made" --from-scratch --data "$source/examples/demo/demo.txt" --steps 0 --seq-len 64 \
    --output "$work/model" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# A conversation, whose cache is kept, has the tokens of each of its prompts computed from the beginning; drawn at random, a
# logit that differs would show. Answers of random bytes are encoded otherwise than they were drawn: only a begin is kept.
cat >"$work/talk.py" <<'PYTHON'
import json, subprocess, sys
zinc, model, work = sys.argv[1:]
draw = ["--temperature", "1", "--seed", "5", "--max-tokens", "30", "--json"]

def generate(*flags, given=None):
    run = subprocess.run([zinc, "generate", "--model", model, "--chat", *draw, *flags], input=given, capture_output=True)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]

says = ["Hello", "What is that?", "And then?", " /etc is a folder", "Größe und Maß", "x" * 300]
for penalty in ["1", "1.3"]:
    flags = ["--system", "Be brief.", "--repetition-penalty", penalty]
    talk = generate(*flags, given="\n".join(says).encode() + b"\n")
    assert len(talk) == len(says), talk
    messages = []
    for text, answer in zip(says, talk):
        messages.append({"role": "user", "content": text.removeprefix(" ") if text[:2] == " /" else text})
        with open(work + "/row.jsonl", "w") as file:
            file.write(json.dumps({"messages": messages}) + "\n")
        alone = generate(*flags, "--prompts", work + "/row.jsonl")
        assert alone == [answer], (text, alone, answer)
        messages.append({"role": "assistant", "content": answer["text"]})

# /reset forgets, /system replaces; both begin anew.
first = generate(given=b"Hello\n")[0]
talk = generate(given=b"What?\n/reset\nHello\n/system Be brief.\nHello\n/system\nHello\n/quit\nHello\n")
assert len(talk) == 4 and talk[1] == first and talk[3] == first, talk
assert talk[2] == generate("--system", "Be brief.", given=b"Hello\n")[0], talk

# Several prompts: rows and lines; each as if it were alone.
with open(work + "/prompts.jsonl", "w") as file:
    for text in says:
        file.write(json.dumps({"prompt": text}) + "\n\n")
with open(work + "/prompts.txt", "w") as file:
    file.write("\n".join(says) + "\n")
rows, lines = (generate("--prompts", work + "/prompts" + kind) for kind in [".jsonl", ".txt"])
assert rows == lines and rows == [generate("--prompt", text)[0] for text in says], rows
assert rows[0] == generate("--prompt", "-", given=b"Hello\n")[0]
assert rows == generate("--prompts", work + "/prompts.jsonl", "-n", "2")

# A stop string: the ids up to the token that ends it, the text before it; the first of several counts.
whole = generate("--prompt", "Hello")[0]
part = whole["text"][5:8]
cut = generate("--prompt", "Hello", "--stop", "never comes", part)[0]
assert cut["text"] == whole["text"][:whole["text"].index(part)], (cut, whole)
n = len(cut["ids"])
assert 0 < n < len(whole["ids"]) and cut["ids"] == whole["ids"][:n], (cut, whole)
PYTHON
python3 "$work/talk.py" "$zinc" "$work/model" "$work" || fail "a conversation"

# On a terminal: editing, history, pasted lines, ^C at the prompt and in an answer, ^D. What was sent is read from the ids.
cat >"$work/terminal.py" <<'PYTHON'
import json, os, pty, re, select, subprocess, sys, time
zinc, model = sys.argv[1:]
main, side = pty.openpty()
flags = ["generate", "--model", model, "--chat", "--temperature", "1", "--seed", "7", "--max-tokens"]
process = subprocess.Popen([zinc, *flags, "12", "--json"], stdin=side, stdout=side, stderr=side, start_new_session=True,
                           preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
                           env={**os.environ, "TERM": "xterm", "LC_ALL": "C"})
os.close(side)
seen = b""

def wait(pattern, start=0):
    global seen
    end = time.time() + 60
    while not re.search(pattern, seen[start:]):
        assert time.time() < end and process.poll() is None, seen
        if select.select([main], [], [], 0.2)[0]:
            seen += os.read(main, 65536)

def send(keys, pattern):
    start = len(seen)
    os.write(main, keys)
    wait(pattern, start)
    return seen[start:]

def answered(keys):
    text = send(keys, rb'"prompt_ids":\[[0-9,]*\]\}')
    wait(rb"> ", len(seen) - 2)
    ids = json.loads(re.search(rb'\{"text".*\}', text).group().decode("utf-8", "replace"))["prompt_ids"]
    return subprocess.run([zinc, "tokenize", "--model", model, "--json", "--decode", *map(str, ids)], capture_output=True,
                          check=True).stdout.decode("utf-8")

wait(rb"> ")
assert "user\\nHello<" in answered(b"Helo\x1b[D" + b"l" + b"\x1b[C\r"), seen
assert "user\\nGrößer<" in answered("rößeX\x7fr\x1b[HG\x1b[F\r".encode()), seen
assert answered(b"\x1b[A\x1b[A\r").count("user\\nHello<") == 2, seen
assert "user\\none\\ntwo<" in answered(b"\x1b[200~one\rtwo\x1b[201~\r"), seen
send(b"never sent\x03", rb"\n.*> ")
text = answered(b"last\r")
assert "never" not in text and "user\\nlast<" in text, text
send(b"/help\r", rb"/system TEXT[^>]*> $")
os.write(main, b"\x04")
assert process.wait(60) == 0
os.close(main)
PYTHON
python3 "$work/terminal.py" "$zinc" "$work/model" || fail "a conversation on a terminal"

# ^C ends an answer; what there is of it stays, and the conversation goes on. The signal comes after the first characters.
cat >"$work/stop.py" <<'PYTHON'
import os, pty, re, signal, subprocess, sys
zinc, model = sys.argv[1:]
main, side = pty.openpty()
process = subprocess.Popen([zinc, "generate", "--model", model, "--chat", "--temperature", "1", "--seed", "7", "--top-k", "300"],
                           stdin=subprocess.PIPE, stdout=side, stderr=subprocess.PIPE)
os.close(side)

def read(until):
    seen = b""
    while not until(seen):
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        seen += piece
    return seen

process.stdin.write(b"Hello\n")
process.stdin.flush()
read(lambda seen: len(seen) > 3)
process.send_signal(signal.SIGINT)
process.stdin.write(b"And?\n")
process.stdin.close()
read(lambda seen: False)
assert process.wait(60) == 0, process.stderr.read()
PYTHON
python3 "$work/stop.py" "$zinc" "$work/model" || fail "an answer that is stopped"

# Refusals, each with what to do.
expect 2 ; holds err "--chat alone for a conversation"
expect 2 --prompt x --prompts y; holds err "give one of them"
expect 2 --prompt x --system y; holds err "--system needs --chat"
expect 2 --prompt x --stop ''; holds err "--stop"
expect 2 --prompt x --repetition-penalty 0; holds err "--repetition-penalty"
expect 2 --chat -n 2; holds err "leave -n off"
expect 2 --prompt - -n 2; holds err "--prompts"
expect 2 --chat --seq-len 4096; holds err "takes at most 2048"
expect 2 --prompt x --max-tokens 20 --seq-len 20; holds err "--seq-len 20"
expect 1 --prompts "$work/none.txt"; holds err "none.txt"
: >"$work/empty.txt"
expect 1 --prompts "$work/empty.txt"; holds err "there is no prompt in it"
echo '{"text":"x"}' >"$work/text.jsonl"
expect 1 --prompts "$work/text.jsonl"; holds err "text.jsonl:1: "
echo '{"messages":[]}' >"$work/messages.jsonl"
expect 1 --prompts "$work/messages.jsonl"; holds err "give --chat"
printf 'x%.0s' {1..3000} >"$work/long.txt"
expect 0 --chat <"$work/long.txt"; holds err "begin anew (/reset)"

exit $((failures > 0))

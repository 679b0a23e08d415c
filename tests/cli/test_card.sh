#!/usr/bin/env bash
# The model card: what it says, --no-card, and whose README.md stays.
# test_card.sh ZINC SOURCE BUILD
set -euo pipefail
zinc=$1 data=$2/tests/data/parity
export OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "failed: $*" >&2
    exit 1
}

train() {
    "$zinc" train --data "$data/tokens.bin" --seq-len 16 --threads 1 --steps "${steps:-2}" "$@" >out 2>err || fail "$* : $(cat err)"
}

has() {
    grep -qxF -e "$1" "$card" || fail "$card has no line '$1': $(cat "$card")"
}

has_no() {
    ! grep -qE "$1" "$card" || fail "$card has '$1': $(cat "$card")"
}

# The source has a card with a licence in three keys; nothing else of it is taken.
cp -r "$data/llama3" source
printf -- '---\nlicense:\n- other\nlanguage: en\nlicense_name: "my licence"\nbase_model: someone/else\nlicense_link: LICENSE\n---\n# Theirs\nlicense: not this\n' \
    >source/README.md
train --model source --eval-data "$data/tokens.bin" --output one --no-shuffle --lr 0.001
card=one/README.md
for line in 'library_name: transformers' 'base_model: "source"' 'license:' '- other' 'license_name: "my licence"' 'license_link: LICENSE' \
    'pipeline_tag: text-generation' '- zinc' '- `tokens.bin`' '- `tokens.bin` (held out)' '| `--lr` | 0.001 |' '| `--steps` | 2 |' \
    '| `--no-shuffle` | yes |' '| ranks | 1 |' "$(printf '# one')"; do
    has "$line"
done
has_no 'language|someone|Theirs|not this|--threads. \|'
grep -q '^zinc train .*--output one' "$card" || fail "no command line: $(cat "$card")"
grep -q "^zinc $("$zinc" version --json 2>/dev/null | sed -nE 's/.*"version": ?"([^"]+)".*/\1/p')" "$card" || fail "no version: $(cat "$card")"

# The losses are those of the log.
python3 - <<'PYTHON'
import json
rows = [json.loads(line) for line in open("one/metrics.jsonl")]
card = open("one/README.md").read()
for row in rows:
    if "loss" in row:
        assert "| training, step %d | %.4f |" % (row["step"], row["loss"]) in card, (row, card)
assert "| held out, before step 1 | %.4f |" % rows[0]["eval_loss"] in card, card
assert "| held out, step 2 | %.4f |" % rows[-1]["eval_loss"] in card, card
PYTHON

# A card of ours is replaced; one that was edited stays, which is said; so does a stranger's.
train --model source --output one --overwrite --lr 0.002
has '| `--lr` | 0.002 |'
echo 'By me.' >>one/README.md
train --model source --output one --overwrite --lr 0.003
has '| `--lr` | 0.002 |'
grep -q 'one/README.md was not written by zinc, or was edited: it stays as it is' out err || fail "nothing is said: $(cat out err)"
mkdir two
echo '# Mine' >two/README.md
train --model source --output two
[ "$(cat two/README.md)" = '# Mine' ] || fail "a stranger's README.md is replaced"

# --no-card writes none, and takes away the card of a run that is replaced; not a stranger's.
train --model source --output three
train --model source --output three --overwrite --no-card
[ ! -e three/README.md ] || fail "--no-card leaves $(cat three/README.md)"
train --model source --output two --overwrite --no-card
[ "$(cat two/README.md)" = '# Mine' ] || fail "--no-card removes a stranger's README.md"

# From scratch there is no base, and no licence of its weights; adapters are PEFT's.
train --model source --output scratch --from-scratch
card=scratch/README.md
has_no '^base_model|^license'
train --model source --output adapters --lora-rank 2
card=adapters/README.md
for line in 'library_name: peft' 'base_model: "source"' '- lora' '| `--lora-rank` | 2 |' '| `--lora-alpha` | 4 |'; do
    has "$line"
done

# A snapshot of the hub's cache has its name on the hub. Names that are no UTF-8 or hold Markdown do no harm.
mkdir -p cache/models--org--name/snapshots/0123
cp "$data"/llama3/* cache/models--org--name/snapshots/0123
HF_HUB_CACHE=$work/cache train --model org/name --output hub
card=hub/README.md
has 'base_model: "org/name"'
odd=$(printf 'a`b|c\nd\377.bin')
cp "$data/tokens.bin" "$odd"
"$zinc" train --model source --data "$odd" --seq-len 16 --threads 1 --steps 1 --output odd >out 2>err || fail "$(cat err)"
card=odd/README.md
grep -q "^- \`a'b|c d.*\.bin\`$" "$card" || fail "$(cat "$card")"
iconv -f UTF-8 -t UTF-8 "$card" >/dev/null || fail "the card is no UTF-8"

# A run that was stopped and goes on: the card has its last step, and the first it made.
train --model source --output long --save all
steps=4 train --model source --output long --resume
card=long/README.md
grep -q '^| training, step 3 |' "$card" && grep -q '^| training, step 4 |' "$card" || fail "$(cat "$card")"

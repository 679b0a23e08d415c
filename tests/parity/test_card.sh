#!/bin/bash
# Model cards as huggingface_hub reads them.
# usage: test_card.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 here=$2/tests/parity data=$2/tests/data/parity
source "$here/venv.sh"
"$python" -c 'import huggingface_hub' 2>/dev/null || skip "$python has no huggingface_hub"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cp -r "$data/llama3" "$work/SmolLM2-135M"
printf -- '---\nlicense: apache-2.0\nlanguage:\n- en\ntags:\n- theirs\n---\n# Theirs\n' >"$work/SmolLM2-135M/README.md"
run() {
    "$zinc" train --model "$work/SmolLM2-135M" --data "$data/tokens.bin" --eval-data "$data/tokens.bin" --steps 2 --seq-len 16 \
        "$@" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
}
run --output "$work/model"
run --output "$work/adapter" --lora-rank 2
run --output "$work/scratch" --from-scratch
"$python" - "$work" <<'PYTHON'
import sys
from huggingface_hub import ModelCard

for name, want in {"model": ("transformers", "SmolLM2-135M", "apache-2.0", ["zinc"]),
                   "adapter": ("peft", "SmolLM2-135M", "apache-2.0", ["zinc", "lora"]),
                   "scratch": ("transformers", None, None, ["zinc"])}.items():
    card = ModelCard.load(f"{sys.argv[1]}/{name}/README.md")
    data = card.data
    got = (data.library_name, data.base_model, data.license, data.tags)
    assert got == want, (name, got)
    assert data.pipeline_tag == "text-generation" and "language" not in data.to_dict(), data.to_dict()
    assert card.text.lstrip().startswith(f"# {name}\n"), card.text
    print(name, data.to_dict())
PYTHON

#!/bin/bash
# The tutorials that train, with the real model: every command succeeds, within the limits that the pages state, and the held-out loss
# falls.
# usage: test_tutorials.sh PROGRAM SOURCE_DIR BUILD_DIR
set -u
zinc=$1 source=$2 here=$2/tests/parity
source "$here/venv.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL $*"; exit 1; }
source "$here/smollm2.sh"
export OMP_WAIT_POLICY=passive REAL_MODEL=$model
source "$source/tests/docs/fixtures.sh"
make_fixtures "$work/fixtures"
mkdir "$work/pages"
cd "$source" || exit 1
python3 tests/docs/run_pages.py tests/docs/substitutions_real.txt "$source" "$work/fixtures" "$work/pages" docs/tutorials/finetune.md \
    docs/tutorials/lora.md || exit 1
python3 - "$work/pages/docs-tutorials-finetune.md/owl" "$work/pages/docs-tutorials-lora.md/owl-adapter" <<'PYTHON'
import json, sys
for folder, limit in zip(sys.argv[1:], (512, 200)):
    rows = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    before, after, held = rows[0]["eval_loss"], rows[-1]["eval_loss"], rows[-1]["memory"]["resident"] / 2**20
    print(f"{folder.rsplit('/', 1)[-1]}: held-out loss {before:.4f}, after {len(rows) - 1} steps {after:.4f}; {held:.0f} MiB of {limit} resident")
    assert after < before and held <= limit, (before, after, held)
PYTHON

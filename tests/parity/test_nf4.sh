#!/bin/bash
# NF4 against bitsandbytes on 10,000 blocks: codes and first scales identical, the mean within 1 ulp, second codes identical given that
# mean, and the same values widened. tests/device/test_quantise.c does so with fewer blocks and without Python.
# test_nf4.sh ZINC SOURCE BUILD
set -u
source "$2/tests/parity/venv_bitsandbytes.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$python" "$2/tests/parity/make_nf4.py" "$work/nf4.safetensors" 10000 2>"$work/err" || { cat "$work/err"; exit 1; }
ZINC_NF4_REFERENCE=$work/nf4.safetensors "$3/tests/device.test_quantise" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
grep '^10000 blocks' "$work/out"

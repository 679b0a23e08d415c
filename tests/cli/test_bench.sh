#!/bin/bash
# `zinc bench`: the measurements there are, and what they print.
# test_bench.sh ZINC SOURCE BUILD
zinc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE WORDS… -- what standard output and standard error hold is left in $work.
expect()
{
    local code=$1 got
    shift
    "$zinc" "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ "$got" != "$code" ]; then
        echo "zinc $*: exit code $got, not $code"
        cat "$work/err"
        failures=$((failures + 1))
    fi
}

# holds FILE TEXT
holds()
{
    if ! grep -qF -- "$2" "$work/$1"; then
        echo "standard $1 does not hold '$2' but:"
        cat "$work/$1"
        failures=$((failures + 1))
    fi
}

expect 0 bench --help
holds out "measurements:"
for name in adam gemm io comm step; do
    holds out "  $name "
done
expect 2 bench
holds err "zinc bench: which one?"
expect 2 bench oi
holds err "zinc bench: unknown measurement oi"
expect 0 bench io --help
holds out "usage: zinc bench io"
expect 2 bench io --sise 1GiB
holds err "zinc bench io: unknown flag --sise, did you mean --size"
expect 2 bench io --size 1MiB
holds err "zinc bench io: --size: 1048576 bytes are too few"
expect 1 bench io --nvme-path "$work/none"
holds err "zinc bench io: $work/none: cannot make a swap file here: No such file or directory"
ZINC_STORAGE_FAULT=9:EIO expect 1 bench io --nvme-path "$work" --size 128MiB --allow-buffered-swap
holds err "zinc bench io: $work: cannot "
holds err "Input/output error"

# What is printed adds up; how long anything takes decides nothing.
cat >"$work/check.py" <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
def near(a, b): assert abs(a / b - 1) < 1e-6, (a, b)
if r["benchmark"] == "gemm":
    assert [p["name"].split(".", 2)[2] for p in r["products"]] == ["forward.fp32", "dX.fp32", "dW.fp32", "forward.bf16", "dX.bf16"], r
    assert all(p["m"] * p["n"] * p["k"] == 16 * 576 * 192 for p in r["products"]) and r["fma_peak_gflops"] > 0, r
if r["benchmark"] == "comm":
    assert r["ranks"] == 3 and [s["bytes"] for s in r["sizes"]] == [1 << 20, 8 << 20, 64 << 20], r
    assert all(s[k] > 0 for s in r["sizes"] for k in ("gather", "reduce_fp32", "reduce_bf16", "copy")), r
if r["benchmark"] == "step":
    n = r["micro_batch"] * r["seq_len"]
    near(r["tokens_per_second"], n / r["seconds"]["median"])
    near(r["share_of_products"], (r["products_seconds"]["median"] + r["attention_products_seconds"]) / r["seconds"]["median"])
    # Flops of all linear layers and the head: 2 forward and 4 backward for each weight, less dX of the first, which is looked up.
    near(r["products_gflops"] * 1e9 * r["products_seconds"]["median"], 6.0 * n * int(sys.argv[2]))
    assert sum(r["kernels"].values()) <= r["recorded_seconds"] and {"gemm", "adam", "attention_backward"} <= set(r["kernels"]), r
if r["benchmark"] == "sweep":
    assert [row["varies"] for row in r["rows"]] == ["layers", "width", "window", "ranks", "states on NVMe"], r
    assert [len(row["points"]) for row in r["rows"]] == [3, 3, 3, 1, 3], r
    assert all(p["seconds"] > 0 for row in r["rows"] for p in row["points"]), r
PYTHON
check() { python3 "$work/check.py" "$work/out" "$@" || failures=$((failures + 1)); }
expect 0 bench gemm --only smollm2-135m.kv --tokens 16 --rounds 1 --threads 1 --json; check
expect 2 bench gemm --only none
holds err "no product has that in its name"
expect 0 bench comm --ranks 3 --rounds 1 --json; check
cat >"$work/config.json" <<'JSON'
{"model_type": "llama", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false}
JSON
weights=$((2 * (64 * 64 * 2 + 2 * 32 * 64 + 3 * 64 * 96) + 300 * 64))
expect 0 bench step --model "$work" --micro-batch 2 --seq-len 48 --rounds 2 --threads 1 --json; check $weights
expect 0 bench step --model "$work" --precision bf16 --micro-batch 1 --seq-len 32 --rounds 1 --threads 1
holds out "of the speed of its products alone"
expect 1 bench step --model "$work/none"
expect 2 bench step --sweep --seq-len 32
holds err "--sweep has a model of its own; leave --seq-len out"
expect 0 bench step --sweep --rounds 1 --threads 1 --nvme-path "$3" --json; check

# One update for each line, and its seconds.
printf 'fp32\nbf16\nfp32-streams\nbf16-streams\nfp32\n' |
    "$zinc" bench adam --elements 100000 --threads 1 --on-request >"$work/out" 2>"$work/err" ||
    { echo "bench adam --on-request: $(cat "$work/err")"; failures=$((failures + 1)); }
python3 - "$work/out" <<'PYTHON' || failures=$((failures + 1))
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r["kind"] for r in rows] == ["fp32", "bf16", "fp32-streams", "bf16-streams", "fp32"], rows
assert all(r["seconds"] > 0 for r in rows), rows
PYTHON
expect 2 bench adam --elements 100000 --on-request <<<fp64
holds err "zinc bench adam: --on-request: 'fp64' is not one of: fp32 fp32-streams bf16 bf16-streams"

mkdir "$work/a" "$work/b"
expect 0 bench io --nvme-path "$work/a" "$work/b" --size 64MiB --rounds 2 --json --allow-buffered-swap
python3 - "$work/out" "$work/a" "$work/b" "$(command -v fio)" <<'PYTHON' || failures=$((failures + 1))
import json, sys
found = json.load(open(sys.argv[1]))
assert found["benchmark"] == "io" and found["cpu"] and found["cores"] >= 1 and found["kernel"], found
assert found["paths"] == sys.argv[2:4] and found["bytes"] == 64 << 20 and found["rounds"] == 2, found
assert "2 paths, blocks of " in found["storage"], found
assert (found["fio"] is not None) == bool(sys.argv[4]), found
for mode in "read", "write", "mixed":
    figure = found[mode]
    assert figure["bytes_per_second"] > 0, figure
    if found["fio"] is None:
        assert figure["fio"] is None and figure["ratio"] is None and figure["best_ratio"] is None, figure
    else:
        assert figure["best_fio"] >= figure["fio"] > 0 and figure["ratio"] > 0 and figure["best_ratio"] > 0, figure
        assert figure["best_fio_depth"] in (1, 8, 32), figure
PYTHON

# Without fio there is nothing to compare with, and it says so.
mkdir "$work/bin"
expect 0 bench io --nvme-path "$work" --size 64MiB --rounds 1 --allow-buffered-swap
PATH=$work/bin expect 0 bench io --nvme-path "$work" --size 64MiB --rounds 1 --allow-buffered-swap
holds out "fio is not on PATH"
[ -z "$(find "$work" -name '*swap*')" ] || { echo "a swap file is left"; failures=$((failures + 1)); }
exit $((failures > 0))

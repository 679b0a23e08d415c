#!/bin/bash
# Numbers that are not finite: held-out losses are shown, logged and fail `zinc eval`; flags that would make them, and files that
# could not be written at the end, are refused before anything is done. test_finite.sh ZINC SOURCE BUILD
set -u
zinc=$1 data=$2/tests/data/parity
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

# ---- Held-out losses ----

# Token 100, which the training data does not have, is embedded as infinity; in the held-out data it is in the second window.
python3 - "$data" <<'PYTHON' || exit 1
import json, shutil, struct, sys
data = sys.argv[1]
shutil.copytree(data + "/llama2", "model")
with open("model/model.safetensors", "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    at = json.loads(f.read(n))["model.embed_tokens.weight"]
    assert at["dtype"] == "BF16"
    width = at["shape"][1]
    f.seek(8 + n + at["data_offsets"][0] + 100 * width * 2)
    f.write(b"\x80\x7f" * width)
tokens = bytearray(open(data + "/tokens.bin", "rb").read()[:1024 + 2 * 81])
struct.pack_into("<i", tokens, 8, 81)
open("finite.bin", "wb").write(tokens)
struct.pack_into("<H", tokens, 1024 + 2 * 20, 100)
open("held-out.bin", "wb").write(tokens)
PYTHON
common=(--model model --seq-len 16 --threads 1)

"$zinc" eval "${common[@]}" --data held-out.bin --json >out 2>err
code=$?
[ $code = 1 ] || fail "eval: code $code"
python3 - <<'PYTHON' || fail "eval --json: $(cat out)"
import json
def refuse(word):
    raise ValueError(word)
result = json.load(open("out"), parse_constant=refuse)
assert result == {"loss": None, "perplexity": None, "windows": 5, "examples": 0, "tokens": 80, "targets": 80,
                  "reason": "the loss of window 2 of 5 is not finite"}
PYTHON
grep -qx 'zinc eval: the loss of window 2 of 5 is not finite' err || fail "eval: $(cat err)"
"$zinc" eval "${common[@]}" --data held-out.bin >out 2>err && fail "eval without --json: code 0"
[ -s out ] && fail "eval without --json: prints $(cat out)"
"$zinc" eval "${common[@]}" --data finite.bin --json >out 2>err || fail "eval of finite data: $(cat err)"
grep -q '^{"loss":[0-9.]*,"perplexity":[0-9.]*,"windows":5,"examples":0,"tokens":80,"targets":80}$' out || fail "eval of finite data: $(cat out)"

# trains NAME FLAGS…: the loss is not finite before training and at steps 1 and 2, and nothing else
trains()
{
    local name=$1 text='the loss of window 2 of 5 is not finite'
    "$zinc" train "${common[@]}" --data "$data/tokens.bin" --eval-data held-out.bin --eval-every 1 --steps 2 --output "$name" \
        "${@:2}" >"$name.out" 2>"$name.err" || fail "$name: code $?: $(cat "$name.err")"
    [ "$(grep -c "^step .* held-out loss not finite: $text" "$name.out")" = 2 ] || fail "$name: shows $(cat "$name.out")"
    [ "$(grep -c "\"loss\":[0-9].*,\"eval_loss\":null,\"eval_reason\":\"$text\"," "$name/metrics.jsonl")" = 2 ] ||
        fail "$name: logs $(cat "$name/metrics.jsonl")"
    grep -qx "before training: held-out loss not finite: $text" "$name.out" || fail "$name: shows $(cat "$name.out")"
    grep -qx "{\"step\":0,\"eval_loss\":null,\"eval_reason\":\"$text\"}" "$name/metrics.jsonl" ||
        fail "$name: logs $(head -1 "$name/metrics.jsonl")"
}
trains one
if command -v mpirun >/dev/null; then
    trains two -n 2
fi
"$zinc" report one --output one.html >out 2>err || fail "report: $(cat err)"

# ---- What is refused before anything is done ----

# refuses TEXT FLAGS…: code 2, the text, and no output folder
refuses()
{
    local text=$1 code
    "$zinc" train "${common[@]}" --data "$data/tokens.bin" --steps 1 --output refused "${@:2}" >out 2>err
    code=$?
    [ $code = 2 ] || fail "${*:2}: code $code: $(cat err)"
    grep -qF -- "zinc train: $text" err || fail "${*:2}: says $(cat err)"
    [ -e refused ] && fail "${*:2}: left an output folder"
    rm -rf refused
}
for value in nan NaN -nan 'nan(1)' inf -inf Infinity 1e999; do
    for flag in --eps --lr --min-lr --beta1 --beta2 --momentum --weight-decay --clip --epochs --loss-scale-init --loss-scale-min; do
        refuses "$flag: '$value' is not a finite number" $flag="$value"
    done
    refuses "--loss-scale: '$value' is neither" --precision fp16 --loss-scale="$value"
    refuses "--warmup: '$value' is not a whole number" --warmup="$value"
    refuses "--memory-limit: '$value' is not a size" --memory-limit="$value"
done
refuses "--eps: 0 is not in (0, inf)" --eps 0
refuses "--eps 1e-50: must be above 0 in fp32" --eps 1e-50
refuses "--lr 1e+39: is not a finite number of fp32" --lr 1e39
refuses "--epochs: 1e30 is not in (0, 1e6]" --epochs 1e30
refuses "--loss-scale: '1e39' is neither" --loss-scale 1e39
refuses "--loss-scale-init: 1e300 is not in" --loss-scale-init 1e300

# A file that could not be written, before the data are encoded.
mkdir folder
for flag in --log --trace; do
    refuses "$flag /nowhere/file: cannot be written: No such file or directory" $flag /nowhere/file
    refuses "$flag folder: cannot be written: Is a directory" $flag folder
    refuses "$flag refused/deep/file: cannot be written: No such file or directory" $flag refused/deep/file
done
echo kept >kept
refuses "--trace folder: cannot" --log kept --trace folder
[ "$(cat kept)" = kept ] || fail "a refused run changed its log"
"$zinc" train "${common[@]}" --data "$data/tokens.bin" --steps 1 --output ./inside --log inside/log --trace ./inside/trace \
    >out 2>err || fail "files in an output folder that is not there yet: $(cat err)"
[ -s inside/log ] && [ -s inside/trace ] || fail "files in the output folder: $(ls inside)"

exit $((failures > 0))

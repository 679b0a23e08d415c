# Sourced by the test of TensorBoard's files. Sets $python to an interpreter with TensorBoard, installed once into
# ${XDG_CACHE_HOME:-~/.cache}/zinc/venv-tensorboard, apart from the large environment of venv.sh; ZINC_TENSORBOARD_VENV names one
# that has it already. Ends the script with 77 (skipped) and says why where it cannot be had.
tensorboard_pin=2.21.0

skip() {
    echo "skipped: $*"
    exit 77
}

tensorboard_venv() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/zinc
    local dir=$cache/venv-tensorboard stamp=$cache/venv-tensorboard/.has-$tensorboard_pin
    python=$dir/bin/python
    [[ -e $stamp ]] && return
    command -v python3 >/dev/null || skip "python3 is not installed"
    mkdir -p "$cache" || skip "cannot write to $cache"
    echo "installing tensorboard into $dir, once"
    rm -rf "$dir"
    python3 -m venv "$dir" >"$cache/venv-tensorboard.log" 2>&1 || skip "python3 -m venv does not work (Debian: python3-venv)"
    "$dir/bin/pip" install --quiet "tensorboard==$tensorboard_pin" >>"$cache/venv-tensorboard.log" 2>&1 ||
        skip "pip cannot install tensorboard: $(tail -1 "$cache/venv-tensorboard.log")"
    touch "$stamp"
}

if [[ -n ${ZINC_TENSORBOARD_VENV:-} ]]; then
    python=$ZINC_TENSORBOARD_VENV/bin/python
else
    tensorboard_venv
fi
"$python" -c 'import tensorboard.backend.event_processing.event_accumulator' 2>/dev/null ||
    skip "$python cannot import tensorboard"

# Sourced by the tests that need Python. Sets $python to an interpreter with the pinned packages, installing them once
# into ${XDG_CACHE_HOME:-~/.cache}/zinc/venv; ZINC_VENV names an environment that has them already. Ends the script
# with 77 (skipped) and says why where they cannot be had.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/zinc
torch_pin=2.13.0
pins=(transformers==5.22.2 safetensors==0.8.0 numpy==2.4.6 gguf==0.19.0 tokenizers==0.23.3 ml_dtypes==0.6.0)
peft_pins=(peft==0.21.2 accelerate==1.15.0 psutil==7.2.2)
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1 TOKENIZERS_PARALLELISM=false

skip() {
    echo "skipped: $*"
    exit 77
}

# PyPI's torch for Linux wants CUDA's libraries and cannot be imported without them; the CPU build of PyTorch's own
# index wants none. Triton and cuda-bindings (0.7 GB) are never needed here.
install_torch() {
    "$1/bin/pip" install --quiet --no-deps --retries 0 --timeout 15 \
        --index-url https://download.pytorch.org/whl/cpu "torch==$torch_pin+cpu" 2>/dev/null ||
        "$1/bin/pip" install --quiet --no-deps "torch==$torch_pin" || return 1
    local wanted
    mapfile -t wanted < <("$1/bin/python" -c '
from importlib.metadata import requires
for r in requires("torch"):
    if "extra ==" not in r and not r.startswith(("triton", "cuda-bindings")):
        print(r)')
    "$1/bin/pip" install --quiet "${wanted[@]}"
}

make_venv() {
    local dir=$cache/venv
    local stamp="$dir/.has-$(printf '%s\n' "torch==$torch_pin" "${pins[@]}" | cksum | cut -d' ' -f1)"
    python=$dir/bin/python
    [[ -e $stamp ]] && return
    command -v python3 >/dev/null || skip "python3 is not installed"
    command -v flock >/dev/null || skip "flock (util-linux) is not installed"
    mkdir -p "$cache" || skip "cannot write to $cache"
    exec 9>"$cache/venv.lock"
    flock 9                                    # tests run side by side; one of them installs
    if [[ ! -e $stamp ]]; then
        echo "installing torch and transformers into $dir, once"
        rm -rf "$dir"
        python3 -m venv "$dir" >"$cache/venv.log" 2>&1 || skip "python3 -m venv does not work (Debian: python3-venv)"
        { install_torch "$dir" && "$dir/bin/pip" install --quiet "${pins[@]}"; } >>"$cache/venv.log" 2>&1 ||
            skip "pip cannot install the packages: $(tail -1 "$cache/venv.log")"
        "$python" -c 'import torch, transformers, gguf, tokenizers, ml_dtypes' >>"$cache/venv.log" 2>&1 ||
            skip "the installed packages do not work: $(tail -1 "$cache/venv.log")"
        touch "$stamp"
    fi
    exec 9>&-
}

if [[ -n ${ZINC_VENV:-} ]]; then
    python=$ZINC_VENV/bin/python
    "$python" -c 'import torch, transformers' 2>/dev/null || skip "ZINC_VENV=$ZINC_VENV has no torch and transformers"
else
    make_venv
fi

# For the tests of adapters: PEFT, beside the other packages. Without its dependencies, which are there but for those named; pip
# would add what torch does without.
need_peft() {
    local stamp=$cache/venv/.has-peft-$(printf '%s\n' "${peft_pins[@]}" | cksum | cut -d' ' -f1)
    if [[ -z ${ZINC_VENV:-} && ! -e $stamp ]]; then
        exec 9>"$cache/venv.lock"
        flock 9
        [[ -e $stamp ]] || "$python" -m pip install --quiet --no-deps "${peft_pins[@]}" >>"$cache/venv.log" 2>&1 ||
            skip "pip cannot install peft: $(tail -1 "$cache/venv.log")"
        touch "$stamp"
        exec 9>&-
    fi
    "$python" -c 'import peft' 2>/dev/null || skip "$python has no peft"
}

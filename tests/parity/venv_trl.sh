# Sourced after venv.sh by the test of preference tuning. Adds TRL and what it needs to $python's path, installed once into
# ${XDG_CACHE_HOME:-~/.cache}/zinc/trl-HASH, apart from the other packages; ZINC_TRL names a folder that has them already. Ends the
# script with 77 (skipped) and says why where they cannot be had.
trl_pins=(trl==1.16.0 datasets==5.2.0 pyarrow==24.0.0 dill==0.4.1 multiprocess==0.70.19 xxhash==4.1.0 pandas==3.1.1
    python-dateutil==4.0.0 six==1.17.0 httpx==0.28.1 httpcore==1.0.9 h11==0.16.0 anyio==4.16.0 idna==3.20 certifi==2026.10.18 sniffio==1.3.1)

# Without dependencies: torch and transformers are $python's.
install_trl() {
    local dir=$cache/trl-$(printf '%s\n' "${trl_pins[@]}" | cksum | cut -d' ' -f1)
    trl=$dir
    [[ -e $dir ]] && return
    exec 9>"$cache/trl.lock"
    flock 9
    if [[ ! -e $dir ]]; then
        echo "installing trl into $dir, once"
        rm -rf "$dir.part"
        "$python" -m pip install --quiet --no-deps --target "$dir.part" "${trl_pins[@]}" >"$cache/trl.log" 2>&1 ||
            skip "pip cannot install trl: $(tail -1 "$cache/trl.log")"
        mv "$dir.part" "$dir"
    fi
    exec 9>&-
}

if [[ -n ${ZINC_TRL:-} ]]; then
    trl=$ZINC_TRL
else
    install_trl
fi
export PYTHONPATH=$trl${PYTHONPATH:+:$PYTHONPATH}
"$python" -c 'import trl, datasets' 2>/dev/null || skip "$python cannot import trl"

# Sourced by the test of NF4. Sets $python to the interpreter of venv.sh and puts bitsandbytes on its path, installed once into
# ${XDG_CACHE_HOME:-~/.cache}/zinc/bitsandbytes-VERSION, apart from that environment. Ends the script with 77 (skipped) and says why
# where it cannot be had.
bitsandbytes_pin=0.50.2
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

bitsandbytes_folder=$cache/bitsandbytes-$bitsandbytes_pin
if [[ ! -e $bitsandbytes_folder/.installed ]]; then
    echo "installing bitsandbytes into $bitsandbytes_folder, once"
    rm -rf "$bitsandbytes_folder"
    "$python" -m pip install --quiet --no-deps --target "$bitsandbytes_folder" "bitsandbytes==$bitsandbytes_pin" \
        >"$cache/bitsandbytes.log" 2>&1 || skip "pip cannot install bitsandbytes: $(tail -1 "$cache/bitsandbytes.log")"
    touch "$bitsandbytes_folder/.installed"
fi
export PYTHONPATH=$bitsandbytes_folder
"$python" -c 'import bitsandbytes' 2>/dev/null || skip "$python cannot import bitsandbytes"

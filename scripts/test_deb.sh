#!/bin/bash
# Installs the package of `make deb` into a clean root, which mmdebstrap makes from this system's own package sources, and trains there.
# Run by hand, as root: scripts/test_deb.sh [PACKAGE.deb]
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
package=${1:-$(ls "$source"/build/*.deb)}
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "a root is made by root" >&2; exit 2; }
. /etc/os-release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$package" "$work/zinc.deb"
cp -r "$source/tests/data/parity/llama2" "$source/tests/data/parity/tokens.bin" "$work/"

# The host's own sources, whichever form they have.
mapfile -t sources < <(find /etc/apt -maxdepth 2 \( -name '*.list' -o -name '*.sources' \) -size +0)
cat >"$work/inside.sh" <<'INSIDE'
set -eu
apt-get install -y -qq --no-install-recommends /zinc.deb >/dev/null 2>&1 || apt-get install -y --no-install-recommends /zinc.deb
zinc version
zinc train --model /llama2 --data /tokens.bin --steps 5 --output /out >/dev/null
zinc train --model /llama2 --data /tokens.bin --steps 5 --output /out-2 -n 2 --stage 3 >/dev/null
zinc eval --model /out --data /tokens.bin --json
[ -s /out/model.safetensors ] && [ "$(wc -l </out-2/metrics.jsonl)" = 5 ]
[ -s /usr/share/man/man1/zinc-train.1 ] && [ -s /usr/share/bash-completion/completions/zinc ]
apt-get remove -y -qq zinc-train >/dev/null 2>&1
[ ! -e /usr/bin/zinc ]
INSIDE
mmdebstrap --quiet --variant=apt --skip=check/empty \
    --customize-hook="copy-in $work/zinc.deb $work/llama2 $work/tokens.bin $work/inside.sh /" \
    --customize-hook="cp /etc/resolv.conf \"\$1/etc/resolv.conf\"" \
    --customize-hook="chroot \"\$1\" sh /inside.sh" \
    "$VERSION_CODENAME" /dev/null "${sources[@]}"
echo "$(basename "$package"): installed, trained and removed in a clean root of $VERSION_CODENAME"

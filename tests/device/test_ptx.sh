#!/bin/bash
# The kernels of discrete devices as PTX for compute_75, assembled for every architecture from sm_75 to sm_120, without spills in products
# and attention; for three of them unless the environment has ZINC_TEST_DEVICES. The PTX that the build embeds, and that of nvcc where there
# is one. Skipped where there is no ptxas, or neither PTX.
# test_ptx.sh ZINC SOURCE BUILD
set -u
build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v ptxas >/dev/null || {
    echo "no ptxas"
    exit 77
}

[ -e "$build/kernels.ptx" ] && cp "$build/kernels.ptx" "$work/clang.ptx"
if command -v nvcc >/dev/null; then
    cp "$build/kernels.k" "$work/kernels.cu" || exit 1
    nvcc -ptx -arch=compute_75 -fmad=false -std=c++17 -diag-suppress 177 -o "$work/nvcc.ptx" "$work/kernels.cu" || exit 1
fi
failures=0 n_checked=0

# Every operation is rounded by itself, and no multiply-add is one that no source line asks for: without .rn an assembler may fuse.
check_rounding()
{
    if grep -nE '\b((fma|mad)\.[a-z.]*f64|mad\.[a-z.]*f32|(add|sub|mul|div|sqrt)\.(approx|full|ftz|f32|f64))' "$1" | head -n 5 | grep .; then
        echo "$(basename "$1"): operations that may be fused or are not rounded exactly"
        failures=$((failures + 1))
    fi
}

# Prints registers and shared memory of products and attention; fails where one of them spills.
check_assembled()
{
    local ptx=$1 arch=$2
    ptxas -arch="$arch" -v -o /dev/null "$ptx" 2>"$work/said" || {
        cat "$work/said"
        failures=$((failures + 1))
        return
    }
    awk -v arch="$(basename "$ptx" .ptx) $arch" '
        /Compiling entry function/ { match($0, /k_[a-z_]+/); name = substr($0, RSTART, RLENGTH) }
        /spill stores/ && name ~ /gemm|attention/ {
            n++
            if (!/0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/) {
                print arch ": " name ": " $0
                spills++
            }
        }
        /Used [0-9]+ registers/ && name ~ /gemm|attention/ { sub(/.*Used/, ""); print arch ": " name ":" $0 }
        END { exit spills > 0 || n != 6 }' "$work/said" || failures=$((failures + 1))
    n_checked=$((n_checked + 1))
}

wanted='sm_(75|90|120)'
[ -n "${ZINC_TEST_DEVICES-}" ] && wanted='sm_(7[5-9]|[89][0-9]|1[0-2][0-9])'
for ptx in "$work"/*.ptx; do
    [ -e "$ptx" ] || {
        echo "no PTX in this build, and no nvcc"
        exit 77
    }
    check_rounding "$ptx"
    for arch in $(ptxas --help | grep -oE "$wanted\\b" | sort -u -t_ -k2n); do
        check_assembled "$ptx" "$arch"
    done
done
echo "$n_checked times assembled, $failures failures"
exit $((failures > 0 || n_checked == 0))

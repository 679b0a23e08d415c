#!/bin/bash
# The kernels of discrete devices as PTX: made for compute_75, assembled for every architecture from sm_75 to sm_120, without spills in
# products and attention; for three of them unless the environment has ZINC_TEST_DEVICES. Skipped where there is no CUDA compiler.
# test_ptx.sh ZINC SOURCE BUILD
set -u
build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in nvcc ptxas; do
    command -v $tool >/dev/null || {
        echo "no $tool"
        exit 77
    }
done

cp "$build/kernels.k" "$work/kernels.cu" || exit 1
nvcc -ptx -arch=compute_75 -fmad=false -std=c++17 -diag-suppress 177 -o "$work/kernels.ptx" "$work/kernels.cu" || exit 1

# Every multiply-add is one that the source asks for.
if grep -qE '(fma|mad)\.f64|mad\.f32' "$work/kernels.ptx"; then
    echo "fused operations that no source line asks for"
    exit 1
fi

failures=0
wanted='sm_(75|90|120)'
[ -n "${ZINC_TEST_DEVICES-}" ] && wanted='sm_(7[5-9]|[89][0-9]|1[0-2][0-9])'
for arch in $(ptxas --help | grep -oE "$wanted\\b" | sort -u -t_ -k2n); do
    ptxas -arch="$arch" -v -o /dev/null "$work/kernels.ptx" 2>"$work/said" || {
        cat "$work/said"
        failures=$((failures + 1))
        continue
    }
    awk -v arch="$arch" '
        /Compiling entry function/ { match($0, /k_[a-z_]+/); name = substr($0, RSTART, RLENGTH) }
        /spill stores/ && name ~ /gemm|attention/ && !/0 bytes spill stores, 0 bytes spill loads/ {
            print arch ": " name ": " $0
            spills++
        }
        /Used [0-9]+ registers/ && name ~ /gemm|attention/ { sub(/.*Used/, ""); print arch ": " name ":" $0 }
        END { exit spills > 0 }' "$work/said" || failures=$((failures + 1))
done
[ -s "$work/said" ] || failures=$((failures + 1))
exit $((failures > 0))

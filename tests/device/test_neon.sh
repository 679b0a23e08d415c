#!/bin/bash
# The kernels for NEON: all of them compile, and matrix products have the canonical order, on an emulated processor where this is
# not one. test_neon.sh ZINC SOURCE BUILD
cd "$2" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cc=aarch64-linux-gnu-gcc run=qemu-aarch64
if [ "$(uname -m)" = aarch64 ]; then
    cc=${CC:-cc} run=
fi
for tool in $cc $run; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool (gcc-aarch64-linux-gnu, qemu-user)"; exit 77; }
done
flags=(-std=c17 -D_GNU_SOURCE -DNDEBUG -Iinclude -Isrc -O2 -fopenmp -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra
       -Werror -Wno-psabi -DZN_ISA=neon -DZN_ISA_neon=1)
failures=0
for kernel in src/device/cpu/k_*.c; do
    "$cc" "${flags[@]}" -fsyntax-only "$kernel" || failures=$((failures + 1))
done
"$cc" "${flags[@]}" -static -o "$work/product" tests/device/neon_product.c src/device/cpu/k_gemm.c src/base/status.c \
    src/tensor/dtype.c -lm && OMP_WAIT_POLICY=passive $run "$work/product" || failures=$((failures + 1))
exit $((failures > 0))

#!/bin/bash
# What runs on an OpenCL device and on the stand-in for CUDA, in full: every kernel over many shapes, training at every stage and
# placement, and the kernels on oclgrind, which finds accesses out of bounds and races. Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 1
build=build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0

cmake --preset release --log-level=WARNING >/dev/null &&
    cmake --build $build -j "${JOBS:-2}" --target device.test_opencl_kernels device.test_opencl_products zero.test_opencl \
        device.test_cuda_kernels device.test_cuda_products zero.test_cuda >"$work/said" || {
    cat "$work/said"
    exit 1
}

# try NAME COMMAND…
try()
{
    local name=$1
    shift
    "$@" >"$work/said" 2>&1
    local code=$?
    if [ $code -eq 77 ]; then
        skipped=$((skipped + 1))
        echo "$name: skipped: $(tail -n 1 "$work/said")"
    elif [ $code -ne 0 ] || grep -qE '^(Invalid (read|write)|.*data race)' "$work/said"; then
        failed=$((failed + 1))
        echo "$name: FAILED"
        tail -n 40 "$work/said"
    else
        passed=$((passed + 1))
        echo "$name: passed"
    fi
}

try "kernels, 60 shapes each" env ZINC_TEST_ROUNDS=60 $build/tests/device.test_opencl_kernels
try "products" env ZINC_TEST_ROUNDS=60 $build/tests/device.test_opencl_products
try "training at every stage and placement" env ZINC_TEST_DEVICES=1 $build/tests/zero.test_opencl
try "kernels on the stand-in for CUDA" env ZINC_TEST_ROUNDS=60 $build/tests/device.test_cuda_kernels
try "products on it" env ZINC_TEST_ROUNDS=60 $build/tests/device.test_cuda_products
try "training on it, every stage and placement" env ZINC_TEST_DEVICES=1 $build/tests/zero.test_cuda
try "PTX of every architecture" env ZINC_TEST_DEVICES=1 bash tests/device/test_ptx.sh - . $build

simulator=$(ls /usr/lib/oclgrind/liboclgrind-rt-icd.so /usr/lib/*/oclgrind/liboclgrind-rt-icd.so 2>/dev/null | head -n 1)
if [ -n "$simulator" ]; then
    echo "$simulator" >"$work/oclgrind.icd"
    simulated=(env OCL_ICD_VENDORS="$work" ZINC_TEST_SIMULATOR=1 ZINC_TEST_ROUNDS=1 OCLGRIND_DATA_RACES=1
        OCLGRIND_LOCAL_MEM_SIZE=65536 OCLGRIND_BUILD_OPTIONS=-cl-opt-disable)
    try "kernels on oclgrind" "${simulated[@]}" $build/tests/device.test_opencl_kernels
    try "products on oclgrind" "${simulated[@]}" $build/tests/device.test_opencl_products
else
    skipped=$((skipped + 1))
    echo "kernels on oclgrind: skipped: no oclgrind"
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

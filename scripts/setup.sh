#!/bin/sh
# Sees to it that what Zinc is built and tested with is there. Quiet when it is.
#
#   scripts/setup.sh          all of it, tests included; installs what is missing where it may
#   scripts/setup.sh --check  only what a build needs; installs nothing
set -eu

build_packages="build-essential cmake ninja-build pkg-config libjansson-dev libcmocka-dev
    libpcre2-dev libutf8proc-dev libxxhash-dev liburing-dev libhwloc-dev libyaml-dev libedit-dev libopenmpi-dev openmpi-bin"
test_packages="clang libomp-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user python3 python3-venv python3-pip iproute2 fio
    man-db tmux chromium slurm-wlm munge bible-kjv bible-kjv-text pocl-opencl-icd ocl-icd-libopencl1 opencl-c-headers oclgrind"

check_only=false
case "${1-}" in
"") ;;
--check) check_only=true ;;
*) echo "usage: scripts/setup.sh [--check]" >&2; exit 2 ;;
esac
wanted="$build_packages"
$check_only || wanted="$wanted $test_packages"

# The sanitizer and fuzzer runtimes come with clang in some releases, apart in others.
has_clang_runtime()
{
    ls /usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer* >/dev/null 2>&1
}

# Systems without dpkg: names the tools and libraries, which every distribution calls otherwise.
check_tools()
{
    missing=""
    tools="cc cmake ninja pkg-config mpicc mpirun"
    $check_only || tools="$tools clang python3"
    for tool in $tools; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    for module in jansson libpcre2-8 libutf8proc libxxhash liburing hwloc yaml-0.1 libedit cmocka; do
        pkg-config --exists "$module" 2>/dev/null || missing="$missing lib${module#lib}"
    done
    [ -z "$missing" ] && return 0
    echo "setup: missing:$missing; install them (with headers) with this system's package manager" >&2
    return 1
}

if ! command -v dpkg-query >/dev/null 2>&1; then
    check_tools
    exit
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | sed -n 's/ installed$//p')
missing=""
for package in $wanted; do
    case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
    esac
done
$check_only || has_clang_runtime || missing="$missing libclang-rt-dev"
[ -n "$missing" ] || exit 0

command="apt-get install -y$missing"
root=""
if [ "$(id -u)" != 0 ]; then
    root="sudo -n"
    command="sudo $command"
fi
if $check_only || { [ -n "$root" ] && ! $root true >/dev/null 2>&1; }; then
    echo "setup: packages are missing; run: $command" >&2
    exit 1
fi

knows()
{
    apt-cache show "$1" >/dev/null 2>&1
}

# A fresh machine has no package lists. Where the runtimes have no package, clang brings them.
knows build-essential || $root apt-get update -qq >&2
knows libclang-rt-dev || missing=$(echo "$missing" | sed 's/ libclang-rt-dev//')
[ -n "$missing" ] || exit 0

echo "setup: installing$missing" >&2
install_missing()
{
    # shellcheck disable=SC2086  # words on purpose
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=300 $missing >&2
}
# Lists that are there may be too old to fetch from.
install_missing || { $root apt-get update -qq >&2 && install_missing; }

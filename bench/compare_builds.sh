#!/bin/bash
# Whether two builds do the same: losses, norms, weights, checkpoints, ledgers, requests, plans and simulated seconds, over a fixed
# list of configurations (docs/testing.md). OLD and NEW are programs, build folders or git revisions, which are built here.
# usage: compare_builds.sh OLD NEW [--quick | --full] [--only NAME…] [--list] [--keep FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
work=$(mktemp -d)
end()
{
    for tree in "$work"/*/; do
        [ ! -e "$tree/.git" ] || git -C "$here" worktree remove --force "$tree"
    done
    rm -rf "$work"
}
trap end EXIT

# build SIDE REVISION: in a worktree of its own
build()
{
    local tree=$work/$1
    git -C "$here" worktree add --quiet --detach "$tree" "$2"
    cmake --preset release -S "$tree" --log-level=WARNING >/dev/null
    cmake --build "$tree/build" -j "${JOBS:-$(nproc)}" --target zinc >"$work/$1.log" || { cat "$work/$1.log" >&2; exit 1; }
}

# program SIDE WORD: the path of the program it means
program()
{
    if [ -d "$2" ] && [ -x "$2/zinc" ]; then
        echo "$2/zinc"
    elif [ -f "$2" ] && [ -x "$2" ]; then
        echo "$2"
    elif git -C "$here" rev-parse --verify --quiet "$2^{commit}" >/dev/null; then
        build "$1" "$2" >&2
        echo "$work/$1/build/zinc"
    else
        echo "compare_builds.sh: '$2' is no program, no build folder and no revision" >&2
        exit 2
    fi
}

old=$(program old "$1")
new=$(program new "$2")
shift 2
PYTHONDONTWRITEBYTECODE=1 python3 "$here/builds/compare.py" "$old" "$new" "$@"

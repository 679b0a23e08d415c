#!/bin/bash
# The manual is made from what the program and the headers say: a page for every command with all its flags, a page for every public
# function, and nothing that man or mandoc warn about. test_manual.sh ZINC SOURCE BUILD
set -u
zinc=$1 source=$2 build=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

sh "$source/scripts/make_manual.sh" "$zinc" "$work/manual" 1.2.3 "$source"/include/zinc/*.h || { fail "make_manual.sh"; exit 1; }
diff -r "$work/manual" "$build/manual" -x made -I '^\.TH ' >"$work/difference" || fail "the build's manual is stale: $(head -5 "$work/difference")"

# ---- Commands ----
[ -s "$work/manual/man1/zinc.1" ] || fail "no page zinc(1)"
while read -r command; do
    page=$work/manual/man1/zinc-${command// /-}.1
    [ -s "$page" ] || fail "$command has no page"
    # shellcheck disable=SC2086
    for flag in $("$zinc" help $command | sed -nE '/^not in this build/q; s/^  (-[-a-z0-9]+).*/\1/p'); do
        grep -qF "\\fB${flag//-/\\-}\\fR" "$page" || fail "the page of $command lacks $flag"
    done
done < <("$zinc" help --format names)
sed -n 's/^  \([a-z]*\)  .*/\1/p' < <("$zinc" --help) | while read -r command; do
    grep -q "zinc.-$command (1)" "$work/manual/man1/zinc.1" || echo "$command"
done | grep . && fail "zinc(1) lacks commands"

# ---- Functions ----
n=$(grep -hc '^ZN_API ' "$source"/include/zinc/*.h | awk '{ n += $1 } END { print n }')
[ "$(find "$work/manual/man3" -name '*.3' | wc -l)" = "$n" ] || fail "$n public functions, other pages: $(ls "$work/manual/man3")"
grep -L '^\.SH DESCRIPTION' "$work"/manual/man3/*.3 | grep . && fail "pages without a description"
printf 'ZN_API int zn_nothing(void);\n' >"$work/bare.h"
awk -v dir="$work" -v version=0 -f "$source/scripts/make_man3.awk" "$work/bare.h" 2>"$work/err" && fail "a function without a comment has a page"
grep -q 'zn_nothing has no comment' "$work/err" || fail "a function without a comment is not named"

# ---- Warnings ----
# lint FILE…: what man and mandoc say; pages have no date, as they are made anew
lint()
{
    for page; do
        LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null | sed "s|^|$page: |"
    done
    command -v mandoc >/dev/null && mandoc -T lint -W warning "$@" | grep -v 'missing date'
}
command -v man >/dev/null || { echo "skipped: man (man-db) is not installed"; exit $((failures ? 1 : 77)); }
lint "$work"/manual/man?/* >"$work/warnings"
[ -s "$work/warnings" ] && fail "warnings: $(head "$work/warnings")"
printf '.TH X 1\n.SH NAME\nx \\- x\n.XY\n\\fQ\n' >"$work/bad.1"
lint "$work/bad.1" | grep -q . || fail "a bad page passes"

exit $((failures > 0))

#!/bin/bash
# The tables of flags in docs/ are those of the program, every flag of every command is in one, and what pages point at is there.
# test_docs.sh ZINC SOURCE BUILD
set -u
zinc=$1 source=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

bash "$source/scripts/make_docs.sh" "$zinc" "$source" --check || fail "stale tables"

# Every flag of a command is in a made table of some page.
while read -r command; do
    # shellcheck disable=SC2086
    for flag in $("$zinc" help $command | sed -nE '/^not in this build/q; s/^  (-[-a-z0-9]+).*/\1/p'); do
        [ "$flag" = --help ] && continue
        awk -v command="$command" '/^<!-- flags: / { is_in = $0 ~ "^<!-- flags: " command "(:| -->)" } /^<!-- end of/ { is_in = 0 } is_in' \
            "$source"/docs/*.md | grep -qE "^\| \`$flag[\`[ ]" || fail "zinc $command $flag is in no table of docs/"
    done
done < <("$zinc" help --format names)

# A change of the program would be seen.
cp -r "$source/docs" "$work/docs"
sed -i 's/^| `--stage N` | [^|]*|/| `--stage N` | 7 |/' "$work/docs/zinc-train.md"
bash "$source/scripts/make_docs.sh" "$zinc" "$work" --check >"$work/out" && fail "a stale table passes"
grep -q 'docs/zinc-train.md is stale' "$work/out" || fail "a stale page is not named: $(cat "$work/out")"

# Files that docs/papers.md and docs/architecture.md name.
for name in $(sed -n 's/^|.*$/&/p' "$source/docs/papers.md" | grep -oE '`(src|tests|scripts|docs|bench)/[A-Za-z0-9_./-]+`' | tr -d '\`' | sort -u); do
    [ -e "$source/$name" ] || fail "docs/papers.md names $name, which is not there"
done
[ "$(grep -cE '^\| .*`src/.*`tests/' "$source/docs/papers.md")" -ge 20 ] || fail "docs/papers.md has rows without a file or a test"

# Files that pages link to.
for page in "$source"/README.md "$source"/docs/*.md "$source"/docs/tutorials/*.md; do
    for link in $(grep -oE '\]\([^)# ]+' "$page" | cut -c3- | grep -v '://'); do
        [ -e "$(dirname "$page")/$link" ] || fail "${page#"$source"/} links to $link, which is not there"
    done
done

# The manual begins within two screens of README.
[ "$(grep -n '^## Manual' "$source/README.md" | cut -d: -f1)" -le 60 ] || fail "README.md: more than two screens before the manual"

exit $((failures > 0))

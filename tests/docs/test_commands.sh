#!/bin/bash
# Every command of README.md and docs/ runs, with small models in the place of real ones: substitutions.txt says what is run otherwise.
# test_commands.sh ZINC SOURCE BUILD
set -u
zinc=$1 source=$2
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MANPAGER=cat PAGER=cat
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # MPI's libraries leak
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
source "$source/tests/docs/fixtures.sh"
make_fixtures "$work/fixtures"
mkdir "$work/pages"
cd "$source" || exit 1
python3 tests/docs/run_pages.py tests/docs/substitutions.txt "$source" "$work/fixtures" "$work/pages" README.md docs/*.md docs/tutorials/*.md ||
    exit 1

# A command that fails is found, and so are a row that no page has and a block without an end.
mkdir "$work/broken" "$work/again"
printf 'text\n\n```\nzinc train --model ./gpt2 --data book.txt --stpes 3\n```\n' >"$work/broken/a.md"
printf '```sh\ntrue\n' >"$work/broken/b.md"
printf 'a.md | --stpes 3 | --steps 1 --output o | a test\nb.md | nothing | : | a test\n' >"$work/broken/table"
: >"$work/broken/none"
run() { rm -rf "$work/again"; mkdir "$work/again"; python3 tests/docs/run_pages.py "$work/broken/$1" "$work/broken" "$work/fixtures" "$work/again" "$2" >"$work/log" 2>&1; }
run none a.md && { echo "FAIL a command that fails passes"; exit 1; }
grep -q 'a.md:3: exit code 2' "$work/log" || { cat "$work/log"; exit 1; }
run table a.md || { cat "$work/log"; exit 1; }
run table b.md && { echo "FAIL a block without an end passes"; exit 1; }
printf '```sh\ntrue\n```\n' >"$work/broken/b.md"
run table b.md && { echo "FAIL a stale row passes"; exit 1; }
exit 0

#!/bin/bash
# Writes the tables of flags in docs/*.md from the program's own: make_docs.sh ZINC SOURCE [--check]
#
# A table stands between the lines
#     <!-- flags: train: Model; Data -->        the command, and sections of its help (none: all of them)
#     <!-- end of flags -->
# With --check nothing is written, and what is stale is named; the exit code is then 1.
set -eu
zinc=$1 source=$2 check=${3-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tables COMMAND SECTIONS: the rows of the sections, one table
tables()
{
    # shellcheck disable=SC2086  # `bench io` is two words; of the whole program there is none
    "$zinc" help $1 --format markdown | awk -v wanted="$2" '
        BEGIN { n = split(wanted, names, /; */); for (i = 1; i <= n; i++) is_wanted[names[i]] = 1 }
        /^## / { is_in = n == 0 || substr($0, 4) in is_wanted; seen[substr($0, 4)] = 1; next }
        !is_in || $0 == "" { next }
        /^\| (flag|command) \|/ || /^\|-/ { if (head[$0]++) next }
        { print }
        END { for (name in is_wanted) if (!(name in seen)) { print "no section " name > "/dev/stderr"; exit 1 } }'
}

status=0
for page in "$source"/docs/*.md; do
    while IFS= read -r line; do
        if [[ $line =~ ^'<!-- flags:'\ *([a-z\ ]*)(': '(.*))?' -->'$ ]]; then
            command=${BASH_REMATCH[1]% } sections=${BASH_REMATCH[3]-}
            printf '%s\n\n' "$line"
            tables "$command" "$sections"
            while IFS= read -r line && [[ $line != '<!-- end of flags -->' ]]; do :; done
            printf '\n'
        fi
        printf '%s\n' "$line"
    done <"$page" >"$work/page"
    cmp -s "$work/page" "$page" && continue
    if [ -n "$check" ]; then
        echo "${page#"$source/"} is stale; run: scripts/make_docs.sh build/zinc ."
        diff "$page" "$work/page" | head -5 || true
        status=1
    else
        cp "$work/page" "$page"
        echo "wrote ${page#"$source/"}"
    fi
done
exit $status

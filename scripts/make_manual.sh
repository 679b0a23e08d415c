#!/bin/sh
# Makes the manual pages and the completion of shells: make_manual.sh ZINC FOLDER VERSION HEADER…
#   FOLDER/man1  a page for every command, from its table of flags
#   FOLDER/man3  a page for every public function, from the comments of the headers
#   FOLDER/zinc, FOLDER/_zinc  completion for bash and zsh
set -eu
zinc=$1 folder=$2 version=$3
shift 3
rm -rf "$folder"
mkdir -p "$folder/man1" "$folder/man3"
"$zinc" help --format man >"$folder/man1/zinc.1"
"$zinc" help --format names >"$folder/names"
while read -r command; do
    # shellcheck disable=SC2086  # `bench io` is two words
    "$zinc" help $command --format man >"$folder/man1/zinc-$(echo "$command" | tr ' ' -).1"
done <"$folder/names"
rm "$folder/names"
"$zinc" help --format bash >"$folder/zinc"
"$zinc" help --format zsh >"$folder/_zinc"
awk -v dir="$folder/man3" -v version="$version" -f "$(dirname "$0")/make_man3.awk" "$@"
touch "$folder/made"

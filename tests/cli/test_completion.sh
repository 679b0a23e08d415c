#!/bin/bash
# Completion in a real bash: commands, flags, values that are choices, files and folders, with and without `=`; of zsh that it parses.
# test_completion.sh ZINC SOURCE BUILD
set -u
zinc=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
"$zinc" help --format bash >completion || { echo "FAIL zinc help --format bash"; exit 1; }
mkdir folder
touch data.txt
# shellcheck disable=SC1091
. ./completion || exit 1
complete -p zinc | grep -qx 'complete -o filenames -F _zinc zinc' || { echo "FAIL complete: $(complete -p zinc)"; exit 1; }

# completes 'WORDS' WANTED…: what is offered at the end of the line holds each; !WORD: does not; nothing wanted: nothing offered
completes()
{
    local line=$1 offered wanted
    shift
    line=${line//=/ = }
    read -ra COMP_WORDS <<<"$line"
    [[ $line == *[![:space:]] ]] || { [[ $line == *'= ' ]] || COMP_WORDS+=(""); }
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _zinc
    offered=" ${COMPREPLY[*]} "
    (($# == 0)) && [ "$offered" != "  " ] && { echo "FAIL '$line' offers$offered"; failures=$((failures + 1)); }
    for wanted; do
        case $wanted in
        !*) [[ $offered != *" ${wanted#!} "* ]] ;;
        *) [[ $offered == *" $wanted "* ]] ;;
        esac || { echo "FAIL '$line' has not $wanted but$offered"; failures=$((failures + 1)); }
    done
}

completes 'zinc ' train eval generate plan checkpoint help version --help
completes 'zinc tr' train !eval
completes 'zinc train --st' --stage --steps !--model
completes 'zinc train --stage ' 0 1 2 3 !--steps
completes 'zinc train --stage=' 0 1 2 3
completes 'zinc train --stage 3 ' --offload-param !0
completes 'zinc train --offload-param n' none nvme !cpu
completes 'zinc train --lr-schedule=Warmup' WarmupLR WarmupDecayLR !constant
completes 'zinc train --lr '
completes 'zinc train --model ' folder !data.txt
completes 'zinc train --data ' folder data.txt
completes 'zinc train --data data.txt d' data.txt
completes 'zinc train --from-scratch ' --stage !folder
completes 'zinc train --resume ' --stage !folder
completes 'zinc train --resume=' folder !--stage
completes 'zinc train --device ' cpu cuda !sim
completes 'zinc eval --' --json !--lr
completes 'zinc bench ' adam io --help
completes 'zinc bench io --' --nvme-path !--elements
completes 'zinc checkpoint ' list inspect verify export
completes 'zinc help ' train version --format
completes 'zinc tokenize ' data.txt

# Every flag that help lists is offered, for every command.
while read -r command; do
    # shellcheck disable=SC2086
    for flag in $("$zinc" help $command | sed -nE '/^not in this build/q; s/^  (-[-a-z0-9]+).*/\1/p'); do
        completes "zinc $command -" "$flag"
    done
done < <("$zinc" help --format names)

if command -v zsh >/dev/null; then
    "$zinc" help --format zsh >_zinc
    zsh -n _zinc || { echo "FAIL zsh -n"; failures=$((failures + 1)); }
fi
exit $((failures > 0))

#!/bin/bash
# No folder includes what the tables of docs/architecture.md do not allow it.
# test_layers.sh ZINC SOURCE BUILD
set -u
source_folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "folder allowed allowed…" for each folder of src/, from the first table. Words after the folder
# are literal; "and theirs" and "all above" are resolved here, in the order of the rows.
read_layers()
{
    awk -F'|' '
        $2 ~ /^ *`src\/[a-z]+\/` *$/ {
            folder = $2; gsub(/[` ]/, "", folder); gsub(/^src\/|\/$/, "", folder)
            theirs = $4 ~ /and theirs/; sub(/and theirs/, "", $4)
            if ($4 ~ /all above/) {
                list = above
            } else {
                list = $4; gsub(/–/, "", list)
            }
            list = " " list " "
            if (theirs) {
                n = split(list, direct, " ")
                for (i = 1; i <= n; i++)
                    list = list allowed[direct[i]] " "
            }
            allowed[folder] = list
            above = above " " folder
            print folder, list, "base", folder
        }' "$1/docs/architecture.md"
}

# "header folder…" from the second table.
read_headers()
{
    awk -F'|' '$2 ~ /^ *`[A-Za-z0-9_\/]+\.h` *$/ { gsub(/[` ]/, "", $2); print $2, $3 }' \
        "$1/docs/architecture.md"
}

# What C17, POSIX and Linux bring; anything else in <> must be in the second table.
system_headers='assert ctype errno float inttypes limits locale math signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar wchar langinfo dirent mntent
dlfcn fcntl fnmatch ftw getopt glob libgen malloc poll pthread sched semaphore spawn termios unistd features'

# check ROOT: prints each include that is not allowed.
check()
{
    local root=$1
    read_layers "$root" >"$work/layers"
    read_headers "$root" >"$work/headers"
    if [ "$(wc -l <"$work/layers")" -lt 10 ] || [ ! -s "$work/headers" ]; then
        echo "docs/architecture.md: the tables cannot be read"
        return
    fi
    (cd "$root" && find src include -name '*.[ch]' -exec \
        grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]+[">]' {} +) |
        awk -v layers="$work/layers" -v headers="$work/headers" -v system_names="$system_headers" '
        BEGIN {
            while ((getline line < layers) > 0) {
                n = split(line, w, " ")
                known[w[1]] = 1
                for (i = 2; i <= n; i++)
                    allowed[w[1], w[i]] = 1
            }
            while ((getline line < headers) > 0) {
                n = split(line, w, " ")
                for (i = 2; i <= n; i++)
                    home[w[1]] = home[w[1]] " " w[i]
            }
            n = split(system_names, w, " ")
            for (i = 1; i <= n; i++)
                from_system[w[i] ".h"] = 1
        }
        # Whether the file lies in one of the folders of src/.
        function lives_in(file, folders,    list, k, m) {
            m = split(folders, list, " ")
            for (k = 1; k <= m; k++)
                if (index(file, "src/" list[k] "/") == 1)
                    return 1
            return 0
        }
        {
            split($0, at, ":")
            file = at[1]; where = at[1] ":" at[2]
            match($0, /["<][^">]+[">]$/)
            quote = substr($0, RSTART, 1)
            name = substr($0, RSTART + 1, RLENGTH - 2)
            split(file, part, "/")
            if (quote == "<") {
                if (name in home) {
                    if (!lives_in(file, home[name]))
                        print where ": <" name "> belongs in" home[name] " only"
                } else if (!(name in from_system) && name !~ /^(sys|linux|arpa|netinet|net|asm)\//) {
                    print where ": <" name "> is not in the table of third-party headers"
                }
            } else if (name !~ /^zinc\//) {
                split(name, to, "/")
                if (part[1] == "include")
                    print where ": a public header includes \"" name "\""
                else if (!(part[2] in known))
                    print where ": src/" part[2] "/ is not in the table of layers"
                else if (index(name, "/") == 0 || !((part[2], to[1]) in allowed))
                    print where ": src/" part[2] "/ may not include \"" name "\""
            }
        }'
}

failures=0

mkdir -p "$work/copy/docs"
cp -r "$source_folder/src" "$source_folder/include" "$work/copy/"
cp "$source_folder/docs/architecture.md" "$work/copy/docs/"

# planted FILE LINE: what the check says of LINE in a copy of the sources.
planted()
{
    mkdir -p "$work/copy/$(dirname "$1")"
    printf '%s\n' "$2" >"$work/copy/$1"
    check "$work/copy" | grep -F "$1:1: "
    local caught=$?
    rm "$work/copy/$1"
    return $caught
}

# catches FILE LINE TEXT
catches()
{
    if [[ $(planted "$1" "$2") != *"$1:1: $3"* ]]; then
        echo "not caught: $2 in $1"
        failures=$((failures + 1))
    fi
}

# passes FILE LINE
passes()
{
    if planted "$1" "$2"; then
        echo "wrongly caught: $2 in $1"
        failures=$((failures + 1))
    fi
}

catches src/base/planted.c '#include "memory/ledger.h"' 'src/base/ may not'
catches src/models/planted.c '#include "schedule/unit.h"' 'src/models/ may not'
catches src/zero/planted.h '  #  include "models/llama.h"' 'src/zero/ may not'
catches src/models/planted.c '#include "device/device.h"' 'src/models/ may not'
catches src/formats/planted.c '#include <jansson.h>' '<jansson.h> belongs in base only'
catches src/device/planted.c '#include <immintrin.h>' '<immintrin.h> belongs in device/cpu only'
catches src/zero/planted.c '#include <mpi.h>' '<mpi.h> belongs in comm only'
catches src/train/planted.c '#include <surprise.h>' '<surprise.h> is not in the table'
catches src/surprise/planted.c '#include "base/status.h"' 'src/surprise/ is not in the table'
catches include/zinc/planted.h '#include "base/status.h"' 'a public header includes'
passes src/plan/planted.c '#include "comm/group.h"'
passes src/checkpoint/planted.c '#include "formats/safetensors.h"'
passes src/cli/planted.c '#include "train/loop.h"'
passes src/device/cpu/planted.c '#include <immintrin.h>'
passes src/checkpoint/planted.c '#include <xxhash.h>'
passes src/models/planted.c '#include "zinc/status.h"'

# Commands that are clients of the public API: beside it they include what draws, parses command lines and prints (cli, show, settings, base).
# The others still reach into the library: bench, doctor, export, plan (by api/planning.h) and version.
clients='checkpoint commands eval generate help merge report settings tokenize train'

# foreign ROOT: each include of a client that is none of its own.
foreign()
{
    for name in $clients; do
        grep -HnoE '^#[[:space:]]*include "[^"]+"' "$1/src/cli/$name.c" | grep -vE '"(zinc|cli|show|settings|base)/'
    done
}
sed -i '1i #include "checkpoint/load.h"' "$work/copy/src/cli/checkpoint.c"
[ "$(foreign "$work/copy" | wc -l)" = 1 ] || { echo "not caught: checkpoint/load.h in a client"; failures=$((failures + 1)); }

check "$source_folder" >"$work/found"
foreign "$source_folder" >>"$work/found"
cat "$work/found"
[ -s "$work/found" ] && failures=$((failures + 1))
exit $((failures > 0))

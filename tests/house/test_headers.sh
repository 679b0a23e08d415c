#!/bin/bash
# Every header compiles alone, and twice; the public ones as C++ as well.
# test_headers.sh ZINC SOURCE BUILD
cd "$2" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
read -ra libraries <<<"$(pkg-config --cflags jansson libpcre2-8 libutf8proc 2>/dev/null)"
flags=(-fsyntax-only -fopenmp -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude -Isrc "${libraries[@]}")

# compiles COMPILER HEADER FLAGS…
compiles()
{
    local compiler=$1 header=$2
    shift 2
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" | "$compiler" "$@" "${flags[@]}" -
}

failures=0
for header in $(find src include -name '*.h' | sort); do
    name=${header#*/}
    # Kernel headers are read once for each instruction set.
    compiles "$cc" "$name" -x c -std=c17 -DZN_ISA=plain -DZN_ISA_plain=1 || {
        echo "$header does not compile alone"
        failures=$((failures + 1))
    }
    case $header in
    include/*)
        compiles "${CXX:-c++}" "$name" -x c++ || {
            echo "$header does not compile as C++"
            failures=$((failures + 1))
        }
        ;;
    esac
done

# The check itself: a header that lacks an include is caught.
printf '#ifndef X_H\n#define X_H\nsize_t x(void);\n#endif\n' >"$work/planted.h"
if compiles "$cc" planted.h -x c -std=c17 "-I$work" 2>/dev/null; then
    echo "a header that needs another one was not caught"
    failures=$((failures + 1))
fi
exit $((failures > 0))

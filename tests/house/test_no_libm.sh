#!/bin/bash
# No result depends on libm: the objects of the library and of the program use only those of its functions that every
# implementation rounds alike. What no weight, loss, token or file depends on is named here and may use the rest.
# test_no_libm.sh ZINC SOURCE BUILD
set -u
source_folder=$2
build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The functions whose last bits are each library's own, as float, double and long double, as vectors and by their internal names.
names='exp(2|10|m1)?|log(2|10|1p)?|pow|a?(sin|cos|tan)h?|sincos|atan2|erfc?|cbrt|hypot|[lt]gamma|[jy][01n]|c(abs|exp|log|pow|sin|cos)'
rounded="($names)(f|l|f32|f64)?"
# Charts and their axes; which shape a model of so many parameters has; digits of a printed number.
allowed='^src/(report/(chart|html)|plan/(shape|largest|paper))\.c '

# calls OBJECT…: "source function" for each use.
calls()
{
    nm -A -u "$@" | sed -E 's|^.*\.dir/([^:]*)\.o: *U |\1 |' | grep -E " (_ZGV[a-z]N[0-9x]+v+_)?(__)?$rounded(_finite)?(@.*)?$"
}

# A build folder may still hold objects of files that are gone.
mapfile -t objects < <(find "$build/CMakeFiles" -name '*.c.o' -path '*.dir/src/*' | while read -r object; do
    source=${object##*.dir/}
    [ -f "$source_folder/${source%.o}" ] && echo "$object"
done)
if [ ${#objects[@]} -lt 100 ]; then
    echo "no objects of the library in $build"
    exit 1
fi
calls "${objects[@]}" | grep -vE "$allowed" | sort -u >"$work/found"
if [ -s "$work/found" ]; then
    echo "these use functions of libm that are not rounded alike everywhere (base/elementary.h, device/cpu/fastmath.h have ours):"
    cat "$work/found"
    exit 1
fi

# The check itself: a planted call is found.
mkdir -p "$work/planted.dir/src/optim"
printf '#include <math.h>\nfloat f(float x) { return tanhf(x) + (float)pow(x, 2.5); }\n' >"$work/planted.c"
"${CC:-cc}" -O2 -c "$work/planted.c" -o "$work/planted.dir/src/optim/planted.c.o" || exit 1
if [ "$(calls "$work/planted.dir/src/optim/planted.c.o" | grep -cvE "$allowed")" -ne 2 ]; then
    echo "planted calls were not found"
    exit 1
fi

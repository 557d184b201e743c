#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_abi.sh LIBRARY MAP SYMBOLS HEADER...
#
# Four lists must name the same functions: what the shared library exports,
# the version script, the sorted list in this folder, and what the headers
# mark MOIETY_API; headers in a folder "stacks" are of other libraries. Each of these
# that takes a stream has a macro for callers whose null stream is their own, but
# moiety_retire_stream() and moiety_pool_retire_stream(), which take no null stream.
# The library also has its soname, and needs nothing but hwloc
# and what every Linux machine has. Prints each difference; fails if there is
# one.
set -euo pipefail
export LC_ALL=C

library=$1
map=$2
symbols=$3
shift 3
headers=()
for header in "$@"; do
    [[ $header == */stacks/* ]] || headers+=("$header")
done
set -- "${headers[@]}"

failures=0
complain() {
    printf 'abi: %s\n' "$*" >&2
    failures=$((failures + 1))
}

# Compares the list on standard input with the committed one.
compare() {
    local difference
    difference=$(diff --label "$symbols" "$symbols" --label "$1" -u -) ||
        complain "$1 differs from $symbols:"$'\n'"$difference"
}

exported_names() {
    # The node's own name is an absolute symbol, not a function.
    nm -D --extern-only --defined-only "$library" | awk '$2 != "A" { print $3 }' |
        sed 's/@.*//' | sort
}

mapped_names() {
    sed 's,/\*.*\*/,,' "$map" | awk '
        /global:/ { inside = 1; next }
        /local:/ { inside = 0 }
        inside && /;/ { gsub(/[ \t;]/, ""); print }' | sort
}

# A declaration may span lines; "MOIETY_API" in prose is not followed by a
# name and an open bracket before the next full stop.
declared_names() {
    cat "$@" | tr '\n' ' ' |
        grep -o 'MOIETY_API [^;{}.#]*(' |
        grep -o 'moiety_[a-z0-9_]* *($' | tr -d ' (' | sort
}

# Of those, the functions with a stream among their arguments; and all macros that
# are named like a function.
names_with_streams() {
    cat "$@" | tr '\n' ' ' | grep -o 'MOIETY_API [^;{}.#]*;' |
        grep 'moiety_stream [a-z_]*[,)]' |
        grep -o 'moiety_[a-z0-9_]* *(' | tr -d ' (' |
        grep -vxE 'moiety_(pool_)?retire_stream' | sort
}
macro_names() {
    cat "$@" | sed -n 's/^#define \(moiety_[a-z0-9_]*\)(.*/\1/p' | sort
}

sort -u "$symbols" | cmp -s - "$symbols" ||
    complain "$symbols is not sorted, or names a function twice"
compare "the exports of $library" < <(exported_names)
compare "$map" < <(mapped_names)
compare "the set of MOIETY_API functions in the headers" \
    < <(declared_names "$@")

difference=$(diff -u --label functions <(names_with_streams "$@") \
    --label macros <(macro_names "$@")) ||
    complain "functions with a stream, and macros for the caller's own null" \
        "stream, differ:"$'\n'"$difference"

unversioned=$(nm -D --extern-only --defined-only --with-symbol-versions "$library" |
    awk '$2 != "A" && $3 !~ /@@MOIETY_[0-9]/ { print $3 }' | xargs)
[ -z "$unversioned" ] || complain "no version on: $unversioned"

dynamic=$(readelf -dW "$library")
soname=$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")
[ "$soname" = libmoiety.so.0 ] ||
    complain "soname is '$soname', not libmoiety.so.0"
while read -r needed; do
    case $needed in
    libc.so.6 | libpthread.so.0 | libdl.so.2 | ld-linux-*.so.* | \
        libhwloc.so.15) ;;
    *) complain "needs $needed" ;;
    esac
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")

[ "$failures" = 0 ] || exit 1
printf 'abi: %s names agree in four lists\n' "$(wc -l <"$symbols")"

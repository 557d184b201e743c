#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_handles.sh INCLUDE_DIR
#
# Compiles a call for each pair of handle types, in C and in C++, with every
# compiler that is here: a function must take its own type and NULL, and no other.
set -euo pipefail

include_dir=$1
handles=(tenant private scope watch closing)
warnings=(-Wall -Wextra -Werror)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

checked=0
failed=0
# LANGUAGE ARGUMENT_TYPE PARAMETER_TYPE COMPILER...
compiles() {
    local language=$1 argument=$2 parameter=$3
    shift 3
    checked=$((checked + 1))
    cat >"$scratch/call.$language" <<PROGRAM
#include <moiety/moiety.h>
void take($parameter handle);
void call($argument handle);
void call($argument handle)
{
    $argument none = NULL;
    if (handle != none)
        take(handle);
}
PROGRAM
    "$@" "${warnings[@]}" "-I$include_dir" -fsyntax-only \
        "$scratch/call.$language" 2>"$scratch/errors"
}
fail() {
    printf 'handles: %s\n' "$*" >&2
    failed=$((failed + 1))
}

check_with() {
    local language=$1 one other
    shift
    for one in "${handles[@]}"; do
        for other in "${handles[@]}" number; do
            local parameter=moiety_$other
            [ "$other" != number ] || parameter=uint64_t
            if compiles "$language" "moiety_$one" "$parameter" "$@"; then
                [ "$one" = "$other" ] ||
                    fail "$* takes moiety_$one for $parameter"
            elif [ "$one" = "$other" ]; then
                fail "$* refuses moiety_$one: $(cat "$scratch/errors")"
            fi
        done
    done
}

check_with c gcc -std=c11
check_with cc g++ -std=c++17
if command -v clang >/dev/null; then
    check_with c clang -std=c11
    check_with cc clang++ -std=c++17
fi
printf 'handles: %d calls compiled, %d failed\n' "$checked" "$failed"
[ "$failed" = 0 ]

# It has teeth: one type by two names is found in both directions.
cp -RL "$include_dir" "$scratch/include"
chmod -R u+w "$scratch/include"
sed -i 's/struct moiety_private_s \*/struct moiety_tenant_s */' \
    "$scratch/include/moiety/types.h"
include_dir=$scratch/include
check_with c gcc -std=c11 2>"$scratch/found"
[ "$failed" = 2 ] && grep -q 'takes moiety_private for moiety_tenant' \
    "$scratch/found"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_headers_alone.sh INCLUDE_DIR
#
# Compiles a file that includes nothing but one public header, for each of
# them, as C11 and as C++17, with every C and C++ compiler that is here, and for
# callers with the legacy and with their own default stream.
set -euo pipefail

include_dir=$1
warnings=(-Wall -Wextra -Wpedantic -Wundef -Wshadow -Wconversion -Werror)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

checked=0
failed=0
compile_once() {
    local header=$1 language=$2
    shift 2
    checked=$((checked + 1))
    printf '#include <moiety/%s>\n' "$header" >"$scratch/alone.$language"
    "$@" "${warnings[@]}" "-I$include_dir" -c "$scratch/alone.$language" \
        -o "$scratch/alone.o" || {
        printf 'headers: moiety/%s alone does not compile: %s\n' \
            "$header" "$*" >&2
        failed=$((failed + 1))
    }
}
compile() {
    compile_once "$@"
    compile_once "$@" -DCUDA_API_PER_THREAD_DEFAULT_STREAM
}

headers=("$include_dir"/moiety/*.h)
[ -e "${headers[0]}" ] || {
    printf 'headers: none in %s/moiety\n' "$include_dir" >&2
    exit 1
}
for path in "${headers[@]}" "$include_dir"/moiety/stacks/*.h; do
    header=${path#"$include_dir/moiety/"}
    compile "$header" c gcc -std=c11 -Wc++-compat -Wstrict-prototypes
    compile "$header" cc g++ -std=c++17
    if command -v clang >/dev/null; then
        compile "$header" c clang -std=c11 -Wstrict-prototypes
        compile "$header" cc clang++ -std=c++17
    fi
done
for path in "$include_dir"/moiety/moiety.hpp "$include_dir"/moiety/cxx/*.hpp; do
    header=${path#"$include_dir/moiety/"}
    # It wants CCCL: check_cuda_resource.sh.
    [ "$header" != cxx/cuda_resource.hpp ] || continue
    compile "$header" cc g++ -std=c++17
    if command -v clang++ >/dev/null; then
        compile "$header" cc clang++ -std=c++17
    fi
done
printf 'headers: %d compiled alone, %d failed\n' "$checked" "$failed"
[ "$failed" = 0 ]

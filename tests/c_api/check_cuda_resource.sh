#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_cuda_resource.sh SOURCE INCLUDE_DIR LIBRARY STANDIN
#
# Compiles SOURCE with the CCCL of each Toolkit that is found, as C++17 and as
# C++20, and runs it. Behind CCCL 3.0, which hides its resources unless it is
# asked, the header says what to do. MOIETY_REQUIRE_TOOLKIT=1 makes it a failure
# that there is no Toolkit.
set -euo pipefail

source=$1 include_dir=$2 library=$3 standin=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

checked=0
for toolkit in "${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda; do
    [ -n "$toolkit" ] && [ -e "$toolkit/include/cccl/cuda/memory_resource" ] ||
        continue
    for standard in c++17 c++20; do
        g++ "-std=$standard" -Wall -Wextra -Wconversion -Werror \
            "-I$include_dir" -isystem "$toolkit/include/cccl" \
            -isystem "$toolkit/include" "$source" "$library" \
            -lhwloc -ldl -pthread -o "$scratch/program"
        MOIETY_DRIVER=$standin "$scratch/program"
        checked=$((checked + 1))
    done
    # After CCCL's own header: it works, or it says why not.
    late=(g++ -std=c++17 -fsyntax-only "-I$include_dir" -isystem
        "$toolkit/include/cccl" -isystem "$toolkit/include"
        -include cuda/memory_resource "$source")
    if ! "${late[@]}" 2>"$scratch/errors"; then
        grep -q 'error.*include moiety/cxx/cuda_resource.hpp before CCCL' \
            "$scratch/errors"
        "${late[@]}" -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
    fi
done
printf 'cuda_resource: %d compiled and run\n' "$checked"
[ "$checked" -gt 0 ] || [ "${MOIETY_REQUIRE_TOOLKIT:-0}" != 1 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the script that builds the shim for PyTorch says where something is
# missing, and what it asks the compiler for where nothing is. The interpreters
# and the compiler are made up here; PyTorch itself is tested where it is.
set -u
. tests/gates/expect.sh

build=bench/subjects/torch/build_torch_shim.sh
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/shim.XXXXXX")
trap 'rm -rf "$folder"' EXIT
unset CUDA_HOME CUDA_PATH PYTHON CXX

# program NAME: what it does is on standard input.
program() {
    { echo '#!/bin/bash' && cat; } >"$folder/$1"
    chmod +x "$folder/$1"
}

program no_torch <<<'exit 1'
program torch <<<"printf '%s\n' '$folder/torch_package' 9.9"
program compiler <<<'echo "asked for: $*"'
program no_compiler <<<'exit 1'

expect_exit 2 "usage: build_torch_shim.sh OUT.so" "$build"
expect_exit 1 "there is no $folder/none" env PYTHON="$folder/none" "$build" out.so
expect_exit 1 "there is no $folder/none" env CXX="$folder/none" "$build" out.so
export CXX=$folder/compiler
expect_exit 1 "has no PyTorch" env PYTHON="$folder/no_torch" "$build" out.so
export PYTHON=$folder/torch
expect_exit 1 "PyTorch 9.9 in $folder/torch_package is built without CUDA" \
    "$build" out.so

# With CUDA, but for the runtime's headers, unless this machine has them.
mkdir -p "$folder/torch_package/lib" "$folder/cuda/include"
touch "$folder/torch_package/lib/libc10_cuda.so" \
    "$folder/cuda/include/cuda_runtime_api.h"
[ -e /usr/local/cuda/include/cuda_runtime_api.h ] ||
    expect_exit 1 "no cuda_runtime_api.h; CUDA_HOME can say where" "$build" out.so
export CUDA_HOME=$folder/cuda
expect_exit 0 "-isystem $folder/cuda/include -o out.so" "$build" out.so
expect_exit 0 "-L$folder/torch_package/lib" "$build" out.so
expect_exit 0 "out.so: PyTorch 9.9 in $folder/torch_package" "$build" out.so
expect_exit 1 "the shim does not build against it" \
    env CXX="$folder/no_compiler" "$build" out.so

finish

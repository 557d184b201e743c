#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the script that builds the shims for PyTorch and RMM says where something is
# missing, and what it asks the compiler for where nothing is. The interpreters and
# the compiler are made up here; PyTorch and RMM are tested where they are.
set -u
. tests/gates/expect.sh

build=bench/subjects/shims/build_shim.sh
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/shim.XXXXXX")
trap 'rm -rf "$folder"' EXIT
unset CUDA_HOME CUDA_PATH PYTHON CXX

# program NAME: what it does is on standard input.
program() {
    { echo '#!/bin/bash' && cat; } >"$folder/$1"
    chmod +x "$folder/$1"
}

program no_package <<<'exit 1'
# The folder and the version of the package that it is asked for.
program package <<<"printf '%s\n' \"$folder/site/\$3\" 9.9"
program compiler <<<'echo "asked for: $*"'
program no_compiler <<<'exit 1'

expect_exit 2 "usage: build_shim.sh torch|rmm OUT.so" "$build" torch
expect_exit 2 "usage: build_shim.sh torch|rmm OUT.so" "$build" cupy out.so
expect_exit 1 "there is no $folder/none" env PYTHON="$folder/none" "$build" torch out.so
expect_exit 1 "there is no $folder/none" env CXX="$folder/none" "$build" rmm out.so
export CXX=$folder/compiler
expect_exit 1 "has no PyTorch" env PYTHON="$folder/no_package" "$build" torch out.so
expect_exit 1 "has no RMM" env PYTHON="$folder/no_package" "$build" rmm out.so
export PYTHON=$folder/package

# Without the runtime's headers, unless this machine has them.
torch=$folder/site/torch
rmm=$folder/site/librmm
mkdir -p "$torch/lib" "$rmm/lib64" "$folder/cuda/include" "$folder/cuda/lib64"
[ -e /usr/local/cuda/include/cuda_runtime_api.h ] ||
    expect_exit 1 "no cuda_runtime_api.h; CUDA_HOME can say where" "$build" torch out.so
touch "$folder/cuda/include/cuda_runtime_api.h"
export CUDA_HOME=$folder/cuda
expect_exit 1 "PyTorch 9.9 in $torch is built without CUDA" "$build" torch out.so
expect_exit 1 "no libcudart.so in $folder/cuda" "$build" rmm out.so
touch "$torch/lib/libc10_cuda.so" "$folder/cuda/lib64/libcudart.so.13"
expect_exit 0 "shims/torch_shim.cc -isystem $folder/cuda/include" "$build" torch out.so
expect_exit 0 "-L$torch/lib" "$build" torch out.so
expect_exit 0 "out.so: PyTorch 9.9 in $torch" "$build" torch out.so
expect_exit 0 "shims/rmm_shim.cc -isystem $folder/cuda/include" "$build" rmm out.so
expect_exit 0 "-isystem $rmm/include/rapids" "$build" rmm out.so
expect_exit 0 "out.so: RMM 9.9 in $rmm" "$build" rmm out.so
for one in torch rmm; do
    expect_exit 1 "the shim does not build against it" \
        env CXX="$folder/no_compiler" "$build" $one out.so
done

finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build_torch_shim.sh OUT.so
#
# Makes the library through which the benchmarks' subject `torch` reaches
# PyTorch's caching allocator, from the headers of the PyTorch that python3
# has. Then:
#
#     MOIETY_TORCH_SHIM=OUT.so bench --subject=torch
#
# PYTHON and CXX choose the interpreter and the compiler. The CUDA runtime's
# headers are looked for in CUDA_HOME, CUDA_PATH, /usr/local/cuda and among
# Python's packages. The library finds PyTorch's own where they lie now; on
# another machine with the same version, LD_LIBRARY_PATH must name their folder.
set -uo pipefail

python=${PYTHON:-python3}
cxx=${CXX:-g++}
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1

give_up() {
    echo "build_torch_shim: $*" >&2
    exit 1
}

[ $# -eq 1 ] || {
    echo "usage: build_torch_shim.sh OUT.so" >&2
    exit 2
}
command -v "$python" >/dev/null || give_up "there is no $python"
command -v "$cxx" >/dev/null || give_up "there is no $cxx"

# Found without importing it, which takes seconds and wants a driver.
torch=$("$python" -c '
import importlib.metadata, importlib.util, os
spec = importlib.util.find_spec("torch")
print(os.path.dirname(os.path.abspath(spec.origin)))
print(importlib.metadata.version("torch"))' 2>/dev/null) ||
    give_up "$python has no PyTorch"
{ read -r root && read -r version; } <<<"$torch"
[ -e "$root/lib/libc10_cuda.so" ] ||
    give_up "PyTorch $version in $root is built without CUDA"

# The folder that has the CUDA runtime's headers.
cuda=
for place in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda \
    "$root"/../nvidia/cu[0-9]* "$root/../nvidia/cuda_runtime"; do
    if [ -n "$place" ] && [ -e "$place/include/cuda_runtime_api.h" ]; then
        cuda=$place/include
        break
    fi
done
[ -n "$cuda" ] ||
    give_up "no cuda_runtime_api.h; CUDA_HOME can say where the Toolkit is"

"$cxx" -std=c++20 -O2 -shared -fPIC -fvisibility=hidden \
    -isystem "$root/include" -isystem "$cuda" \
    -o "$1" "$folder/torch_shim.cc" \
    -L"$root/lib" -Wl,-rpath,"$root/lib" -lc10_cuda -lc10 ||
    give_up "PyTorch $version in $root: the shim does not build against it"
echo "$1: PyTorch $version in $root"

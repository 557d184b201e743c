#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build_shim.sh torch|rmm OUT.so
#
# Makes the library through which the benchmarks' subjects reach PyTorch's caching
# allocator, or RMM's pool and arena, from the headers of the PyTorch or librmm that
# python3 has. Then:
#
#     MOIETY_TORCH_SHIM=OUT.so bench --subject=torch
#     MOIETY_RMM_SHIM=OUT.so bench --subject=rmm-pool,rmm-arena
#
# PYTHON and CXX choose the interpreter and the compiler. The CUDA runtime's
# headers are looked for in CUDA_HOME, CUDA_PATH, /usr/local/cuda and among
# Python's packages. The library finds PyTorch's or RMM's own where they lie now;
# on another machine with the same version, LD_LIBRARY_PATH must name their folder.
set -uo pipefail

python=${PYTHON:-python3}
cxx=${CXX:-g++}
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1

give_up() {
    echo "build_shim: $*" >&2
    exit 1
}

usage() {
    echo "usage: build_shim.sh torch|rmm OUT.so" >&2
    exit 2
}

[ $# -eq 2 ] || usage
case $1 in
torch) name=PyTorch module=torch ;;
rmm) name=RMM module=librmm ;;
*) usage ;;
esac
command -v "$python" >/dev/null || give_up "there is no $python"
command -v "$cxx" >/dev/null || give_up "there is no $cxx"

# Found without importing it, which takes seconds and wants a driver.
found=$("$python" -c '
import importlib.metadata, importlib.util, os, sys
spec = importlib.util.find_spec(sys.argv[1])
print(os.path.dirname(os.path.abspath(spec.origin)))
names = importlib.metadata.packages_distributions()[sys.argv[1]]
print(importlib.metadata.version(names[0]))' "$module" 2>/dev/null) ||
    give_up "$python has no $name"
{ read -r root && read -r version; } <<<"$found"

# The folder that has the CUDA runtime's headers.
cuda=
for place in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda \
    "$root"/../nvidia/cu[0-9]* "$root/../nvidia/cuda_runtime"; do
    if [ -n "$place" ] && [ -e "$place/include/cuda_runtime_api.h" ]; then
        cuda=$place
        break
    fi
done
[ -n "$cuda" ] ||
    give_up "no cuda_runtime_api.h; CUDA_HOME can say where the Toolkit is"

case $1 in
torch)
    [ -e "$root/lib/libc10_cuda.so" ] ||
        give_up "PyTorch $version in $root is built without CUDA"
    words=(-isystem "$root/include" -L"$root/lib" -Wl,-rpath,"$root/lib"
        -lc10_cuda -lc10)
    ;;
rmm)
    runtime=
    for place in "$cuda"/lib*/libcudart.so* "$root"/../nvidia/cu*/lib/libcudart.so*; do
        [ -e "$place" ] && runtime=$place && break
    done
    [ -n "$runtime" ] ||
        give_up "no libcudart.so in $cuda; CUDA_HOME can say where the Toolkit is"
    words=(-isystem "$root/include" -isystem "$root/include/rapids"
        -isystem "$root/../rapids_logger/include" -L"$root/lib64"
        -L"$root/../rapids_logger/lib64" -Wl,-rpath,"$root/lib64"
        -Wl,-rpath,"$root/../rapids_logger/lib64" -lrmm -lrapids_logger
        "$runtime" -Wl,-rpath,"$(dirname "$runtime")")
    ;;
esac

"$cxx" -std=c++20 -O2 -shared -fPIC -fvisibility=hidden \
    -o "$2" "$folder/$1_shim.cc" -isystem "$cuda/include" "${words[@]}" ||
    give_up "$name $version in $root: the shim does not build against it"
echo "$2: $name $version in $root"

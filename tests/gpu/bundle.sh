#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a folder that runs the GPU tests on a host that has a driver and no
# Bazel: bazel run //tests:gpu_bundle -- DIR. BUILD puts before DIR:
#
#   --facts=FILE    prints what the host can do
#   --standin=FILE  the stand-in driver, for comparisons
#   --test=FILE     a test program, once for each
set -euo pipefail

usage='usage: bazel run //tests:gpu_bundle -- DIR'
limit_bytes=$((64 * 1024 * 1024))

fail() {
    printf 'gpu_bundle: %s\n' "$1" >&2
    exit 1
}

facts=
standin=
tests=()
folder=
for word in "$@"; do
    case $word in
    --facts=*) facts=${word#*=} ;;
    --standin=*) standin=${word#*=} ;;
    --test=*) tests+=("${word#*=}") ;;
    -*) fail "unknown argument '$word'; $usage" ;;
    *)
        [ -z "$folder" ] || fail "one folder, not '$folder' and '$word'"
        folder=$word
        ;;
    esac
done
[ -n "$folder" ] || fail "no folder named; $usage"
[ "${#tests[@]}" -gt 0 ] || fail "no test to put into it"
case $folder in
/*) ;;
*) folder=${BUILD_WORKING_DIRECTORY:-$PWD}/$folder ;;
esac

# Only a bundle is ever overwritten.
if [ -e "$folder" ] && [ ! -e "$folder/run.sh" ] &&
    [ -n "$(ls -A "$folder" 2>/dev/null || echo a_file)" ]; then
    fail "$folder is there and is not an empty folder or an older bundle"
fi
mkdir -p "$folder" 2>/dev/null || fail "cannot make the folder $folder"
rm -rf "$folder"/{facts,standin,tests,lib}
mkdir "$folder"/{facts,standin,tests,lib}

# The C library belongs to the host, and so does the driver.
is_the_hosts() {
    case $1 in
    ld-linux* | linux-vdso* | libc.so* | libm.so* | libdl.so* | librt.so* | \
        libpthread.so* | libresolv.so* | libcuda.so*) true ;;
    *) false ;;
    esac
}

# $1: program; $2: folder of the bundle. Takes the libraries along.
take() {
    local name path
    readelf -hW "$1" | grep 'Machine:.*X86-64' >/dev/null ||
        fail "$1 is not for x86-64"
    cp -L "$1" "$folder/$2/"
    chmod 755 "$folder/$2/${1##*/}"
    while read -r name path; do
        is_the_hosts "${name##*/}" && continue
        [ "$path" != not ] || fail "$1 needs $name, which is not here"
        cp -L "$path" "$folder/lib/"
    done < <(ldd "$1" | awk '$2 == "=>" { print $1, $3 }')
}

take "$facts" facts
take "$standin" standin
for program in "${tests[@]}"; do
    take "$program" tests
done
cp -L tests/gpu/run.sh "$folder/run.sh"
chmod 755 "$folder/run.sh"

size=$(du -sb "$folder" | cut -f1)
[ "$size" -lt "$limit_bytes" ] ||
    fail "$folder has $size bytes, above $limit_bytes"
printf 'gpu_bundle: %d tests, %d KiB in %s; run %s there\n' \
    "${#tests[@]}" $((size / 1024)) "$folder" ./run.sh

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what was built: bazel run //:install -- --prefix DIR [--destdir DIR]
# Bazel starts it in the folder that holds the files named below.
set -euo pipefail

usage='usage: bazel run //:install -- --prefix DIR [--destdir DIR]'

fail() {
    printf 'install: %s\n' "$1" >&2
    exit 1
}

# A relative folder means one below where the user typed the command, not
# below the folder that Bazel started us in.
absolute() {
    case $1 in
    /*) printf '%s' "$1" ;;
    *) printf '%s/%s' "${BUILD_WORKING_DIRECTORY:-$PWD}" "$1" ;;
    esac
}

prefix=
destdir=
while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --destdir)
        [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a folder; $usage"
        case $1 in
        --prefix) prefix=$(absolute "$2") ;;
        --destdir) destdir=$(absolute "$2") ;;
        esac
        shift 2
        ;;
    --prefix=*) set -- --prefix "${1#*=}" "${@:2}" ;;
    --destdir=*) set -- --destdir "${1#*=}" "${@:2}" ;;
    --help)
        printf '%s\n' "$usage"
        exit 0
        ;;
    *) fail "unknown argument '$1'; $usage" ;;
    esac
done
[ -n "$prefix" ] || fail "--prefix is missing; $usage"
[ "${prefix%/}" != "${BUILD_WORKSPACE_DIRECTORY:-/}" ] ||
    fail "--prefix $prefix is the checkout: name another folder"

# pkg-config splits what it prints at blanks and expands dollars.
case $prefix in
*[[:space:]\$\"\'\\]*)
    fail "--prefix '$prefix' has a blank, a quote, a dollar or a backslash"
    ;;
esac
[ "$prefix" = / ] || prefix=${prefix%/}

headers=(pool/include/moiety/*.{h,hpp} pool/include/moiety/{cxx,stacks}/*.hpp
    pool/include/moiety/stacks/*.h)
for needed in libmoiety.so libmoiety.a LICENSE pool/standin/libcuda.so.1 \
    pool/standin/standin.h serve/keeper/moiety-serve "${headers[@]}"; do
    [ -e "$needed" ] || fail "$needed was not built; $usage"
done

version_part() {
    cat "${headers[@]}" |
        sed -n "s/^#define MOIETY_VERSION_$1 *\([0-9][0-9]*\).*/\1/p"
}
major=$(version_part MAJOR)
minor=$(version_part MINOR)
version=$major.$minor.$(version_part PATCH)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] ||
    fail "the headers do not say one version, but '$version'"

root=$destdir$prefix
library=$root/lib
mkdir -p "$root" 2>/dev/null || fail "cannot make the folder $root"
[ -w "$root" ] || fail "cannot write to the folder $root"

# Standard input becomes the file $1 below the root, of mode $2: all of it at
# once, so that a program that has an older one open keeps that.
put() {
    local target=$root/$1
    mkdir -p "${target%/*}" && cat >"$target.new" &&
        chmod "$2" "$target.new" && mv -f "$target.new" "$target" ||
        fail "cannot write $target"
}

# The same, with the values that the template leaves open.
put_filled() {
    local text
    text=$(cat)
    text=${text//@PREFIX@/"$prefix"}
    text=${text//@VERSION@/"$version"}
    text=${text//@MAJOR@/"$major"}
    text=${text//@MINOR@/"$minor"}
    put "$1" 644 <<<"$text"
}

put "lib/libmoiety.so.$version" 755 <libmoiety.so
ln -sfn "libmoiety.so.$version" "$library/libmoiety.so.0"
ln -sfn libmoiety.so.0 "$library/libmoiety.so"
put lib/libmoiety.a 644 <libmoiety.a
put bin/moiety-serve 755 <serve/keeper/moiety-serve
for header in "${headers[@]}"; do
    put "include/${header#pool/include/}" 644 <"$header"
done
put include/moiety/standin.h 644 <pool/standin/standin.h
put_filled lib/pkgconfig/moiety.pc <pool/install/moiety.pc.in
put lib/cmake/Moiety/MoietyConfig.cmake 644 \
    <pool/install/MoietyConfig.cmake
put_filled lib/cmake/Moiety/MoietyConfigVersion.cmake \
    <pool/install/MoietyConfigVersion.cmake.in
put share/doc/moiety/LICENSE 644 <LICENSE

# The stand-in driver is one file: every other name is a link, so that a
# process can never hold two copies of its state. The folder is for other
# programs' LD_LIBRARY_PATH.
put lib/moiety/standin/libcuda.so.1 755 <pool/standin/libcuda.so.1
ln -sfn libcuda.so.1 "$library/moiety/standin/libcuda.so"
ln -sfn moiety/standin/libcuda.so.1 "$library/libmoiety_standin.so"

printf 'install: moiety %s is in %s\n' "$version" "$root"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# example_test.sh PROGRAM LINE...
#
# An example ends well on the stand-in and prints these lines, no others.
set -uo pipefail

program=$1
shift
export MOIETY_DRIVER="$PWD/pool/standin/libcuda.so.1"
output=$("$program") || {
    echo "$program ended with $?" >&2
    exit 1
}
wanted=$(printf '%s\n' "$@")
[ "$output" = "$wanted" ] || {
    printf 'it printed\n%s\nand should print\n%s\n' "$output" "$wanted" >&2
    exit 1
}

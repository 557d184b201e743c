#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make_reference.sh OUT
#
# Makes the reference of the C interface in the folder OUT: html/index.html for
# people, xml/ for programs. Started in a folder that has docs/dev/reference/Doxyfile and
# pool/include. What is not documented is an error, which names it.
set -euo pipefail

fail() {
    printf 'make_reference: %s\n' "$1" >&2
    exit 1
}

[ $# = 1 ] || fail "usage: make_reference.sh OUT"
for needed in docs/dev/reference/Doxyfile docs/dev/reference/reference_filter.py pool/include/moiety; do
    [ -e "$needed" ] || fail "there is no $needed here"
done
command -v doxygen >/dev/null || fail "doxygen is not installed"
# Doxygen would take a header that its filter refuses for an empty one.
python3 -IS docs/dev/reference/reference_filter.py pool/include/moiety/*.h >/dev/null || exit 1
mkdir -p "$1"
{
    cat docs/dev/reference/Doxyfile
    printf 'OUTPUT_DIRECTORY = "%s"\n' "$1"
} | doxygen - ||
    fail "see above: what is public has to be documented"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# No circle between the source files of the library, of the stand-in, nor of the
# Python package's modules; and check_circles.py finds one that is planted.
set -uo pipefail
. tests/gates/expect.sh

check=tests/gates/check_circles.py
scratch=$TEST_TMPDIR

# Makes one.c, which calls two.c, which calls three.c, and an archive of them.
# $1: what three.c calls.
archive_of() {
    echo 'void two(void); void one(void) { two(); }' >"$scratch/one.c"
    echo 'void three(void); void two(void) { three(); }' >"$scratch/two.c"
    echo "void $1(void); void three(void) { $1(); }" >"$scratch/three.c"
    rm -f "$scratch/all.a"
    (cd "$scratch" && gcc -c one.c two.c three.c &&
        ar rcs all.a one.o two.o three.o)
}

for archive in libmoiety.a pool/standin/libstandin.a emm/native/libnative.a \
    emm/nep49/libnep49.a; do
    expect_ok "$archive has none" "$check" "$archive"
done
archive_of elsewhere
expect_ok "calls in one direction pass" "$check" "$scratch/all.a"
archive_of one
expect_refusal "a circle of three" "one.c calls two of two.c; two.c calls \
three of three.c; three.c calls one of one.c" "$check" "$scratch/all.a"
archive_of two
expect_refusal "a circle of two that a third calls" \
    "two.c calls three of three.c; three.c calls two of two.c" \
    "$check" "$scratch/all.a"
(cd "$scratch" && ar d all.a one.o two.o)
expect_refusal "an archive that shows nothing" "no object calls another" \
    "$check" "$scratch/all.a"

finish

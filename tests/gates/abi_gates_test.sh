#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that check_abi.sh finds a missing and a surplus export, a wrong soname,
# a library too many, an undeclared function and an unsorted list: it is run on
# libraries linked from our own archive with one thing wrong each.
set -uo pipefail
. tests/gates/expect.sh

map=pool/install/libmoiety.map
symbols=tests/abi/symbols.txt
scratch=$TEST_TMPDIR
headers=(pool/include/moiety/*.h)

# $1: version script; $2: soname; then more words for the link.
link_library() {
    local script=$1 soname=$2
    shift 2
    gcc -shared -o "$scratch/libmoiety.so" -Wl,--whole-archive libmoiety.a \
        -Wl,--no-whole-archive "-Wl,--version-script=$script" \
        "-Wl,-soname,$soname" -lhwloc -pthread -ldl "$@"
}

check() {
    tests/abi/check_abi.sh "$scratch/libmoiety.so" "$@"
}

expect_ok "a library linked as it should be" \
    link_library "$map" libmoiety.so.0 -Wl,--as-needed
expect_ok "passes" check "$map" "$symbols" "${headers[@]}"

stack=pool/include/moiety/stacks/torch.h
expect_ok "a function of another library passes" \
    check "$map" "$symbols" "${headers[@]}" "$stack"
cp "$stack" "$scratch/torch.h"
expect_refusal "the same in a header of the library" "+moiety_torch_enable" \
    check "$map" "$symbols" "${headers[@]}" "$scratch/torch.h"

grep -v moiety_probe "$map" >"$scratch/short.map"
grep -v moiety_probe "$symbols" >"$scratch/short.txt"
link_library "$scratch/short.map" libmoiety.so.0 -Wl,--as-needed
expect_refusal "a missing export" "-moiety_probe" \
    check "$map" "$symbols" "${headers[@]}"
expect_refusal "the same, forgotten in the version script too" \
    "short.map differs" check "$scratch/short.map" "$symbols" "${headers[@]}"
expect_refusal "the same, forgotten in both lists" \
    "MOIETY_API functions in the headers differs" \
    check "$scratch/short.map" "$scratch/short.txt" "${headers[@]}"

gcc -shared -o "$scratch/libmoiety.so" -Wl,-soname,libmoiety.so.0 \
    "-Wl,--version-script=$map" -Wl,--as-needed libmoiety.a -lhwloc \
    -pthread -ldl
expect_refusal "a library that exports nothing" "-moiety_status_name" \
    check "$map" "$symbols" "${headers[@]}"

echo 'int moiety_surplus(void) { return 0; }' >"$scratch/surplus.c"
sed 's/^global:/&\n    moiety_surplus;/' "$map" >"$scratch/long.map"
link_library "$scratch/long.map" libmoiety.so.0 -Wl,--as-needed \
    "$scratch/surplus.c"
expect_refusal "a surplus export" "+moiety_surplus" \
    check "$map" "$symbols" "${headers[@]}"

link_library "$map" libmoiety.so -Wl,--as-needed
expect_refusal "a wrong soname" "soname is 'libmoiety.so'" \
    check "$map" "$symbols" "${headers[@]}"
link_library "$map" libmoiety.so.0 -Wl,--no-as-needed -lstdc++
expect_refusal "a library too many" "needs libstdc++.so.6" \
    check "$map" "$symbols" "${headers[@]}"

gcc -shared -o "$scratch/libmoiety.so" -Wl,--whole-archive libmoiety.a \
    -Wl,--no-whole-archive -Wl,-soname,libmoiety.so.0 -Wl,--as-needed \
    -lhwloc
expect_refusal "exports without a version" "no version on" \
    check "$map" "$symbols" "${headers[@]}"

link_library "$map" libmoiety.so.0 -Wl,--as-needed
echo 'MOIETY_API void moiety_undefined(void);' >"$scratch/new.h"
expect_refusal "a function declared and not exported" "+moiety_undefined" \
    check "$map" "$symbols" "${headers[@]}" "$scratch/new.h"
echo 'MOIETY_API void moiety_undefined(moiety_stream stream);' >"$scratch/new.h"
expect_refusal "a function with a stream and no macro" \
    "macros for the caller's own null" \
    check "$map" "$symbols" "${headers[@]}" "$scratch/new.h"
sort -r "$symbols" >"$scratch/unsorted.txt"
expect_refusal "an unsorted list" "is not sorted" \
    check "$map" "$scratch/unsorted.txt" "${headers[@]}"
finish

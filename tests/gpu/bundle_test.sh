#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the bundle, looks at what is in it, and shows that it cannot pass on a
# host whose driver is no GPU's.
set -uo pipefail
. tests/gates/expect.sh

bundle_arguments=("$@")
bundle=$TEST_TMPDIR/bundle
unset LD_LIBRARY_PATH MOIETY_DRIVER

make_bundle() {
    tests/gpu/bundle.sh "${bundle_arguments[@]}" "$@"
}

expect_refusal "no folder" "no folder named" make_bundle
expect_refusal "an unknown argument" "unknown argument '--dir'" \
    make_bundle --dir "$bundle"
expect_refusal "two folders" "one folder" make_bundle "$bundle" other
mkdir "$TEST_TMPDIR/precious"
touch "$TEST_TMPDIR/precious/file" "$TEST_TMPDIR/a_file"
expect_refusal "a folder with something else in it" "not an empty folder" \
    make_bundle "$TEST_TMPDIR/precious"
expect_refusal "a file" "not an empty folder" \
    make_bundle "$TEST_TMPDIR/a_file"
expect_ok "makes a bundle" make_bundle "$bundle"
expect_ok "and makes it again" make_bundle "$bundle"

wanted=$(printf '%s\n' "${bundle_arguments[@]}" | grep -c -- '^--test=')
expect_text "every test is in it" "$wanted" \
    "$(find "$bundle/tests" -type f -perm -u+x | wc -l)"
expect_text "no library of the host's" "" \
    "$(cd "$bundle/lib" && ls | grep -E '^(libc|libm|libcuda|ld-linux)\.' |
        xargs)"
expect_text "no link that leads out" "" "$(find "$bundle" -type l | xargs)"

# Whatever a program needs is the C library's or in lib/.
lacking=$(for program in "$bundle"/{tests,facts,standin,lib}/*; do
    readelf -dW "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
done | sort -u | grep -vE \
    '^(ld-linux.*|lib(c|m|dl|rt|pthread)\.so\.[0-9])$' | while read -r name; do
    [ -e "$bundle/lib/$name" ] || echo "$name"
done)
expect_text "nothing is lacking" "" "$lacking"

expect_refusal "on the stand-in no test passes" "0 passed, $wanted failed" \
    env LD_LIBRARY_PATH="$bundle/standin" "$bundle/run.sh" \
    "$TEST_TMPDIR/results"
expect_text "the last line is kept" "0 passed, $wanted failed" \
    "$(tail -n 1 <<<"$expect_output")"
expect_ok "facts come first" grep -q '^fact: ' "$TEST_TMPDIR/results/facts.txt"
expect_ok "the summary is kept" grep -q 'failed' \
    "$TEST_TMPDIR/results/summary.txt"
finish

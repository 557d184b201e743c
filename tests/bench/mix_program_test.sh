#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The program that writes mixes: which files, that the replay reads them, and
# what is refused.
set -u
. tests/gates/expect.sh

mix=bench/replay/mix
folder=$(mktemp -d "${TEST_TMPDIR:-/tmp}/mix.XXXXXX")
trap 'rm -rf "$folder"' EXIT

expect_ok "a set, and one of the user's" "$mix" "$folder" lag 4:512:4096:1:100
expect_text "the files" "4:512:4096:1:100.mtrace lag.mtrace" \
    "$(cd "$folder" && LC_ALL=C ls | tr '\n' ' ' | sed 's/ $//')"
expect_ok "the replay reads them" bench/replay/replay --check "$folder"/*.mtrace
expect_ok "twelve others" "$mix" "$folder" others
expect_text "their number" 14 "$(find "$folder" -name '*.mtrace' | wc -l)"
expect_ok "help" "$mix" --help

# $1: what; $2: exit status; $3: words; the rest: arguments.
refuses() {
    local what=$1 code=$2 words=$3
    shift 3
    expect_refusal "$what" "$words" "$mix" "$@"
    "$mix" "$@" >/dev/null 2>&1
    expect_text "$what: exit status" "$code" $?
}
refuses "no mix" 2 "a folder and a mix are wanted" "$folder"
refuses "nothing" 2 "a folder and a mix are wanted"
refuses "no such set" 2 "lags is no set" "$folder" lags
refuses "nonsense" 2 "8:2:1:3:4 is no set" "$folder" 8:2:1:3:4
refuses "no folder" 1 "No such file" "$folder/none" lag
finish

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_tidy_globs.sh FILE
#
# A misspelt glob in .clang-tidy switches nothing on, silently. Every glob in
# FILE, also those that switch off, must match a check that clang-tidy has.
set -euo pipefail

globs=$(sed -n '/^Checks:/,/^[A-Z][A-Za-z]*:/p' "$1" |
    sed -e 's/^Checks: *>\{0,1\}//' -e '/^[A-Z][A-Za-z]*:/d' |
    tr ',' '\n' | tr -d " '\"" | sed -e 's/^-//' -e '/^\*\{0,1\}$/d')
[ -n "$globs" ] || {
    echo "tidy: no Checks in $1" >&2
    exit 1
}

dead=0
for glob in $globs; do
    # --config= keeps clang-tidy from adding a .clang-tidy of its own finding.
    count=$(clang-tidy --config='{}' --checks="-*,$glob" --list-checks \
        2>/dev/null | grep -c '^    ' || true)
    if [ "$count" = 0 ]; then
        echo "tidy: '$glob' matches no check" >&2
        dead=$((dead + 1))
    fi
done
[ "$dead" = 0 ] || exit 1
echo "tidy: $(wc -w <<<"$globs") globs, each matches"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_format.sh FOLDER
#
# Every C and C++ file in FOLDER that git does not ignore is as clang-format
# would write it. Lists of entries (.inc) are written by programs.
set -uo pipefail

cd "$1" || exit 1
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -d '' files < <(git ls-files -z --cached --others \
        --exclude-standard -- '*.c' '*.h' '*.cc' '*.hpp')
else
    mapfile -d '' files < <(find . \( -name '*.c' -o -name '*.h' \
        -o -name '*.cc' -o -name '*.hpp' \) -not -path './.venv/*' -print0)
fi
[ "${#files[@]}" -gt 0 ] || {
    echo "format: no C or C++ file in $1" >&2
    exit 1
}
clang-format --style=file --dry-run --Werror "${files[@]}" || {
    echo "format: run clang-format -i on the files above" >&2
    exit 1
}
printf 'format: %d files are as they should be\n' "${#files[@]}"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_sources.sh FOLDER
#
# Rules of the house that a grep can check, over every file in FOLDER that git
# does not ignore. Prints each place that breaks one; fails if there is any.
set -uo pipefail
export LC_ALL=C

cd "$1" || exit 1
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -d '' files < <(git ls-files -z --cached --others \
        --exclude-standard | sort -zu)
else
    mapfile -d '' files < <(find . -type f -not -path './.git/*' \
        -not -path './.venv/*' -printf '%P\0' | sort -z)
fi

code='\.(c|h|inc|cc)$'
product='^(pool|numa|serve|emm)/.*\.(c|h|inc)$'
build='(^|/)(BUILD|[^/]*\.bzl)$'
licensed="$code|$build|\.(sh|py|cmake|map)\$|(^|/)(bazelw|WORKSPACE)\$"

# Prints those of the files whose name matches the pattern and that exist.
matching() {
    local file
    for file in "${files[@]}"; do
        if [[ $file =~ $1 && -f $file ]]; then
            printf '%s\0' "$file"
        fi
    done
}

# $1: pattern of names; $2: pattern of text. Prints file:line:text.
places() {
    matching "$1" | xargs -0r grep -HnIE -e "$2"
}

# Puts the rule that they break before the places on standard input.
breaks() {
    sed "s|^|sources: $1: |"
}

check_licences() {
    local file
    while IFS= read -r -d '' file; do
        grep -q 'SPDX-License-Identifier: Apache-2.0' <(head -n 3 "$file") ||
            echo "$file"
    done < <(matching "$licensed") | breaks "no SPDX line at the top"
}

# grep -q leaves at the first match: the writer of a pipe may die of that, and then
# pipefail takes a match for none.
check_pipes() {
    matching '\.sh$|(^|/)bazelw$|^\.ci/run$' | xargs -0r awk '
        FNR == 1 { before = "" }
        /[^|]\| *grep -q/ || (before ~ /[^|]\|$/ && /^ *grep -q/) {
            print FILENAME ":" FNR ":" $0
        }
        { before = $0 }' | breaks "a pipe into grep -q"
}

# A feature macro is always 0 or 1: #ifdef would take 0 for on. Only include
# guards, which end with _H_, are either defined or not.
check_feature_macros() {
    places "$code" '^ *# *(el)?if.*\bdefined\b *\(? *MOIETY_' |
        breaks "a MOIETY_ macro tested with defined()"
    places "$code" '^ *# *ifn?def +MOIETY_' | grep -v '_H_$' |
        breaks "a MOIETY_ macro tested with #ifdef"
}

# assert() vanishes under NDEBUG, and -c opt may define that.
check_asserts() {
    places "$product" \
        '(^|[^_[:alnum:]])assert *\(|# *include *<assert\.h>' |
        breaks "assert in product code"
}

check_build_files() {
    local file
    places "$build" '\bglob *\(' |
        grep -vE '^(pool/include/BUILD|third_party/)' |
        breaks "a glob that is not of public headers"
    places "$build" '"-O[0-3sg]' |
        breaks "a target with an optimisation of its own"
    while IFS= read -r -d '' file; do
        [[ $file =~ ^third_party/.*/ ]] || grep -q \
            'default_visibility = \["//visibility:private"\]' "$file" ||
            echo "$file"
    done < <(matching '(^|/)BUILD$') |
        breaks "a package that is not private by default"
}

# Others' first calls need a lock of the process: builds that watch who holds one
# (pool/base/lock.h) must see each. Not in:
#   pool/base/lock.h   it is the watch
#   pool/standin       it is the driver, and has locks of its own
check_locks() {
    local file name
    while IFS= read -r -d '' file; do
        [[ $file =~ ^pool/(base/lock.h$|standin/) ]] && continue
        for name in $(sed -nE \
            's/^(static )?pthread_mutex_t ([a-z_]+).*/\2/p' "$file"); do
            grep -HnIE "pthread_(mutex_\w*lock|cond_\w*wait)\b.*&$name\b" "$file"
        done
    done < <(matching '^(pool|numa|serve)/.*\.[ch]$') |
        breaks "a lock of the process that no build watches"
}

check_todos() {
    places "$code|$build|\.(sh|py)\$" '(^|[^[:alnum:]_])(TODO|FIXME)\b' |
        grep -vE 'TODO\(#[0-9]+\)' |
        grep -v '^tests/gates/check_sources.sh:' |
        breaks "a TODO that names no issue"
}

# Where this checkout and its user's home lie is of no use to anyone else. The
# pattern wants the whole path, not the end of a longer one.
check_paths() {
    local folder quoted
    for folder in "$PWD" "${HOME:-/}"; do
        folder=${folder%/}
        [ -n "$folder" ] || continue
        quoted=$(printf '%s' "$folder" | sed 's/[][\.*^$+?(){}|]/\\&/g')
        places . "(^|[^[:alnum:]_./-])$quoted(/|[^[:alnum:]_.-]|\$)" |
            breaks "a path of this machine"
    done
}

[ "${#files[@]}" -gt 0 ] || {
    echo "sources: no file in $1" >&2
    exit 1
}
broken=$(
    check_licences
    check_pipes
    check_feature_macros
    check_asserts
    check_build_files
    check_locks
    check_todos
    check_paths
)
if [ -n "$broken" ]; then
    printf '%s\n' "$broken" >&2
    exit 1
fi
printf 'sources: %d files, no rule broken\n' "${#files[@]}"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# add_spin.sh NAME FUNCTION FILE...
#
# Prints the one FILE with that name, changed for the worse: FUNCTION spins
# until nobody else is in it.
set -euo pipefail

name=$1 function=$2
shift 2
definition="^([a-z].*[ *])?$function\\("
for file in "$@"; do
    [[ $file == */"$name" ]] || continue
    grep -qE "$definition" "$file"
    cat <<'END'
#include <stdatomic.h>
static atomic_int spin;
static inline int enter_spin(void)
{
    while (atomic_exchange(&spin, 1))
        continue;
    return 0;
}
static inline void leave_spin(const int *inside)
{
    atomic_store(&spin, *inside);
}
END
    sed -E "/$definition/,/^\}/s/^\{/{ __attribute__((cleanup(leave_spin), unused)) int inside = enter_spin();/" "$file"
    exit
done
echo "$name is not among the files" >&2
exit 1

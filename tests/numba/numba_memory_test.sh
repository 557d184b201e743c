#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts numba_memory_test.py with the Python environment that bazelw makes
# from requirements.txt: .venv of the checkout that this file belongs to, or
# the interpreter that MOIETY_NUMBA_PYTHON names.
#
# usage: numba_memory_test.sh [--system] RUNNER ARGUMENT...
#   --system  with the system's python3, for the numba that Debian has
set -eu

if [ "$1" = --system ]; then
    shift
    # Ubuntu has no such package.
    if [ -z "${CI:-}" ] &&
        ! /usr/bin/python3 -I -c 'import numba' 2>/dev/null; then
        echo "SKIPPED, NOTHING WAS CHECKED: no package python3-numba here" >&2
        exit 0
    fi
    exec /usr/bin/python3 -B "$@"
fi

checkout=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
python=${MOIETY_NUMBA_PYTHON:-$checkout/.venv/bin/python}
if [ ! -x "$python" ]; then
    echo "no Python environment at $python: ./bazelw test makes it" \
        "(or name one with --test_env=MOIETY_NUMBA_PYTHON=...)" >&2
    exit 1
fi
exec "$python" -B "$@"

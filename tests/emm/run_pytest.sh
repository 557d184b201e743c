#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs pytest on the package as it was built here, with the Python environment
# that bazelw makes: .venv of the checkout that this file belongs to, or the
# interpreter that MOIETY_PYTHON names.
#
# usage: run_pytest.sh SITE_FILE DRIVER_FILE ARGUMENT...
#   SITE_FILE    a file of //emm:site/moiety
#   DRIVER_FILE  the stand-in driver; "" for the system's
set -eu

checkout=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
python=${MOIETY_PYTHON:-$checkout/.venv/bin/python}
if [ ! -x "$python" ]; then
    echo "no Python environment at $python: ./bazelw test makes it" \
        "(or name one with --test_env=MOIETY_PYTHON=...)" >&2
    exit 1
fi
export PYTHONPATH=$PWD/${1%/moiety/*}
if [ -n "$2" ]; then
    # numba and cuda.bindings find the driver by its name.
    MOIETY_DRIVER=$PWD/$2
    LD_LIBRARY_PATH=${MOIETY_DRIVER%/*}
    export MOIETY_DRIVER LD_LIBRARY_PATH
fi
shift 2
cd "${TEST_TMPDIR:?}"
# A test's folder may have its fixtures in a folder above.
exec "$python" -B -m pytest -q -p no:cacheprovider --confcutdir="$OLDPWD" \
    "${@/#tests\//$OLDPWD/tests/}"

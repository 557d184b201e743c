# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the tests of the server: what it is run with, and expectations of it.
set -u

server=bench/server/server
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/server.XXXXXX")
trap 'rm -rf "$results"' EXIT
failures=0
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_STANDIN_COST BINADE_CONF \
    BINADE_STANDIN_FAULTS BUILD_WORKING_DIRECTORY

# expect CODE TEXT COMMAND...: the exit status, and a text that is printed.
expect() {
    local code=$1 text=$2 output actual
    shift 2
    output=$("$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$code" ] || [[ $output != *"$text"* ]]; then
        echo "FAILED: $*: exit status $actual (wanted $code), and not" \
            "\"$text\" in:"
        echo "$output"
        failures=$((failures + 1))
    fi
}

finish() {
    [ "$failures" -eq 0 ] && echo "the server behaves"
    exit "$failures"
}

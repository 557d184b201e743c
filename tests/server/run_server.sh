# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the tests of the server: what it is run with.
set -u
. tests/gates/expect.sh

server=bench/server/server
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/server.XXXXXX")
trap 'rm -rf "$results"' EXIT
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST MOIETY_CONF \
    MOIETY_STANDIN_FAULTS BUILD_WORKING_DIRECTORY

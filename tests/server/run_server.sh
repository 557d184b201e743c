# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the tests of the server: what it is run with.
set -u
. tests/gates/expect.sh

server=bench/server/server
results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/server.XXXXXX")
trap 'rm -rf "$results"' EXIT
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_STANDIN_COST BINADE_CONF \
    BINADE_STANDIN_FAULTS BUILD_WORKING_DIRECTORY

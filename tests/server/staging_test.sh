#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A staging buffer that the CPU gets while its copy is still to come is seen in
# the bytes that the server checks. The stand-in's streams are late, so that the
# copy is still to come. The CPU's write and the copy are a race by design: not
# for sanitizers.
set -u

server=bench/server/server
late=(env MOIETY_STANDIN_FAULTS=stream:delay=200)
serve=(--requests=40 --threads=2 --subjects=mutex)
unset MOIETY_DRIVER MOIETY_REQUIRE_GPU MOIETY_STANDIN_COST MOIETY_CONF

if ! "${late[@]}" "$server" "${serve[@]}"; then
    echo "FAILED: bytes are wrong without the bug"
    exit 1
fi
if output=$("${late[@]}" "$server" "${serve[@]}" --staging=planted 2>&1) ||
    [[ $output != *"BYTES ARE WRONG"* ]]; then
    echo "FAILED: the planted bug was not seen in:"
    echo "$output"
    exit 1
fi
echo "a broken host rule is seen"

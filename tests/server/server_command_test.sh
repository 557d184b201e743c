#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The server's command line: what it says and refuses, and how a call that fails
# ends it.
. tests/server/run_server.sh

# What it says first and last.
expect_exit 0 "*** STAND-IN DRIVER: no GPU; costs are simulated (" bash -c \
    '"$@" | head -n 1' - "$server" --seconds=0
expect_exit 0 "no GPU; driver costs are those of this machine" \
    env MOIETY_STANDIN_COST=none "$server" --seconds=0
expect_exit 0 "all as they should be" "$server" --seconds=0
expect_exit 0 "yes  context events" "$server" --seconds=0
expect_exit 0 "round 4/4   mutex" "$server" --requests=8 --subjects=mutex
expect_exit 0 "moiety against cuda_malloc: " "$server" --requests=8 \
    --subjects=moiety,cuda_malloc
# Where the staging is and why, how many pages are there, and of which kind; at
# the start and at the end.
expect_exit 0 "for device 0 at 0000:20:00: node " "$server" --requests=1
expect_exit 0 "2048 of 2048 pages asked for are there; 8 MiB pinned, in small or" \
    "$server" --requests=1 --threads=1 --subjects=mutex
expect_exit 0 "2" bash -c '"$@" | grep -c "^staging  "' - "$server" --requests=1
expect_exit 0 "(the nodes that were named)" env MOIETY_CONF=host_place:0 "$server" \
    --requests=1 --staging=arena
expect_exit 0 "node 0-1 (the device's locality is not known); not bound: the" \
    env HWLOC_SYNTHETIC="numa:2 core:1 pu:1" "$server" --requests=1

# The server asks for the stand-in itself: what the environment says is not it.
expect_exit 0 "STAND-IN" env MOIETY_DRIVER=auto "$server" --seconds=0
expect_exit 0 "usage: server" "$server" --help
expect_exit 0 "$results/here.json" bash -c 'cd / && BUILD_WORKING_DIRECTORY=$1 \
    "$0" --requests=1 --subjects=mutex --json=here.json && ls "$1"/*' \
    "$PWD/$server" "$results"

# Bad arguments, each with what is accepted.
expect_exit 2 "server: --speed is not accepted" "$server" --speed
expect_exit 2 "server: fast is not accepted" "$server" fast
expect_exit 2 "server: --help=x is not accepted" "$server" --help=x
expect_exit 2 "server: --driver= is not accepted" "$server" --driver=
expect_exit 2 "server: --device=one is not accepted: 0 to" "$server" --device=one
expect_exit 2 "--threads=0 is not accepted: 1 to 64" "$server" --threads=0
expect_exit 2 "--threads=65 is not accepted: 1 to 64" "$server" --threads=65
expect_exit 2 "--seconds=-1 is not accepted: 0 to 3600" "$server" --seconds=-1
expect_exit 2 "--seconds=nan is not accepted" "$server" --seconds=nan
expect_exit 2 "--seconds= is not accepted" "$server" --seconds=
expect_exit 2 "--requests=0 is not accepted: 1 to" "$server" --requests=0
expect_exit 2 "--seed=x is not accepted" "$server" --seed=x
expect_exit 2 "--subjects=mutex,jemalloc is not accepted" \
    "$server" --subjects=mutex,jemalloc
expect_exit 2 "--subjects=mutex,mutex is not accepted" \
    "$server" --subjects=mutex,mutex
expect_exit 2 "--subjects=mut is not accepted" "$server" --subjects=mut
expect_exit 2 "--subjects= is not accepted" "$server" --subjects=
expect_exit 2 "--staging= is not accepted: arena or planted" "$server" --staging=
expect_exit 2 "--staging=pinned is not accepted: arena or" "$server" --staging=pinned
expect_exit 2 "--json= is not accepted" "$server" --json=
expect_exit 1 "--json=$results/no/file: No such file" \
    "$server" --seconds=0 --json="$results/no/file"

expect_exit 3 "accepted values are auto, cuda, standin" "$server" --driver=quick
expect_exit 3 "MOIETY_DRIVER=/no/such.so" "$server" --driver=/no/such.so
expect_exit 3 "device 5 does not exist; the machine has device 0" "$server" --device=5
expect_exit 3 "MOIETY_REQUIRE_GPU=1" env MOIETY_REQUIRE_GPU=1 "$server"

# The arena's settings are the environment's, and so are its mistakes.
expect_exit 1 "server: staging: MOIETY_E_INVALID: " env MOIETY_CONF=host_place:77 \
    "$server" --requests=1
expect_exit 1 "server: staging: MOIETY_E_TOO_LARGE: 16777216 bytes" env \
    MOIETY_CONF=host_limit:8M "$server" --requests=1 --threads=2
expect_exit 1 "server: staging: MOIETY_E_UNSUPPORTED: " env \
    MOIETY_CONF=host_strict:1 HWLOC_SYNTHETIC="numa:2 core:1 pu:1" \
    "$server" --requests=1

# A call that fails ends everything, and says which it was: while it serves, in
# the round trip before, and where a subject starts.
one=(--threads=1 --requests=20 --subjects=cuda_malloc)
expect_exit 1 "cuda_malloc, a request: MOIETY_E_NO_DEVICE_MEMORY, cuMemAlloc" env \
    MOIETY_STANDIN_FAULTS=cuMemAlloc:nth=50:code=2 "$server" "${one[@]}"
expect_exit 1 "cuda_malloc, a request: MOIETY_E_DRIVER, cuMemFree" env \
    MOIETY_STANDIN_FAULTS=cuMemFree:nth=50:code=700 "$server" "${one[@]}"
expect_exit 1 "BYTES WERE NEVER FREED" env \
    MOIETY_STANDIN_FAULTS=cuMemFree:nth=50:code=700 "$server" "${one[@]}"
expect_exit 1 "cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)" env \
    MOIETY_STANDIN_FAULTS=cuMemcpyDtoHAsync:nth=1:code=700 "$server"
expect_exit 1 "server: staging: MOIETY_E_NO_PINNED_MEMORY: cuMemHostRegister" env \
    MOIETY_STANDIN_FAULTS=cuMemHostRegister:nth=1:code=2 "$server" --requests=1
expect_exit 1 "mutex, a request: MOIETY_E_DRIVER, cuMemcpyHtoDAsync" env \
    MOIETY_STANDIN_FAULTS=cuMemcpyHtoDAsync:nth=50:code=700 "$server" \
    --threads=1 --requests=20 --subjects=mutex
expect_exit 1 "mutex cannot start: MOIETY_E_NO_DEVICE_MEMORY" env \
    MOIETY_STANDIN_MEMORY=64M "$server" --requests=1 --subjects=mutex

finish

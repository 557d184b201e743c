#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The server serves the same whatever memory it has, and notices a wrong byte. It
# takes the stand-in unless told otherwise, so no GPU is needed. No number is
# judged by its size.
. tests/server/run_server.sh

check=tests/server/check_comparison.py
all=(moiety mutex cuda_malloc)

# Everybody serves the same, on one thread and on more than there may be
# processors; and for a time.
expect_exit 0 "" "$server" --requests=40 --threads=3 --json="$results/three.json"
expect_exit 0 "3 subjects, 0 failures" python3 "$check" "$results/three.json" 3 40 \
    "${all[@]}"
expect_exit 0 "" "$server" --requests=10 --threads=1 --json="$results/one.json"
expect_exit 0 "3 subjects, 0 failures" python3 "$check" "$results/one.json" 1 10 \
    "${all[@]}"
expect_exit 0 "" "$server" --seconds=1 --threads=2 --json="$results/timed.json"
expect_exit 0 "3 subjects, 0 failures" python3 "$check" "$results/timed.json" 2 0 \
    "${all[@]}"
# Fewer requests than rounds and threads.
expect_exit 0 "" "$server" --requests=1 --threads=2 --subjects=mutex

# Work that is late on every stream: a block that served another stream too
# early is seen in the bytes.
expect_exit 0 "round 4/4" env MOIETY_STANDIN_FAULTS=stream:delay=50 "$server" \
    --requests=100 --threads=4

# One block for two tensors at once is seen in the bytes. One thread: what two
# streams do to one block is a race, which a checked stand-in calls by name.
expect_exit 1 "BYTES ARE WRONG" "$server" --subjects=planted --requests=20 \
    --threads=1
# So is an entry that only says that it did its work.
expect_exit 1 "2097152 bytes are WRONG" \
    env FAKE_BEHIND=pool/standin/libcuda.so.1 \
    "$server" --driver=tests/driver/libforgetful.so
finish

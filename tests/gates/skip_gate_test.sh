#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that a skipped test fails when a GPU is required, and only then.
set -uo pipefail
. tests/gates/expect.sh

subject=tests/gates/skipping_subject
unset MOIETY_REQUIRE_GPU GTEST_FILTER GTEST_TOTAL_SHARDS TESTBRIDGE_TEST_ONLY

expect_ok "a skip passes where no GPU is required" "$subject"
expect_ok "so does a skip of everything" env SKIP_ALL=1 "$subject"
expect_ok "and where the requirement is switched off" \
    env MOIETY_REQUIRE_GPU=0 "$subject"
expect_refusal "a skip where a GPU is required" "this was skipped" \
    env MOIETY_REQUIRE_GPU=1 "$subject"
expect_refusal "a skip of everything" "no test was run" \
    env MOIETY_REQUIRE_GPU=1 SKIP_ALL=1 "$subject"
expect_refusal "a filter that leaves nothing" "no test was run" \
    env MOIETY_REQUIRE_GPU=1 "$subject" --gtest_filter=None.*
expect_ok "a test that passes still passes" \
    env MOIETY_REQUIRE_GPU=1 "$subject" --gtest_filter=Subject.Passes
finish

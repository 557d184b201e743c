// SPDX-License-Identifier: Apache-2.0
//
// Replays what the fuzzer of traces found worth keeping.
#include <gtest/gtest.h>

#include "tests/support/tools/corpus_main.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

TEST(TraceCorpus, IsReadOrRefused)
{
    const auto inputs = test_support::Corpus();
    EXPECT_GE(inputs.size(), 50u);
    for (const auto &input : inputs)
        EXPECT_EQ(
            LLVMFuzzerTestOneInput(input.bytes.data(), input.bytes.size()), 0)
            << input.path;
}

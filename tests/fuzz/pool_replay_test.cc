// SPDX-License-Identifier: Apache-2.0
//
// Replays what the fuzzer found worth keeping.
#include <gtest/gtest.h>

#include "tests/fuzz/pool_model.h"
#include "tests/support/tools/corpus_main.h"

namespace
{

TEST(PoolReplay, AgreesOnTheWholeCorpus)
{
    int inputs = 0;
    for (const auto &found : test_support::Corpus()) {
        pool_model_input input = {};
        input.steps = POOL_MODEL_FUZZ_STEPS;
        input.ops = found.bytes.data();
        input.op_bytes = found.bytes.size();
        char message[POOL_MODEL_MESSAGE_BYTES];
        EXPECT_TRUE(pool_model_run(&input, message))
            << found.path << ": " << message;
        inputs++;
    }
    EXPECT_GT(inputs, 10);
}

} // namespace

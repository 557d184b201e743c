// SPDX-License-Identifier: Apache-2.0
//
// Replays what the fuzzer found worth keeping.
#include <gtest/gtest.h>

#include "tests/buddy/model.h"
#include "tests/support/tools/corpus_main.h"

namespace
{

TEST(BuddyReplay, AgreesOnTheWholeCorpus)
{
    int inputs = 0;
    for (const auto &found : test_support::Corpus()) {
        buddy_model_input input = {};
        input.steps = 2000;
        input.ops = found.bytes.data();
        input.op_bytes = found.bytes.size();
        char message[BUDDY_MODEL_MESSAGE_BYTES];
        EXPECT_TRUE(buddy_model_run(&input, message))
            << found.path << ": " << message;
        inputs++;
    }
    EXPECT_GT(inputs, 10);
}

} // namespace

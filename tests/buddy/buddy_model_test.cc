// SPDX-License-Identifier: Apache-2.0
//
// Random operations against a byte map and the mutex buddy. The seeds differ
// from run to run; each failure names its own, and --seed=N or
// MOIETY_TEST_SEED=N repeats it first.
#include <gtest/gtest.h>

#include "tests/buddy/model.h"
#include "tests/support/tools/seeded_main.h"

namespace
{

void ExpectAgreement(uint64_t seed, uint32_t steps)
{
    buddy_model_input input = {};
    input.seed = seed;
    input.steps = steps;
    char message[BUDDY_MODEL_MESSAGE_BYTES];
    EXPECT_TRUE(buddy_model_run(&input, message))
        << "seed " << seed << ": " << message;
}

TEST(BuddyModel, AgreesOverManyShortLives)
{
    for (uint64_t i = 0; i < 100 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + i, 60);
}

TEST(BuddyModel, AgreesOverLongLives)
{
    for (uint64_t i = 0; i < 4 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + 1000 + i, 800);
}

TEST(BuddyModel, AgreesOverTheSeedsOfEveryRun)
{
    for (uint64_t seed = 1; seed <= 20 && !HasFailure(); seed++)
        ExpectAgreement(seed, 150);
}

} // namespace

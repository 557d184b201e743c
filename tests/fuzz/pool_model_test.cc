// SPDX-License-Identifier: Apache-2.0
//
// Random calls of the public interface against the ledger; a failure names the
// seed that repeats it.
#include <gtest/gtest.h>

#include "tests/fuzz/pool_model.h"
#include "tests/support/tools/seeded_main.h"

namespace
{

void ExpectAgreement(uint64_t seed, uint32_t steps)
{
    pool_model_input input = {};
    input.seed = seed;
    input.steps = steps;
    char message[POOL_MODEL_MESSAGE_BYTES];
    EXPECT_TRUE(pool_model_run(&input, message))
        << "seed " << seed << ": " << message;
}

TEST(PoolModel, AgreesOverManyShortLives)
{
    for (uint64_t i = 0; i < 60 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + i, 120);
}

TEST(PoolModel, AgreesOverLongLives)
{
    for (uint64_t i = 0; i < 6 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + 1000 + i, 3000);
}

TEST(PoolModel, AgreesOverTheSeedsOfEveryRun)
{
    for (uint64_t seed = 1; seed <= 20 && !HasFailure(); seed++)
        ExpectAgreement(seed, 500);
}

} // namespace

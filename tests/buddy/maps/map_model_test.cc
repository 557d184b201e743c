// SPDX-License-Identifier: Apache-2.0
//
// Random operations on maps against a byte a grain. The seeds differ from run to
// run; each failure names its own, and --seed=N or MOIETY_TEST_SEED=N repeats it
// first.
#include <gtest/gtest.h>

#include "tests/buddy/maps/map_model.h"
#include "tests/support/tools/seeded_main.h"

namespace
{

void ExpectAgreement(uint64_t seed, uint32_t steps)
{
    char message[MAP_MODEL_MESSAGE_BYTES];
    EXPECT_TRUE(map_model_run(seed, steps, message))
        << "seed " << seed << ": " << message;
}

TEST(MapModel, AgreesOverManyShortLives)
{
    for (uint64_t i = 0; i < 50 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + i, 60);
}

TEST(MapModel, AgreesOverLongLives)
{
    for (uint64_t i = 0; i < 3 && !HasFailure(); i++)
        ExpectAgreement(test_support::FirstSeed() + 1000 + i, 800);
}

TEST(MapModel, AgreesOverTheSeedsOfEveryRun)
{
    for (uint64_t seed = 1; seed <= 15 && !HasFailure(); seed++)
        ExpectAgreement(seed, 150);
}

} // namespace

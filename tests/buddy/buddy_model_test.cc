// SPDX-License-Identifier: Apache-2.0
//
// Random operations against a byte map and the mutex buddy. The seeds differ
// from run to run; each failure names its own, and --seed=N or
// BINADE_TEST_SEED=N repeats it first.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/buddy/model.h"

namespace
{

uint64_t first_seed;

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
        ExpectAgreement(first_seed + i, 60);
}

TEST(BuddyModel, AgreesOverLongLives)
{
    for (uint64_t i = 0; i < 4 && !HasFailure(); i++)
        ExpectAgreement(first_seed + 1000 + i, 800);
}

TEST(BuddyModel, AgreesOverTheSeedsOfEveryRun)
{
    for (uint64_t seed = 1; seed <= 20 && !HasFailure(); seed++)
        ExpectAgreement(seed, 150);
}

} // namespace

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    const char *seed = std::getenv("BINADE_TEST_SEED");
    if (argc > 1 && std::strncmp(argv[1], "--seed=", 7) == 0)
        seed = argv[1] + 7;
    first_seed =
        seed ? std::strtoull(seed, nullptr, 0) : std::random_device{}();
    std::printf("seed %" PRIu64 "\n", first_seed);
    return RUN_ALL_TESTS();
}

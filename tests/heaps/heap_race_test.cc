// SPDX-License-Identifier: Apache-2.0
//
// The races of race.c. A failure names the round and the seed; --seed=N or
// MOIETY_TEST_SEED=N sets it, though what repeats is what the threads do, not how
// they meet. HEAP_RACE_ROUNDS=N: the rounds of each.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/heaps/race.h"
#include "tests/support/tools/seeded_main.h"

namespace
{

class HeapRace : public ::testing::TestWithParam<size_t>
{
};

TEST_P(HeapRace, LosesAndDoublesNothing)
{
    const uint64_t seed = test_support::FirstSeed();
    const char *given = std::getenv("HEAP_RACE_ROUNDS");
    const unsigned long rounds = given ? std::strtoul(given, nullptr, 10) : 60;
    char message[HEAP_RACE_MESSAGE_BYTES];
    EXPECT_TRUE(
        heap_race_run(GetParam(), static_cast<uint32_t>(rounds), seed, message))
        << "seed " << seed << ": " << message;
}

INSTANTIATE_TEST_SUITE_P(Pairs, HeapRace,
                         ::testing::Range(size_t{0}, heap_race_count()),
                         [](const ::testing::TestParamInfo<size_t> &at) {
                             return std::string(heap_race_name(at.param));
                         });

} // namespace

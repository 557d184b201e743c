// SPDX-License-Identifier: Apache-2.0
//
// The races of race.c, each a test of its own. A failure names the round and
// the seed; --seed=N or MOIETY_TEST_SEED=N sets it, though what repeats is what
// the threads do, not how they meet.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/buddy/races/race.h"
#include "tests/support/tools/seeded_main.h"

namespace
{

constexpr uint32_t kRounds = 600;

std::vector<std::string> Names()
{
    std::vector<std::string> names;
    for (size_t i = 0; i < buddy_race_count(); i++)
        names.emplace_back(buddy_race_name(i));
    return names;
}

class BuddyRace : public ::testing::TestWithParam<std::string>
{
};

TEST_P(BuddyRace, LosesAndDoublesNothing)
{
    const uint64_t seed = test_support::FirstSeed();
    char message[BUDDY_RACE_MESSAGE_BYTES];
    EXPECT_TRUE(buddy_race_run(GetParam().c_str(), kRounds, seed, message))
        << "seed " << seed << ": " << message;
}

INSTANTIATE_TEST_SUITE_P(Pairs, BuddyRace, ::testing::ValuesIn(Names()),
                         [](const ::testing::TestParamInfo<std::string> &race) {
                             return race.param;
                         });

} // namespace

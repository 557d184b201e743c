// SPDX-License-Identifier: Apache-2.0
//
// The verifier of maps must be able to fail: each invariant is broken by hand
// once, and must be reported by its number.
#include <gtest/gtest.h>

#include <string>

#include "tests/buddy/maps/map_under_test.h"

namespace
{

// The first half of page 0 is fresh, but for a grain; chunk 40 is done.
class MapCheck : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(test_.Give(1, kPage / 2 - 1), PROBE_GIVEN);
        ASSERT_TRUE(test_.Finish(40 * kChunk, kChunk));
        ASSERT_EQ(test_.Check(), "");
    }

    std::string Broken() const
    {
        return test_.Check().substr(0, 3);
    }

    MapsUnderTest test_{2};
};

TEST_F(MapCheck, SeesAUnitThatIsFreeAtTwoLevels)
{
    map_probe_write_grains(test_.maps(), PROBE_FRESH, 5, 1);
    EXPECT_EQ(Broken(), "M1:");
    map_probe_write_grains(test_.maps(), PROBE_FRESH, 5, 0);
}

TEST_F(MapCheck, SeesAGrainThatIsFreeInBothMapsOfAStream)
{
    map_probe_write_grains(test_.maps(), PROBE_AGEING, 0, 2);
    EXPECT_EQ(Broken(), "M1:");
    map_probe_write_grains(test_.maps(), PROBE_AGEING, 0, 0);
}

TEST_F(MapCheck, SeesAGrainThatIsFreeInTwoStreams)
{
    ASSERT_EQ(test_.Give(10, 1, 1), PROBE_GIVEN);
    EXPECT_EQ(Broken(), "M1:");
    EXPECT_TRUE(test_.Claim(test_.Own(1), 10, 1));
}

TEST_F(MapCheck, SeesAGrainThatIsFreeAndDone)
{
    ASSERT_TRUE(test_.Finish(10, 1));
    EXPECT_EQ(Broken(), "M1:");
    EXPECT_TRUE(test_.Claim(test_.Done(), 10, 1));
}

TEST_F(MapCheck, SeesASumThatIsWrong)
{
    map_probe_write_grains(test_.maps(), PROBE_FRESH, 0, ~UINT64_C(3));
    EXPECT_EQ(Broken(), "M2:");
    map_probe_write_grains(test_.maps(), PROBE_FRESH, 0, ~UINT64_C(1));
}

TEST_F(MapCheck, SeesWordsThatNoHintNames)
{
    map_probe_forget_hints(test_.maps());
    EXPECT_EQ(Broken(), "M3:");
    EXPECT_TRUE(test_.Claim(test_.Own(), 1, kPage / 2 - 1));
}

TEST_F(MapCheck, SeesAFullWordOfGrains)
{
    map_probe_write_grains(test_.maps(), PROBE_FRESH, 0, UINT64_MAX);
    EXPECT_EQ(Broken(), "M4:");
    map_probe_write_grains(test_.maps(), PROBE_FRESH, 0, ~UINT64_C(1));
}

TEST_F(MapCheck, SeesAFullWordOfChunks)
{
    ASSERT_EQ(test_.Give(kPage + 64, kPage - 64), PROBE_GIVEN);
    map_probe_write_chunks(test_.maps(), PROBE_FRESH, 1, UINT64_MAX);
    EXPECT_EQ(Broken(), "M4:");
    map_probe_write_chunks(test_.maps(), PROBE_FRESH, 1, ~UINT64_C(1));
}

} // namespace

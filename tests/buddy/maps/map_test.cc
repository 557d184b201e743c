// SPDX-License-Identifier: Apache-2.0
//
// What a stream's maps promise, one behaviour a test, on one thread: giving,
// merging, moving on. Searches of views are in view_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/buddy/maps/map_under_test.h"

namespace
{

std::vector<uint64_t> TakeSmall(const MapsUnderTest &test, uint32_t grains,
                                uint32_t count, uint32_t alignment = 1)
{
    std::vector<uint64_t> starts(count);
    starts.resize(
        map_probe_take(test.maps(), grains, count, alignment, starts.data()));
    return starts;
}

TEST(MapCreate, StartsEmpty)
{
    MapsUnderTest test(1);
    EXPECT_EQ(test.fresh(), 0U);
    EXPECT_EQ(test.ageing(), 0U);
    EXPECT_EQ(map_probe_close(test.maps()), 0U);
    EXPECT_EQ(map_probe_drain(test.maps(), PROBE_AGEING), 0U);
    EXPECT_EQ(map_probe_free_from(test.maps(), 0, kPage), 0U);
    EXPECT_TRUE(TakeSmall(test, 1, 1).empty());
}

// Gathered: only where small blocks are already, in the page that a searcher of
// what is done has for itself.
TEST(MapTake, IsGatheredInPagesThatAreAffinities)
{
    MapsUnderTest test(3);
    struct buddy_probe_affinity affinity = {};
    std::array<uint64_t, 4> starts{};
    EXPECT_EQ(test.Give(0, kPage), PROBE_GIVEN);
    EXPECT_EQ(map_probe_take_gathered(test.maps(), 5, 2, starts.data()), 0U);
    ASSERT_TRUE(test.Finish(kPage, kPage));
    ASSERT_EQ(buddy_probe_take(test.buddy(), &affinity, 5, 1, 1, starts.data()),
              1U);
    ASSERT_EQ(starts[0], kPage);
    EXPECT_EQ(map_probe_take_gathered(test.maps(), 5, 2, starts.data()), 0U);
    EXPECT_EQ(test.Give(kPage, 5), PROBE_GIVEN);
    EXPECT_EQ(map_probe_take_gathered(test.maps(), 5, 2, starts.data()), 1U);
    EXPECT_EQ(starts[0], kPage);
    // Chunks of it; then the page as a whole.
    ASSERT_TRUE(MapsUnderTest::Claim(test.Done(), kPage + 5, kPage - 5));
    EXPECT_EQ(test.Give(kPage + kChunk, kChunk), PROBE_GIVEN);
    EXPECT_EQ(map_probe_take_gathered(test.maps(), 5, 1, starts.data()), 1U);
    EXPECT_EQ(starts[0], kPage + kChunk);
    EXPECT_EQ(test.Give(kPage, kChunk + 5), PROBE_GIVEN);
    EXPECT_EQ(test.Give(kPage + 2 * kChunk, kPage - 2 * kChunk), PROBE_GIVEN);
    ASSERT_EQ(test.Level(kPage), PROBE_PAGE);
    EXPECT_EQ(map_probe_take_gathered(test.maps(), 5, 1, starts.data()), 1U);
    EXPECT_EQ(starts[0], kPage);
    buddy_probe_drop_affinity(test.buddy(), &affinity);
    EXPECT_EQ(map_probe_take_gathered(test.maps(), 5, 1, starts.data()), 0U);
}

TEST(MapGive, SetsGrainsInTheFreshMap)
{
    MapsUnderTest test(1);
    EXPECT_EQ(test.Give(3, 5), PROBE_GIVEN);
    EXPECT_EQ(test.Picture(), ".3 f5 .4088");
    EXPECT_EQ(test.fresh(), 5U);
}

TEST(MapGive, CutsAnIntervalAtEveryBorder)
{
    MapsUnderTest test(66);
    const uint64_t start = 62 * kPage + 70;
    const uint64_t grains = 4 * kPage - 80; // over pages 62 to 65, two groups
    EXPECT_EQ(test.Give(start, grains), PROBE_GIVEN);
    EXPECT_EQ(test.Picture(62 * kPage, 4 * kPage), ".70 f16304 .10");
    EXPECT_EQ(test.Level(start), PROBE_GRAIN);
    EXPECT_EQ(test.Level(62 * kPage + 128), PROBE_CHUNK);
    EXPECT_EQ(test.Level(63 * kPage), PROBE_PAGE);
    EXPECT_EQ(test.Level(64 * kPage), PROBE_PAGE);
    EXPECT_EQ(test.Level(start + grains - 1), PROBE_GRAIN);
    EXPECT_EQ(test.fresh(), grains);
}

TEST(MapGive, ReachesEveryLeaf)
{
    // The last page of the first leaf, and the first two of the second.
    MapsUnderTest test(4095, 4098);
    EXPECT_EQ(test.Give(4095 * kPage + 1, 2 * kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Picture(), ".1 f8192 .4095");
    EXPECT_EQ(test.Take(test.Own(), 2 * kPage), 4095 * kPage + 1);
    EXPECT_EQ(test.fresh(), 0U);
}

TEST(MapGive, MergesGrainsToAChunk)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(64, 10), PROBE_GIVEN);
    ASSERT_EQ(test.Give(75, 53), PROBE_GIVEN);
    EXPECT_EQ(test.Level(64), PROBE_GRAIN);
    ASSERT_EQ(test.Give(74, 1), PROBE_GIVEN);
    EXPECT_EQ(test.Level(64), PROBE_CHUNK);
    EXPECT_EQ(test.Picture(), ".64 f64 .3968");
}

TEST(MapGive, MergesChunksToAPage)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(kPage + 64, kPage - 64), PROBE_GIVEN);
    EXPECT_EQ(test.Level(kPage + 64), PROBE_CHUNK);
    ASSERT_EQ(test.Give(kPage, 64), PROBE_GIVEN);
    EXPECT_EQ(test.Level(kPage + 64), PROBE_PAGE);
}

TEST(MapGive, MergesAPageFromBothItsEnds)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(0, 10), PROBE_GIVEN);
    ASSERT_EQ(test.Give(kPage - 20, 20), PROBE_GIVEN);
    ASSERT_EQ(test.Give(10, kPage - 30), PROBE_GIVEN);
    EXPECT_EQ(test.Level(0), PROBE_PAGE);
    EXPECT_EQ(test.Picture(), "f4096 .4096");
}

TEST(MapGive, KeepsStreamsApart)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 32, 0), PROBE_GIVEN);
    ASSERT_EQ(test.Give(32, 32, 1), PROBE_GIVEN);
    EXPECT_EQ(test.Picture(), "f32 F32 .4032");
    EXPECT_EQ(test.Level(0), PROBE_GRAIN);
}

TEST(MapGive, RefusesGrainsThatAreFreeAlready)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(10, 10), PROBE_GIVEN);
    EXPECT_EQ(test.Give(15, 10), PROBE_TWICE);
    EXPECT_EQ(test.Picture(), ".10 f10 .4076");
    EXPECT_EQ(test.fresh(), 10U);
}

TEST(MapGive, RefusesChunksThatAreFreeAlready)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(128, 128), PROBE_GIVEN);
    EXPECT_EQ(test.Give(64, 128), PROBE_TWICE);
    EXPECT_EQ(test.Picture(), ".128 f128 .3840");
}

TEST(MapGive, KeepsAChunkThatItFilledBeforeItRefused)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 32), PROBE_GIVEN);
    ASSERT_EQ(test.Give(64, 64), PROBE_GIVEN);
    EXPECT_EQ(test.Give(32, 96), PROBE_TWICE); // the second chunk is free
    EXPECT_EQ(test.Picture(), "f128 .3968");
    EXPECT_EQ(test.fresh(), 128U);
    EXPECT_EQ(test.Check(), "");
}

TEST(MapGive, CountsWhatItSetOfAPageOfWhichItRefusedAPart)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(200, 10), PROBE_GIVEN);
    EXPECT_EQ(test.Give(50, 151), PROBE_TWICE); // grain 200 is free
    EXPECT_EQ(test.Picture(), ".50 f142 .8 f10 .3886");
    EXPECT_EQ(test.fresh(), 152U);
    EXPECT_EQ(test.Check(), "");
}

TEST(MapGive, RefusesPagesThatAreFreeAlready)
{
    MapsUnderTest test(4);
    ASSERT_EQ(test.Give(2 * kPage, kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Give(kPage, 3 * kPage), PROBE_TWICE);
    EXPECT_EQ(test.Picture(), ".8192 f4096 .4096");
    EXPECT_EQ(test.fresh(), kPage);
}

TEST(MapClose, MovesAllThatIsFresh)
{
    MapsUnderTest test(66);
    ASSERT_EQ(test.Give(7, 1), PROBE_GIVEN);
    ASSERT_EQ(test.Give(64, 128), PROBE_GIVEN);
    ASSERT_EQ(test.Give(65 * kPage, kPage), PROBE_GIVEN);
    EXPECT_EQ(map_probe_close(test.maps()), kPage + 129);
    EXPECT_EQ(test.fresh(), 0U);
    EXPECT_EQ(test.ageing(), kPage + 129);
    EXPECT_EQ(test.Picture(0, kPage), ".7 a1 .56 a128 .3904");
    EXPECT_EQ(test.Level(7, PROBE_AGEING), PROBE_GRAIN);
    EXPECT_EQ(test.Level(64, PROBE_AGEING), PROBE_CHUNK);
    EXPECT_EQ(test.Level(65 * kPage, PROBE_AGEING), PROBE_PAGE);
}

TEST(MapClose, LeavesLaterFreesFresh)
{
    MapsUnderTest test(1);
    test.Age(0, 32);
    ASSERT_EQ(test.Give(32, 32), PROBE_GIVEN);
    EXPECT_EQ(test.Picture(), "a32 f32 .4032");
    EXPECT_EQ(test.Level(0, PROBE_AGEING), PROBE_GRAIN); // not merged with it
}

TEST(MapDrain, MakesWhatAgedDone)
{
    MapsUnderTest test(3);
    test.Age(100, 2 * kPage);
    ASSERT_EQ(test.Give(0, 100), PROBE_GIVEN);
    EXPECT_EQ(map_probe_drain(test.maps(), PROBE_AGEING), 2 * kPage);
    EXPECT_EQ(test.Picture(), "f100 d8192 .3996");
    EXPECT_EQ(test.ageing(), 0U);
    EXPECT_EQ(test.fresh(), 100U);
}

TEST(MapDrain, MayBeOfTheFreshMap)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(100, 200), PROBE_GIVEN);
    EXPECT_EQ(map_probe_drain(test.maps(), PROBE_FRESH), 200U);
    EXPECT_EQ(test.Picture(), ".100 d200 .3796");
}

TEST(MapDrain, MergesWithWhatIsDone)
{
    MapsUnderTest test(1);
    ASSERT_TRUE(test.Finish(0, 100));
    ASSERT_TRUE(test.Finish(200, kPage - 200));
    test.Age(100, 100);
    map_probe_drain(test.maps(), PROBE_AGEING);
    EXPECT_TRUE(buddy_probe_is_page_free(test.buddy(), 0));
}

TEST(MapDrain, LeavesTheNextEpochAlone)
{
    MapsUnderTest test(1);
    test.Age(0, 10);
    EXPECT_EQ(map_probe_drain(test.maps(), PROBE_AGEING), 10U);
    test.Age(10, 10);
    ASSERT_EQ(test.Give(20, 10), PROBE_GIVEN);
    EXPECT_EQ(test.Picture(), "d10 a10 f10 .4066");
    EXPECT_EQ(map_probe_drain(test.maps(), PROBE_AGEING), 10U);
    EXPECT_EQ(test.Picture(), "d20 f10 .4066");
}

TEST(MapHand, MovesAMapToAnotherStream)
{
    MapsUnderTest test(66);
    ASSERT_EQ(test.Give(60, 2 * kPage), PROBE_GIVEN);
    ASSERT_EQ(test.Give(65 * kPage, kPage), PROBE_GIVEN);
    EXPECT_EQ(map_probe_hand(test.maps(0), PROBE_FRESH, test.maps(1)),
              3 * kPage);
    EXPECT_EQ(test.Picture(0, 3 * kPage), ".60 F8192 .4036");
    EXPECT_EQ(test.Picture(65 * kPage, kPage), "F4096");
    EXPECT_EQ(test.fresh(0), 0U);
    EXPECT_EQ(test.fresh(1), 3 * kPage);
}

TEST(MapHand, MakesFreshWhatWasAgeing)
{
    MapsUnderTest test(1);
    test.Age(10, 100);
    ASSERT_EQ(test.Give(200, 1), PROBE_GIVEN);
    EXPECT_EQ(map_probe_hand(test.maps(0), PROBE_AGEING, test.maps(1)), 100U);
    EXPECT_EQ(test.Picture(), ".10 F100 .90 f1 .3895");
}

TEST(MapHand, MergesWithWhatTheOtherStreamHas)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 20, 0), PROBE_GIVEN);
    ASSERT_EQ(test.Give(20, kPage - 20, 1), PROBE_GIVEN);
    map_probe_hand(test.maps(0), PROBE_FRESH, test.maps(1));
    EXPECT_EQ(map_probe_level_of(test.maps(1), PROBE_FRESH, 0), PROBE_PAGE);
}

TEST(MapTake, TakesSeveralFromOneWord)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(130, 20), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 3, 4),
              (std::vector<uint64_t>{130, 133, 136, 139}));
    EXPECT_EQ(test.Picture(), ".142 f8 .3946");
    EXPECT_EQ(test.fresh(), 8U);
}

TEST(MapTake, TakesFreshMemoryFirstAndThenAgeing)
{
    MapsUnderTest test(1);
    test.Age(0, 10);
    ASSERT_EQ(test.Give(20, 10), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 10, 1), (std::vector<uint64_t>{20}));
    EXPECT_EQ(TakeSmall(test, 10, 1), (std::vector<uint64_t>{0}));
    EXPECT_EQ(test.ageing(), 0U);
    EXPECT_TRUE(TakeSmall(test, 10, 1).empty());
}

TEST(MapTake, AlignsWithinAChunk)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(65, 20), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 2, 2, 8), (std::vector<uint64_t>{72, 80}));
}

TEST(MapTake, AlignsToMoreThanAChunk)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(64, 20), PROBE_GIVEN);
    ASSERT_EQ(test.Give(128, 20), PROBE_GIVEN);
    ASSERT_EQ(test.Give(kPage, 20), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 2, 4, 4096), (std::vector<uint64_t>{kPage}));
    EXPECT_EQ(TakeSmall(test, 2, 4, 128), (std::vector<uint64_t>{128}));
    EXPECT_EQ(TakeSmall(test, 2, 4, 64), (std::vector<uint64_t>{64}));
}

TEST(MapTake, CutsAChunkWhereNoPartServes)
{
    MapsUnderTest test(1);
    test.Age(64, 64);
    EXPECT_EQ(TakeSmall(test, 20, 2), (std::vector<uint64_t>{64, 84}));
    EXPECT_EQ(map_probe_free_from(test.maps(), 104, 128), 24U);
    EXPECT_EQ(test.fresh(), 24U);
    EXPECT_EQ(test.ageing(), 0U);
}

TEST(MapTake, CutsChunksOfOnePage)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(kPage - 3 * kChunk, 5 * kChunk), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 2 * kChunk + 1, 1),
              (std::vector<uint64_t>{kPage - 3 * kChunk}));
    EXPECT_TRUE(TakeSmall(test, 2 * kChunk + 1, 1).empty());
}

TEST(MapTake, CutsAPageLast)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, kPage), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 100, 3), (std::vector<uint64_t>{0, 100, 200}));
    EXPECT_EQ(test.fresh(), kPage - 300U);
}

TEST(MapTake, CutsOffOneWhereOthersWouldNotBeAligned)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, kPage), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 100, 3, 8), (std::vector<uint64_t>{0}));
}

TEST(MapTake, FindsAWordAgainThatItHasEmptied)
{
    MapsUnderTest test(1);
    for (unsigned i = 0; i < 3; i++) {
        ASSERT_EQ(test.Give(5, 7), PROBE_GIVEN);
        ASSERT_EQ(TakeSmall(test, 7, 1), (std::vector<uint64_t>{5})) << i;
        ASSERT_TRUE(TakeSmall(test, 7, 1).empty());
    }
}

TEST(MapTake, FindsWhatFollowsWordsThatHaveNoRun)
{
    MapsUnderTest test(1);
    for (uint64_t chunk = 0; chunk < 20; chunk++)
        ASSERT_EQ(test.Give(chunk * kChunk + 3, 2), PROBE_GIVEN);
    ASSERT_EQ(test.Give(20 * kChunk, 5), PROBE_GIVEN);
    EXPECT_EQ(TakeSmall(test, 5, 1), (std::vector<uint64_t>{20 * kChunk}));
}

TEST(MapFreeFrom, CountsOverBordersAndAges)
{
    MapsUnderTest test(3);
    test.Age(50, kPage);
    ASSERT_EQ(test.Give(50 + kPage, 2 * kPage - 60), PROBE_GIVEN);
    const uint64_t end = 3 * kPage;
    EXPECT_EQ(map_probe_free_from(test.maps(), 50, end), 3 * kPage - 60);
    EXPECT_EQ(map_probe_free_from(test.maps(), 49, end), 0U);
    EXPECT_EQ(map_probe_free_from(test.maps(), 100, 101), 1U);
    EXPECT_EQ(map_probe_free_from(test.maps(), 100, 100), 0U);
    EXPECT_EQ(map_probe_free_from(test.maps(), end - 10, end), 0U);
    EXPECT_EQ(map_probe_free_from(test.maps(), end - 11, end), 1U);
}

TEST(MapFreeFrom, EndsAtAGap)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(0, kPage + 77), PROBE_GIVEN);
    ASSERT_TRUE(test.Claim(test.Own(), kPage + 30, 1));
    EXPECT_EQ(map_probe_free_from(test.maps(), 10, 2 * kPage), kPage + 20);
}

TEST(MapFreeFrom, SeesNeitherOthersMapsNorWhatIsDone)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 10, 0), PROBE_GIVEN);
    ASSERT_EQ(test.Give(10, 10, 1), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(20, 10));
    EXPECT_EQ(map_probe_free_from(test.maps(0), 0, kPage), 10U);
}

} // namespace

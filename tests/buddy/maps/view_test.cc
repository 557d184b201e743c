// SPDX-License-Identifier: Apache-2.0
//
// Searches and claims over all maps of a view, one behaviour a test, on one
// thread.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/buddy/maps/map_under_test.h"
#include "tests/support/tools/random.h"

namespace
{

// The lowest fit that leaves at most a sixteenth over, or the best, grain by grain
// over the first stream's `places`.
uint64_t BestFit(const MapsUnderTest &test, const std::string &places,
                 uint64_t end, uint64_t grains, uint64_t alignment)
{
    uint64_t best = kNone;
    uint64_t best_length = 0;
    for (uint64_t at = 0;
         at < end && (best == kNone || best_length > grains + grains / 16);) {
        uint64_t length = 0;
        while (at + length < end &&
               places.find(test.PlaceOf(at + length)) != std::string::npos)
            length++;
        uint64_t start = (at + alignment - 1) / alignment * alignment;
        if (length >= grains + start - at &&
            (best == kNone || length < best_length)) {
            best = start;
            best_length = length;
        }
        at += length ? length : 1;
    }
    return best;
}

// Memory of every origin in runs of many lengths, over three pages.
void Scatter(MapsUnderTest &test)
{
    uint64_t random = random_start(7, 0);
    for (uint64_t at = 0; at < 3 * kPage - 400;) {
        uint64_t length = 1 + random_below(&random, at % 5 ? 40 : 400);
        switch (random_below(&random, 4)) {
        case 0:
            break;
        case 1:
            EXPECT_TRUE(test.Finish(at, length));
            break;
        default:
            EXPECT_EQ(test.Give(at, length), PROBE_GIVEN);
        }
        if (random_once_in(&random, 64)) {
            map_probe_drain(test.maps(), PROBE_AGEING);
            map_probe_close(test.maps());
        }
        at += length + random_below(&random, 4);
    }
}

TEST(ViewTake, PutsARunTogetherFromAllMaps)
{
    MapsUnderTest test(3);
    test.Age(kPage + 30, 500);
    ASSERT_EQ(test.Give(10, kPage), PROBE_GIVEN);
    ASSERT_EQ(test.Give(kPage + 10, 20), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(kPage + 530, kPage));
    const uint64_t all = 2 * kPage + 520;
    EXPECT_EQ(test.Take(test.Union(), all + 1), kNone);
    EXPECT_EQ(test.Take(test.Union(), all), 10U);
    EXPECT_EQ(test.Picture(), ".12288");
    EXPECT_EQ(test.fresh() + test.ageing(), 0U);
}

TEST(ViewTake, BeginsAndEndsAtAnyGrain)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(0, 2 * kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), kPage - 100), 0U);
    EXPECT_EQ(test.Take(test.Union(), 33), kPage - 100);
    EXPECT_EQ(test.Picture(), ".4029 f4163");
}

TEST(ViewTake, PrefersTheShortestRunThatFits)
{
    MapsUnderTest test(3);
    ASSERT_EQ(test.Give(0, 300), PROBE_GIVEN);
    ASSERT_EQ(test.Give(kPage, 100), PROBE_GIVEN);
    ASSERT_EQ(test.Give(2 * kPage, 120), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 90), kPage);
    EXPECT_EQ(test.Take(test.Union(), 110), 2 * kPage);
    EXPECT_EQ(test.Take(test.Union(), 121), 0U);
}

TEST(ViewTake, PrefersTheLowestOfEqualRuns)
{
    MapsUnderTest test(130);
    ASSERT_TRUE(test.Finish(129 * kPage, 100));
    ASSERT_EQ(test.Give(70 * kPage, 100), PROBE_GIVEN);
    ASSERT_EQ(test.Give(9 * kPage, 120), PROBE_GIVEN);
    ASSERT_EQ(test.Give(75 * kPage, 100), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 100), 70 * kPage);
    EXPECT_EQ(test.Take(test.Union(), 100), 75 * kPage);
    EXPECT_EQ(test.Take(test.Union(), 100), 129 * kPage);
    EXPECT_EQ(test.Take(test.Union(), 100), 9 * kPage);
    EXPECT_EQ(test.Take(test.Union(), 100), kNone);
}

TEST(ViewTake, CrossesGroupsOfPages)
{
    MapsUnderTest test(200);
    ASSERT_EQ(test.Give(60 * kPage + 5, 130 * kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 130 * kPage), 60 * kPage + 5);
    EXPECT_EQ(test.fresh(), 0U);
}

TEST(ViewTake, CrossesGroupsFromWithinAPage)
{
    MapsUnderTest test(60, 68);
    ASSERT_EQ(test.Give(64 * kPage - 100, 3 * kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 3 * kPage), 64 * kPage - 100);
}

TEST(ViewTake, FindsLongRunsAmongPagesThatAreCut)
{
    MapsUnderTest test(8);
    // Of page 2 a head is done; 3 and 4 are ageing; 5 is fresh in two halves.
    test.Age(3 * kPage, 2 * kPage);
    ASSERT_TRUE(test.Finish(2 * kPage + 4000, 96));
    ASSERT_EQ(test.Give(5 * kPage, kPage / 2), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(5 * kPage + kPage / 2, kPage / 2));
    ASSERT_EQ(test.Give(6 * kPage, 7), PROBE_GIVEN);
    ASSERT_EQ(test.Give(0, 5), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 3 * kPage + 103), 2 * kPage + 4000);
    EXPECT_EQ(test.Picture(), "f5 .32763");
}

TEST(ViewTake, IsContentWithALowFitThatLeavesLittleOver)
{
    MapsUnderTest test(3);
    ASSERT_EQ(test.Give(0, 170), PROBE_GIVEN);
    ASSERT_EQ(test.Give(kPage, 160), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 160), 0U);
    EXPECT_EQ(test.Take(test.Union(), 160), kPage);
}

TEST(ViewTake, WantsLongRunsExact)
{
    MapsUnderTest test(9);
    ASSERT_EQ(test.Give(0, 4 * kPage + 10), PROBE_GIVEN);
    ASSERT_EQ(test.Give(5 * kPage, 4 * kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 4 * kPage), 5 * kPage);
}

TEST(ViewTake, LooksAgainWhereSomethingWasFreedSince)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(10, 300), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(kPage + 10, 300));
    EXPECT_EQ(test.Take(test.Union(), 301), kNone);
    ASSERT_EQ(test.Give(310, 1), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 301), 10U);
    ASSERT_TRUE(test.Finish(kPage + 310, 1));
    EXPECT_EQ(test.Take(test.Union(), 301), kPage + 10);
}

TEST(ViewTake, LooksAgainWhereAFreshRunHasAged)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(10, 300), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 301), kNone);
    map_probe_close(test.maps());
    EXPECT_EQ(test.Take(test.Union(), 300), 10U);
}

TEST(ViewTake, AgreesWithAReferenceOnEverySize)
{
    for (uint64_t grains = 1; grains < 700; grains += 1 + grains / 40) {
        MapsUnderTest test(3);
        Scatter(test);
        uint32_t alignment = 1U << grains % 8;
        bool is_of_all = grains % 2;
        uint64_t expected = BestFit(test, is_of_all ? "dfa" : "fa", 3 * kPage,
                                    grains, alignment);
        ASSERT_EQ(test.Take(is_of_all ? test.Union() : test.Own(), grains,
                            alignment, is_of_all),
                  expected)
            << grains << " grains aligned to " << alignment;
    }
}

TEST(ViewTake, AlignsUpToAPage)
{
    MapsUnderTest test(3);
    ASSERT_EQ(test.Give(1, 3 * kPage - 1), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 10, 64), 64U);
    EXPECT_EQ(test.Take(test.Union(), 10, 4096), kPage);
    EXPECT_EQ(test.Take(test.Union(), kPage, 4096), 2 * kPage);
}

TEST(ViewTake, PassesRunsThatOnlyAlignmentMakesTooShort)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(1, 130), PROBE_GIVEN);
    ASSERT_EQ(test.Give(kPage, 200), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 68, 64), kPage);
    EXPECT_EQ(test.Take(test.Union(), 67, 64), 64U);
}

TEST(ViewTake, OfAStreamSeesNoOthersMaps)
{
    MapsUnderTest test(1);
    test.Age(0, 100, 1);
    ASSERT_EQ(test.Give(100, 100, 1), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(0), 1), kNone);
    EXPECT_EQ(test.Take(test.Done(), 1), kNone);
    EXPECT_EQ(test.Picture(), "A100 F100 .3896");
}

TEST(ViewTake, WithoutAStreamSeesOnlyWhatIsDone)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 100), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(100, 50));
    EXPECT_EQ(test.Take(test.Done(), 51), kNone);
    EXPECT_EQ(test.Take(test.Done(), 50), 100U);
    EXPECT_EQ(test.Picture(), "f100 .3996");
}

TEST(ViewTake, OfOwnMemoryLeavesWhatIsDone)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 100), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(100, 50));
    EXPECT_EQ(test.Take(test.Own(), 101), kNone);
    EXPECT_EQ(test.Take(test.Own(), 100), 0U);
    EXPECT_EQ(test.Picture(), ".100 d50 .3946");
}

TEST(ViewTake, NeedsNoHintsWhenItIsThorough)
{
    MapsUnderTest test(2);
    test.Age(kPage + 64, 128);
    ASSERT_EQ(test.Give(10, 20), PROBE_GIVEN);
    map_probe_forget_hints(test.maps());
    EXPECT_EQ(test.Take(test.Union(), 128), kNone);
    EXPECT_EQ(test.Take(test.Union(), 128, 1, true), kPage + 64);
    EXPECT_EQ(test.Take(test.Union(), 20, 1, true), 10U);
}

TEST(ViewTake, OfMoreThanThereIsTakesNothing)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(0, 2 * kPage), PROBE_GIVEN);
    EXPECT_EQ(test.Take(test.Union(), 2 * kPage + 1), kNone);
    EXPECT_EQ(test.Picture(), "f8192");
    EXPECT_EQ(map_probe_contended(test.buddy()), 0U);
}

TEST(ViewTake, GetsTheSameWhileOthersAreInEachOthersWay)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(100, 300), PROBE_GIVEN);
    map_probe_contend(test.buddy(), true);
    EXPECT_EQ(test.Take(test.Union(), 301), kNone);
    EXPECT_EQ(test.Take(test.Union(), 300), 100U);
    EXPECT_EQ(map_probe_contended(test.buddy()), 1U);
}

TEST(ViewClaim, TakesExactlyTheInterval)
{
    MapsUnderTest test(2);
    ASSERT_EQ(test.Give(0, kPage + 100), PROBE_GIVEN);
    EXPECT_TRUE(test.Claim(test.Own(), 100, kPage - 50));
    EXPECT_EQ(test.Picture(), "f100 .4046 f50 .3996");
    EXPECT_EQ(test.fresh(), 150U);
}

TEST(ViewClaim, GivesTheRestOfAnAgeingUnitToTheFreshMap)
{
    MapsUnderTest test(3);
    test.Age(0, kPage + 128);
    EXPECT_TRUE(test.Claim(test.Union(), 10, 5));
    EXPECT_EQ(test.Picture(), "f10 .5 f4081 a128 .8064");
    EXPECT_TRUE(test.Claim(test.Union(), kPage + 70, 10));
    EXPECT_EQ(test.Picture(kPage, kPage), "a64 f6 .10 f48 .3968");
    EXPECT_EQ(test.ageing(), 64U);
}

TEST(ViewClaim, GivesTheRestOfADoneUnitToTheBuddy)
{
    MapsUnderTest test(1);
    ASSERT_TRUE(test.Finish(0, kPage));
    EXPECT_TRUE(test.Claim(test.Union(), 100, 1));
    EXPECT_EQ(test.Picture(), "d100 .1 d3995");
    EXPECT_EQ(test.fresh(), 0U);
}

TEST(ViewClaim, OfAnIntervalWithAGapPutsAllBack)
{
    MapsUnderTest test(1);
    ASSERT_TRUE(test.Finish(0, 100));
    ASSERT_EQ(test.Give(100, 50), PROBE_GIVEN);
    ASSERT_TRUE(test.Finish(150, 20));
    EXPECT_FALSE(test.Claim(test.Union(), 50, 200));
    EXPECT_EQ(test.Picture(), "d100 f50 d20 .3926");
}

TEST(ViewClaim, PutsWhatWasAgeingBackAsFresh)
{
    MapsUnderTest test(1);
    test.Age(0, 100);
    ASSERT_TRUE(test.Finish(100, 50));
    EXPECT_FALSE(test.Claim(test.Union(), 20, 200));
    // Chunks come before parts of chunks: the first one was not touched.
    EXPECT_EQ(test.Picture(), "a64 f36 d50 .3946");
    EXPECT_EQ(test.fresh(), 36U);
    EXPECT_EQ(test.ageing(), 64U);
}

TEST(ViewClaim, PutsAPartOfAPageBackWhole)
{
    MapsUnderTest test(3);
    ASSERT_TRUE(test.Finish(kPage, kPage));
    EXPECT_FALSE(test.Claim(test.Union(), kPage + 10, kPage));
    EXPECT_TRUE(buddy_probe_is_page_free(test.buddy(), 1));
    EXPECT_EQ(test.Picture(), ".4096 d4096 .4096");
}

TEST(ViewClaim, OfAnotherStreamsMemoryFails)
{
    MapsUnderTest test(1);
    ASSERT_EQ(test.Give(0, 100, 1), PROBE_GIVEN);
    EXPECT_FALSE(test.Claim(test.Union(0), 0, 1));
    EXPECT_FALSE(test.Claim(test.Done(), 0, 1));
    EXPECT_TRUE(test.Claim(test.Union(1), 0, 1));
}

TEST(ViewClaim, OfOwnMemoryDoesNotTouchWhatIsDone)
{
    MapsUnderTest test(1);
    ASSERT_TRUE(test.Finish(0, 64));
    ASSERT_EQ(test.Give(64, 64), PROBE_GIVEN);
    EXPECT_FALSE(test.Claim(test.Own(), 32, 64));
    EXPECT_EQ(test.Picture(), "d64 f64 .3968");
}

TEST(ViewClaim, PutsAWholePageTogetherFromItsParts)
{
    MapsUnderTest test(2);
    test.Age(0, 1000);
    ASSERT_TRUE(test.Finish(1000, 1000));
    ASSERT_EQ(test.Give(2000, 2 * kPage - 2000), PROBE_GIVEN);
    EXPECT_TRUE(test.Claim(test.Union(), 0, 2 * kPage));
    EXPECT_EQ(test.Picture(), ".8192");
}

TEST(ViewClaim, NotesMorePiecesThanItHasRoomForAtFirst)
{
    MapsUnderTest test(1);
    for (uint64_t at = 0; at < 600; at += 2) {
        ASSERT_TRUE(test.Finish(at, 1));
        ASSERT_EQ(test.Give(at + 1, 1), PROBE_GIVEN);
    }
    std::string before = test.Picture();
    EXPECT_FALSE(test.Claim(test.Union(), 0, 601));
    EXPECT_EQ(test.Picture(), before);
    EXPECT_TRUE(test.Claim(test.Union(), 0, 600));
    EXPECT_EQ(test.Picture(), ".4096");
}

} // namespace

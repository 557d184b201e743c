// SPDX-License-Identifier: Apache-2.0
//
// What the buddy promises, one behaviour a test, on one thread. The words are
// looked into where the promise is about them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/buddy/buddy_under_test.h"

namespace
{

TEST(BuddyCreate, OfNoPagesIsRefused)
{
    struct moietyi_buddy *buddy = nullptr;
    EXPECT_EQ(buddy_probe_create(0, &buddy), 1); // MOIETY_E_INVALID
    EXPECT_EQ(buddy, nullptr);
}

TEST(BuddyCreate, BeyondWhatAnAddressCanNameIsRefused)
{
    struct moietyi_buddy *buddy = nullptr;
    EXPECT_EQ(buddy_probe_create(UINT32_MAX, &buddy), 2); // MOIETY_E_TOO_LARGE
    EXPECT_EQ(buddy, nullptr);
}

TEST(BuddyCreate, StartsWithNothingFree)
{
    BuddyUnderTest buddy(0, 3);
    EXPECT_EQ(buddy.free_grains(), 0U);
    EXPECT_EQ(buddy.Take(1), kNone);
    EXPECT_EQ(buddy.TakeLast(1), kNone);
    EXPECT_EQ(buddy.TakeRun(64), kNone);
}

TEST(BuddyCreate, ReservesAnyCapacityWithoutUsingIt)
{
    BuddyUnderTest buddy(1, 1U << 20); // 2 TiB of offset space
    EXPECT_EQ(buddy.Take(1), 0U);
    EXPECT_EQ(buddy.free_grains(), kPage - 1);
}

TEST(BuddyAdd, MakesPagesFree)
{
    BuddyUnderTest buddy(0, 130);
    buddy_probe_add(buddy.get(), 3, 127);
    EXPECT_EQ(buddy.free_grains(), 127 * kPage);
    EXPECT_EQ(buddy_probe_longest_page_run(buddy.get()), 127U);
    EXPECT_EQ(buddy.Take(1), 3 * kPage);
}

TEST(BuddyAdd, MayLeaveGaps)
{
    BuddyUnderTest buddy(0, 10);
    buddy_probe_add(buddy.get(), 8, 2);
    buddy_probe_add(buddy.get(), 0, 1);
    EXPECT_EQ(buddy.free_grains(), 3 * kPage);
    EXPECT_EQ(buddy.TakeRun(128), 8 * kPage);
    EXPECT_EQ(buddy.TakeRun(64), 0U);
}

TEST(BuddyTake, TakesTheLowestFreePlace)
{
    BuddyUnderTest buddy(2);
    EXPECT_EQ(buddy.Take(5), 0U);
    EXPECT_EQ(buddy.Take(3), 5U);
    ASSERT_TRUE(buddy.Give(0, 5));
    EXPECT_EQ(buddy.Take(4), 0U);
}

TEST(BuddyTake, ARunMayStartAtAnyShift)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(1), 0U);
    EXPECT_EQ(buddy.Take(32), 1U);
    EXPECT_EQ(buddy.Take(31), 33U);
}

TEST(BuddyTake, OneWordServesAWholeBatch)
{
    BuddyUnderTest buddy(1);
    EXPECT_EQ(buddy.TakeMany(3, 4), (std::vector<uint64_t>{0, 3, 6, 9}));
    EXPECT_EQ(buddy.free_grains(), kPage - 12);
}

TEST(BuddyTake, ABatchLargerThanAWordComesShort)
{
    BuddyUnderTest buddy(1);
    EXPECT_EQ(buddy.TakeMany(21, 8).size(), 3U);
}

// Where a chunk by itself would have a rest.
TEST(BuddyTake, ABatchCrossesFromChunkToChunk)
{
    BuddyUnderTest buddy(1);
    EXPECT_EQ(buddy.TakeMany(34, 4), (std::vector<uint64_t>{0, 34, 68, 102}));
    EXPECT_EQ(buddy.chunk_word(2), kFull << 8);
    EXPECT_EQ(buddy.free_grains(), kPage - 136);
}

TEST(BuddyTake, ABatchThatCrossesHasAsManyAsChunksAreLeft)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(kPage / 2), 0U);
    ASSERT_EQ(buddy.Take(kPage / 2 - 3 * 64), kPage / 2);
    EXPECT_EQ(buddy.TakeMany(34, 32).size(), 5U);
    EXPECT_EQ(buddy.free_grains(), 3 * 64U - 5 * 34U);
}

TEST(BuddyTake, LargeBlocksOfABatchLieSideBySide)
{
    BuddyUnderTest buddy(1);
    EXPECT_EQ(buddy.TakeMany(72, 4), (std::vector<uint64_t>{0, 72, 144, 216}));
    EXPECT_EQ(buddy.free_grains(), kPage - 288);
}

TEST(BuddyTake, GivesBackWhatALastChunkHasLeft)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(65), 0U);
    EXPECT_EQ(buddy.chunk_word(1), kFull << 1);
    EXPECT_EQ(buddy.free_grains(), kPage - 65);
    EXPECT_EQ(buddy.Take(63), 65U);
}

TEST(BuddyTake, SplitsOnlyOneChunkForASmallBlock)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(1), 0U);
    EXPECT_EQ(buddy.chunk_word(0), kFull << 1);
    EXPECT_EQ(buddy.page_word(0), kFull << 1);
}

TEST(BuddyTake, TakesUpToAMebibyte)
{
    BuddyUnderTest buddy(1);
    EXPECT_EQ(buddy.Take(PROBE_TAKE_GRAINS_MAX), 0U);
    EXPECT_EQ(buddy.Take(PROBE_TAKE_GRAINS_MAX), PROBE_TAKE_GRAINS_MAX);
    EXPECT_EQ(buddy.Take(1), kNone);
}

TEST(BuddyTake, ABatchThatFindsNoRoomAtOnceComesShort)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(PROBE_TAKE_GRAINS_MAX), 0U);
    ASSERT_EQ(buddy.Take(PROBE_TAKE_GRAINS_MAX - 64), 2048U);
    EXPECT_EQ(buddy.TakeMany(64, 16, 64), (std::vector<uint64_t>{4032}));
}

class BuddyAlignment : public ::testing::TestWithParam<uint32_t>
{
};

TEST_P(BuddyAlignment, IsKeptByBlocksOfEverySize)
{
    BuddyUnderTest buddy(70);
    for (uint32_t grains : {1U, 5U, 63U, 64U, 65U, 200U, 1024U, 2048U}) {
        ASSERT_NE(buddy.Take(3), kNone);
        for (uint64_t start : buddy.TakeMany(grains, 4, GetParam()))
            EXPECT_EQ(start % GetParam(), 0U) << grains;
    }
}

TEST_P(BuddyAlignment, SkipsPlacesThatAreNotAligned)
{
    BuddyUnderTest buddy(2);
    ASSERT_EQ(buddy.Take(1), 0U);
    EXPECT_EQ(buddy.TakeAligned(1, GetParam()), GetParam());
}

INSTANTIATE_TEST_SUITE_P(PowersOfTwo, BuddyAlignment,
                         ::testing::Values(1, 2, 8, 32, 64, 128, 2048, 4096));

TEST(BuddyTake, AnAlignedBlockLeavesTheRestFree)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.TakeAligned(1, 128), 0U);
    EXPECT_EQ(buddy.free_grains(), kPage - 1);
}

TEST(BuddyTake, FailsWhereOnlyTooShortRunsAreLeft)
{
    BuddyUnderTest buddy(1);
    std::vector<uint64_t> starts;
    for (uint64_t start; (start = buddy.Take(8)) != kNone;)
        starts.push_back(start);
    ASSERT_EQ(starts.size(), kPage / 8);
    for (size_t i = 0; i < starts.size(); i += 2)
        ASSERT_TRUE(buddy.Give(starts[i], 8));
    EXPECT_EQ(buddy.Take(9), kNone);
    EXPECT_EQ(buddy.TakeLast(9), kNone);
    EXPECT_EQ(buddy.Take(8), starts[0]);
}

TEST(BuddyTake, FindsTheOneHoleAmongManyShortOnes)
{
    BuddyUnderTest buddy(4);
    std::vector<uint64_t> starts;
    for (uint64_t start; (start = buddy.Take(16)) != kNone;)
        starts.push_back(start);
    for (uint64_t start : starts)
        ASSERT_TRUE(buddy.Give(start, 7));
    uint64_t hole = starts[starts.size() - 3];
    ASSERT_TRUE(buddy.Give(hole + 7, 9));
    EXPECT_EQ(buddy.Take(17), hole);
}

TEST(BuddyGive, MergesToTheWholePage)
{
    BuddyUnderTest buddy(1);
    uint64_t small = buddy.Take(1), large = buddy.Take(1000);
    ASSERT_TRUE(buddy.Give(small, 1));
    EXPECT_FALSE(buddy.is_page_free(0));
    ASSERT_TRUE(buddy.Give(large, 1000));
    EXPECT_TRUE(buddy.is_page_free(0));
    EXPECT_EQ(buddy.page_word(0), 0U);
    EXPECT_EQ(buddy.chunk_word(0), 0U);
}

TEST(BuddyGive, TheLastGrainMakesAChunkOfItsWord)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.TakeMany(1, 64).size(), 64U);
    ASSERT_EQ(buddy.Take(64), 64U);
    ASSERT_TRUE(buddy.Give(1, 63));
    EXPECT_EQ(buddy.chunk_word(0), kFull << 1);
    EXPECT_EQ(buddy.page_word(0), kFull << 2);
    ASSERT_TRUE(buddy.Give(0, 1));
    EXPECT_EQ(buddy.chunk_word(0), 0U);
    EXPECT_EQ(buddy.page_word(0), kFull << 2 | 1);
}

TEST(BuddyGive, TakesBackAPieceOfABlock)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(300), 0U);
    ASSERT_TRUE(buddy.Give(50, 200));
    EXPECT_EQ(buddy.free_grains(), kPage - 100);
    EXPECT_EQ(buddy.Take(14), 50U);
}

TEST(BuddyGive, TakesBackNeighboursTogether)
{
    BuddyUnderTest buddy(3);
    ASSERT_EQ(buddy.TakeRun(64), 0U);
    ASSERT_EQ(buddy.TakeRun(65), kPage);
    ASSERT_TRUE(buddy.Give(100, 2 * kPage + kChunk - 100));
    ASSERT_TRUE(buddy.Give(0, 100));
    EXPECT_EQ(buddy_probe_longest_page_run(buddy.get()), 3U);
}

TEST(BuddyGive, OfNothingChangesNothing)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(3), 0U);
    EXPECT_TRUE(buddy.Give(2, 0));
    EXPECT_TRUE(buddy.Give(0, 0));
    EXPECT_EQ(buddy.free_grains(), kPage - 3);
}

TEST(BuddyGive, TwiceIsRefusedInAWord)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.TakeMany(2, 2), (std::vector<uint64_t>{0, 2}));
    ASSERT_TRUE(buddy.Give(2, 2));
    EXPECT_FALSE(buddy.Give(2, 2));
    EXPECT_FALSE(buddy.Give(0, 3));
    EXPECT_EQ(buddy.free_grains(), kPage - 2);
}

TEST(BuddyGive, TwiceIsRefusedForChunks)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(128), 0U);
    ASSERT_EQ(buddy.Take(128), 128U);
    ASSERT_TRUE(buddy.Give(128, 128));
    EXPECT_FALSE(buddy.Give(128, 128));
    EXPECT_FALSE(buddy.Give(64, 128));
    EXPECT_EQ(buddy.free_grains(), kPage - 128);
}

TEST(BuddyGive, TwiceIsRefusedForPages)
{
    BuddyUnderTest buddy(4);
    ASSERT_EQ(buddy.TakeRun(128), 0U);
    ASSERT_TRUE(buddy.Give(0, 2 * kPage));
    EXPECT_FALSE(buddy.Give(0, 2 * kPage));
    EXPECT_FALSE(buddy.Give(3 * kPage, kPage));
    EXPECT_EQ(buddy.free_grains(), 4 * kPage);
}

TEST(BuddyRun, StartsOnAPageAndEndsOnAChunk)
{
    BuddyUnderTest buddy(5);
    ASSERT_EQ(buddy.Take(1), 0U);
    EXPECT_EQ(buddy.TakeRun(64 + 7), kPage);
    EXPECT_EQ(buddy.free_grains(), 5 * kPage - 1 - 71 * kChunk);
    EXPECT_EQ(buddy.page_word(2), kFull << 7);
}

TEST(BuddyRun, TheRestOfItsLastPageServesOthers)
{
    BuddyUnderTest buddy(2);
    ASSERT_EQ(buddy.TakeRun(127), 0U);
    EXPECT_EQ(buddy.Take(64), 2 * kPage - kChunk);
    EXPECT_EQ(buddy.Take(1), kNone);
}

TEST(BuddyRun, TakesTheTightestGap)
{
    BuddyUnderTest buddy(20);
    ASSERT_EQ(buddy.TakeRun(20 * 64), 0U);
    ASSERT_TRUE(buddy.Give(1 * kPage, 5 * kPage));
    ASSERT_TRUE(buddy.Give(8 * kPage, 3 * kPage));
    ASSERT_TRUE(buddy.Give(13 * kPage, 4 * kPage));
    EXPECT_EQ(buddy.TakeRun(3 * 64), 8 * kPage);
    EXPECT_EQ(buddy.TakeRun(3 * 64), 13 * kPage);
    EXPECT_EQ(buddy.TakeRun(3 * 64), 1 * kPage);
}

TEST(BuddyRun, TakesTheLowestOfEqualGaps)
{
    BuddyUnderTest buddy(9);
    ASSERT_EQ(buddy.TakeRun(9 * 64), 0U);
    ASSERT_TRUE(buddy.Give(5 * kPage, 2 * kPage));
    ASSERT_TRUE(buddy.Give(2 * kPage, 2 * kPage));
    EXPECT_EQ(buddy.TakeRun(2 * 64), 2 * kPage);
}

TEST(BuddyRun, SpansWordsOfPages)
{
    BuddyUnderTest buddy(200);
    ASSERT_EQ(buddy.TakeRun(60 * 64), 0U);
    EXPECT_EQ(buddy.TakeRun(140 * 64), 60 * kPage);
    EXPECT_EQ(buddy.free_grains(), 0U);
    ASSERT_TRUE(buddy.Give(60 * kPage, 140 * kPage));
    EXPECT_EQ(buddy_probe_longest_page_run(buddy.get()), 140U);
}

TEST(BuddyRun, OfNoOrTooManyChunksIsRefused)
{
    BuddyUnderTest buddy(2);
    EXPECT_EQ(buddy.TakeRun(0), kNone);
    EXPECT_EQ(buddy.TakeRun(129), kNone);
    EXPECT_EQ(buddy.TakeRun(UINT64_MAX), kNone);
    EXPECT_EQ(buddy.TakeRun(UINT64_MAX - 62), kNone);
    EXPECT_EQ(buddy.free_grains(), 2 * kPage);
}

TEST(BuddyWithdraw, TakesFreePagesOut)
{
    BuddyUnderTest buddy(70);
    EXPECT_TRUE(buddy.Withdraw(60, 10));
    EXPECT_EQ(buddy.free_grains(), 60 * kPage);
    EXPECT_EQ(buddy.TakeRun(61 * 64), kNone);
}

TEST(BuddyWithdraw, LeavesEverythingWhenAPageIsBusy)
{
    BuddyUnderTest buddy(70);
    ASSERT_EQ(buddy.TakeRun(69 * 64), 0U);
    ASSERT_TRUE(buddy.Give(0, 68 * kPage));
    EXPECT_FALSE(buddy.Withdraw(0, 70));
    EXPECT_EQ(buddy.free_grains(), 69 * kPage);
    EXPECT_TRUE(buddy.Withdraw(0, 68));
}

TEST(BuddyWithdraw, OfPagesThatWereNeverAddedIsRefused)
{
    BuddyUnderTest buddy(3, 10);
    EXPECT_FALSE(buddy.Withdraw(2, 2));
    EXPECT_FALSE(buddy.Withdraw(9, 1));
    EXPECT_FALSE(buddy.Withdraw(0, UINT32_MAX));
    EXPECT_FALSE(buddy.Withdraw(UINT32_MAX, 2));
    EXPECT_EQ(buddy.free_grains(), 3 * kPage);
}

TEST(BuddyWithdraw, OfNoPagesChangesNothing)
{
    BuddyUnderTest buddy(3);
    EXPECT_TRUE(buddy.Withdraw(0, 0));
    EXPECT_TRUE(buddy.Withdraw(3, 0));
    EXPECT_EQ(buddy.free_grains(), 3 * kPage);
}

TEST(BuddyWithdraw, PagesMayComeBack)
{
    BuddyUnderTest buddy(3);
    ASSERT_TRUE(buddy.Withdraw(0, 2));
    ASSERT_EQ(buddy.Take(1), 2 * kPage);
    buddy_probe_add(buddy.get(), 0, 2);
    EXPECT_EQ(buddy.TakeRun(128), 0U);
}

TEST(BuddyLast, NeedsNoSummary)
{
    BuddyUnderTest buddy(2);
    ASSERT_EQ(buddy.Take(1), 0U);
    ASSERT_EQ(buddy.TakeRun(64), kPage);
    buddy_probe_forget_summaries(buddy.get());
    ASSERT_EQ(buddy.Take(1), kNone);
    EXPECT_EQ(buddy.TakeLast(1), 1U);
    EXPECT_EQ(buddy.TakeLast(128, 64), 64U);
    ASSERT_TRUE(buddy.Give(0, 2)); // raises what it fills again
    ASSERT_TRUE(buddy.Give(64, 128));
}

TEST(BuddyLast, FindsWhatOpenWordsKeepFromMerging)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(PROBE_TAKE_GRAINS_MAX), 0U);
    uint64_t open = buddy.Take(1, &affinity);
    ASSERT_TRUE(buddy.Give(open, 1, &affinity));
    ASSERT_EQ(buddy.chunk_word(open / kChunk), kFull);
    EXPECT_EQ(buddy.TakeLast(PROBE_TAKE_GRAINS_MAX), 2048U);
}

TEST(BuddyLast, FailsWhenNothingFits)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.TakeRun(63), 0U);
    EXPECT_EQ(buddy.TakeLast(65), kNone);
    EXPECT_EQ(buddy.TakeLast(1, 128), kNone);
    EXPECT_EQ(buddy.TakeLast(64), 63 * kChunk);
}

TEST(BuddyHome, IsWhereTheNextBlockComesFrom)
{
    BuddyUnderTest buddy(3);
    buddy_probe_affinity first = {}, second = {};
    ASSERT_EQ(buddy.Take(1, &first), 0U);
    ASSERT_EQ(buddy.Take(1, &second), kPage);
    EXPECT_EQ(buddy.Take(1, &first), 1U);
    EXPECT_EQ(buddy.Take(1, &second), kPage + 1);
}

TEST(BuddyHome, OfOthersIsLeftAlone)
{
    BuddyUnderTest buddy(2);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), 0));
    EXPECT_EQ(buddy.Take(1), kPage);
}

TEST(BuddyHome, IsSharedBeforeMemoryIsDeclaredExhausted)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    EXPECT_EQ(buddy.Take(1), 1U);
}

TEST(BuddyHome, GrowsByAPageThatServes)
{
    BuddyUnderTest buddy(2);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(2048, &affinity), 0U);
    ASSERT_EQ(buddy.Take(2000, &affinity), 2048U);
    ASSERT_EQ(buddy.Take(200, &affinity), kPage);
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), 1));
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), 0));
    ASSERT_EQ(buddy.Take(2048, &affinity), kPage + 256);
    ASSERT_EQ(buddy.Take(1792, &affinity), kPage + 2304);
    ASSERT_EQ(buddy.Take(56, &affinity), kPage + 200); // now the newest is full
    EXPECT_EQ(buddy.Take(32, &affinity), 2048U + 2000);
}

TEST(BuddyHome, GivesUpItsOldestPageWhenItHasTooMany)
{
    BuddyUnderTest buddy(PROBE_AFFINITY_PAGES + 1);
    buddy_probe_affinity affinity = {};
    for (uint32_t i = 0; i < 2 * PROBE_AFFINITY_PAGES; i++)
        ASSERT_EQ(buddy.Take(2048, &affinity), i * UINT64_C(2048));
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), 0));
    ASSERT_EQ(buddy.Take(1, &affinity), PROBE_AFFINITY_PAGES * kPage);
    EXPECT_FALSE(buddy_probe_has_affinity(buddy.get(), 0));
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), 1));
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), PROBE_AFFINITY_PAGES));
}

TEST(BuddyHome, IsLostToWhoTakesThePageAfresh)
{
    BuddyUnderTest buddy(2);
    buddy_probe_affinity first = {}, second = {};
    ASSERT_EQ(buddy.Take(2048, &first), 0U);
    ASSERT_TRUE(buddy.Give(0, 2048)); // so that the page is free again
    ASSERT_EQ(buddy.Take(1, &second), 0U);
    EXPECT_EQ(buddy.Take(1, &first), kPage);
    buddy_probe_drop_affinity(buddy.get(), &first);
    EXPECT_TRUE(buddy_probe_has_affinity(buddy.get(), 0));
}

TEST(BuddyHome, LeftIsEverybodysAgain)
{
    BuddyUnderTest buddy(2);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    buddy_probe_drop_affinity(buddy.get(), &affinity);
    EXPECT_FALSE(buddy_probe_has_affinity(buddy.get(), 0));
    EXPECT_EQ(buddy.Take(1), 1U);
}

TEST(BuddyHysteresis, KeepsTheWordOpenThatItsSearcherUses)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    ASSERT_TRUE(buddy.Give(0, 1, &affinity));
    EXPECT_EQ(buddy.chunk_word(0), kFull);
    EXPECT_EQ(buddy.page_word(0), kFull << 1);
    EXPECT_EQ(buddy.Take(64, &affinity), 0U);
}

TEST(BuddyHysteresis, KeepsThePageOpenThatIsHome)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(128, &affinity), 0U);
    ASSERT_TRUE(buddy.Give(0, 128, &affinity));
    EXPECT_EQ(buddy.page_word(0), kFull);
    EXPECT_FALSE(buddy.is_page_free(0));
}

TEST(BuddyHysteresis, IsNotForTheGivesOfOthers)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    ASSERT_TRUE(buddy.Give(0, 1));
    EXPECT_TRUE(buddy.is_page_free(0));
}

TEST(BuddyHysteresis, HoldsForTheFirstBlockOfANewHome)
{
    BuddyUnderTest buddy(2);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(2048, &affinity), 0U);
    ASSERT_EQ(buddy.Take(2048, &affinity), 2048U);
    ASSERT_EQ(buddy.Take(1, &affinity), kPage);
    ASSERT_TRUE(buddy.Give(kPage, 1, &affinity));
    EXPECT_EQ(buddy.chunk_word(64), kFull);
}

TEST(BuddyHysteresis, LeavesNoFullWordBehindWhenItMovesOn)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.TakeMany(1, 64, 1, &affinity).size(), 64U);
    ASSERT_EQ(buddy.TakeMany(1, 64, 1, &affinity).size(), 64U);
    ASSERT_TRUE(buddy.Give(64, 64 - 1, &affinity));
    ASSERT_TRUE(buddy.Give(127, 1, &affinity));
    ASSERT_EQ(buddy.chunk_word(1), kFull);
    ASSERT_TRUE(buddy.Give(0, 1, &affinity));
    ASSERT_EQ(buddy.Take(1, &affinity), 0U); // from the other word
    EXPECT_EQ(buddy.chunk_word(1), 0U);
    EXPECT_EQ(buddy.page_word(0), kFull << 1);
}

TEST(BuddyHysteresis, EndsWhenHomeIsLeft)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    ASSERT_TRUE(buddy.Give(0, 1, &affinity));
    buddy_probe_drop_affinity(buddy.get(), &affinity);
    EXPECT_TRUE(buddy.is_page_free(0));
    EXPECT_EQ(buddy.CheckMerged(), nullptr);
}

TEST(BuddyTrim, ClosesWhatHysteresisLeftOpen)
{
    BuddyUnderTest buddy(1);
    buddy_probe_affinity affinity = {};
    ASSERT_EQ(buddy.Take(1, &affinity), 0U);
    ASSERT_TRUE(buddy.Give(0, 1, &affinity));
    ASSERT_FALSE(buddy.Withdraw(0, 1));
    buddy_probe_trim(buddy.get());
    EXPECT_TRUE(buddy.is_page_free(0));
    EXPECT_TRUE(buddy.Withdraw(0, 1));
}

TEST(BuddyTrim, LeavesTakenMemoryAlone)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(1), 0U);
    buddy_probe_trim(buddy.get());
    EXPECT_EQ(buddy.chunk_word(0), kFull << 1);
    EXPECT_EQ(buddy.free_grains(), kPage - 1);
}

TEST(BuddyClass, BelongsToOneGrain)
{
    BuddyUnderTest buddy(1);
    ASSERT_EQ(buddy.Take(4), 0U);
    buddy_probe_set_class(buddy.get(), 2, 0xA5);
    EXPECT_EQ(buddy_probe_class(buddy.get(), 1), 0U);
    EXPECT_EQ(buddy_probe_class(buddy.get(), 2), 0xA5U);
    EXPECT_EQ(buddy_probe_class(buddy.get(), 3), 0U);
    buddy_probe_set_class(buddy.get(), 2, 0);
}

TEST(BuddyClass, ReachesTheLastGrainOfTheLastPage)
{
    BuddyUnderTest buddy(3);
    ASSERT_EQ(buddy.TakeRun(3 * 64), 0U);
    buddy_probe_set_class(buddy.get(), 3 * kPage - 1, 9);
    EXPECT_EQ(buddy_probe_class(buddy.get(), 3 * kPage - 1), 9U);
}

TEST(BuddyClass, ARunKeepsItsLength)
{
    BuddyUnderTest buddy(4);
    ASSERT_EQ(buddy.TakeRun(100), 0U);
    buddy_probe_set_run_grains(buddy.get(), 0, 6400);
    buddy_probe_set_run_grains(buddy.get(), 3 * kPage + 70, UINT32_MAX);
    EXPECT_EQ(buddy_probe_run_grains(buddy.get(), 0), 6400U);
    EXPECT_EQ(buddy_probe_run_grains(buddy.get(), 64), 0U);
    EXPECT_EQ(buddy_probe_run_grains(buddy.get(), 3 * kPage + 70), UINT32_MAX);
}

TEST(BuddyClass, OfTwoThatEndABlockOneSeesItsByte)
{
    BuddyUnderTest buddy(1);
    buddy_probe_set_class(buddy.get(), 5, 9);
    EXPECT_EQ(buddy_probe_end_class(buddy.get(), 5), 9U);
    EXPECT_EQ(buddy_probe_end_class(buddy.get(), 5), 0U);
}

class BuddyCapacity : public ::testing::TestWithParam<uint32_t>
{
};

TEST_P(BuddyCapacity, IsTakenToTheLastGrainAndMergesBack)
{
    BuddyUnderTest buddy(GetParam());
    std::vector<uint64_t> starts;
    for (uint64_t start; (start = buddy.Take(PROBE_TAKE_GRAINS_MAX)) != kNone;)
        starts.push_back(start);
    EXPECT_EQ(starts.size(), 2 * GetParam());
    EXPECT_EQ(buddy.free_grains(), 0U);
    for (uint64_t start : starts)
        ASSERT_TRUE(buddy.Give(start, PROBE_TAKE_GRAINS_MAX));
    EXPECT_EQ(buddy.TakeRun(GetParam() * uint64_t{64}), 0U);
}

TEST_P(BuddyCapacity, LimitsWhatIsSearched)
{
    BuddyUnderTest buddy(0, GetParam());
    buddy_probe_add(buddy.get(), GetParam() - 1, 1);
    EXPECT_EQ(buddy_probe_page_limit(buddy.get()), GetParam());
    EXPECT_EQ(buddy.Take(1), (GetParam() - 1) * kPage);
}

INSTANTIATE_TEST_SUITE_P(AroundWords, BuddyCapacity,
                         ::testing::Values(1, 2, 63, 64, 65, 128, 129));

} // namespace

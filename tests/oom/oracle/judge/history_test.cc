// SPDX-License-Identifier: Apache-2.0
//
// Histories that were made up, with the verdict that each deserves.
#include "tests/oom/oracle/judge/history.h"

#include <gtest/gtest.h>

#include <memory>

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kBase = UINT64_C(1) << 40;
// The call that fails, and a while before and after it.
constexpr uint64_t kBefore = 1000;
constexpr uint64_t kBegin = 5000;
constexpr uint64_t kEnd = 6000;
constexpr uint64_t kAfter = 9000;

struct Destroy {
    void operator()(history *own) const
    {
        history_destroy(own);
    }
};

// A pool of 8 MiB in one segment. 4 MiB on stream 0 are asked for in vain.
class HistoryTest : public ::testing::Test
{
  protected:
    HistoryTest() : history_(history_create(16))
    {
        history_add_segment(history_.get(), kBase, 8 * kMiB, 1);
    }

    history_block *Add(uint64_t offset_bytes, uint64_t size_bytes,
                       history_span alloc = {10, 20})
    {
        return history_add_block(history_.get(), kBase + offset_bytes,
                                 size_bytes, alloc);
    }

    // What is left has room for the request; `block` is in its way.
    history_block *AddInTheWay(history_span alloc = {10, 20})
    {
        Add(0, 4 * kMiB);
        return Add(6 * kMiB, 512, alloc);
    }

    static void Free(history_block *block, uint64_t streams,
                     history_span call = {kBefore, kBefore + 10},
                     uint32_t own_stream = HISTORY_NO_STREAM)
    {
        block->freed = {call, streams, own_stream};
    }

    void Busy(uint32_t stream, uint64_t begin, uint64_t end)
    {
        history_begin_busy(history_.get(), stream, begin);
        if (end != HISTORY_NEVER)
            history_end_busy(history_.get(), stream, end);
    }

    history_verdict Judge()
    {
        return history_judge(history_.get(), &failure_, &rules_, &answer_);
    }

    std::unique_ptr<history, Destroy> history_;
    history_failure failure_ = {{kBegin, kEnd}, 4 * kMiB, 0, false};
    fits_answer answer_ = {};
    history_rules rules_ = {8 * kMiB, 0, false};
};

TEST_F(HistoryTest, AFailureBesideALongHoleIsFalse)
{
    Add(0, 4 * kMiB);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    EXPECT_EQ(answer_.hole_bytes, 4 * kMiB);
    EXPECT_EQ(answer_.pinned_bytes, 8 * kMiB);
}

TEST_F(HistoryTest, AFailureBesideALiveBlockInTheWayIsTrue)
{
    AddInTheWay();
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, WhatWasFreedBeforeTheCallIsFree)
{
    Free(AddInTheWay(), 0, {kBefore, kBegin - 1});
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, WhatIsFreedDuringTheCallIsLive)
{
    Free(AddInTheWay(), 0, {kBefore, kBegin});
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, WhatIsAllocatedDuringTheCallIsLive)
{
    AddInTheWay({kEnd, kAfter});
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, WhatIsAllocatedAfterTheCallIsFree)
{
    AddInTheWay({kEnd + 1, kAfter});
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, TwoBlocksThatTookTurnsDuringTheCallAreBothLive)
{
    Add(0, 4 * kMiB);
    Free(Add(5 * kMiB, 512), 0, {kBegin, kBegin + 1});
    AddInTheWay({kEnd - 2, kEnd - 1});
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, WorkThatIsStillPendingExcuses)
{
    Busy(3, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), 1 << 3);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, WorkThatIsDoneBeforeTheCallIsNoExcuse)
{
    Busy(3, kBefore - 1, kBegin);
    Free(AddInTheWay(), 1 << 3);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, WorkThatIsDoneWhileThePoolMayWaitIsNoExcuse)
{
    Busy(3, kBefore - 1, kBegin + 100);
    Free(AddInTheWay(), 1 << 3);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
    rules_.wait_ns = 99;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
    rules_.wait_ns = 100;
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, OtherStreamsWorkIsNoExcuse)
{
    Busy(4, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), 1 << 3);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, ARecordedUseExcuses)
{
    Busy(4, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), 1 << 3 | 1 << 4);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, AnyStreamsWorkExcusesWhatWasFreedWithAny)
{
    Busy(HISTORY_STREAMS - 1, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), HISTORY_ALL_STREAMS);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, NothingExcusesWhatWasFreedDone)
{
    for (uint32_t i = 0; i < HISTORY_STREAMS; i++)
        Busy(i, 1, HISTORY_NEVER);
    Free(AddInTheWay(), 0);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, WhatDoesNotFitWithoutPendingWorkIsTrue)
{
    Busy(3, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), 1 << 3);
    Add(4 * kMiB, 512);
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, WorkThatWasQueuedDuringTheFreeExcuses)
{
    Free(AddInTheWay(), 1 << 3, {kBefore, kBefore + 10});
    Busy(3, kBefore + 10, HISTORY_NEVER);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, WorkThatWasQueuedAfterTheFreeExcuses)
{
    Busy(3, kBefore - 1, kBefore + 100);
    Free(AddInTheWay(), 1 << 3, {kBefore, kBefore + 10});
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    Busy(3, kBefore + 200, HISTORY_NEVER);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, WorkThatIsQueuedAfterTheCallExcusesNobody)
{
    Free(AddInTheWay(), 1 << 3);
    Busy(3, kEnd + 1, HISTORY_NEVER);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, WorkOfAnotherStreamExcusesNobody)
{
    Free(AddInTheWay(), 1 << 3);
    Busy(4, kBefore - 1, HISTORY_NEVER);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, WhatIsPendingOnTheRequestsStreamIsFreeForIt)
{
    Busy(0, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), 1 << 0, {kBefore, kBefore + 10}, 0);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    failure_.stream = 1;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
    failure_.stream = HISTORY_NO_STREAM;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, ARequestWithoutAStreamOwnsNothing)
{
    Busy(3, kBefore - 1, HISTORY_NEVER);
    Free(AddInTheWay(), 1 << 3);
    failure_.stream = HISTORY_NO_STREAM;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(HistoryTest, ASegmentThatPendingWorkKeepsCannotBeGrownAnew)
{
    Busy(0, kBefore - 1, HISTORY_NEVER);
    Free(Add(0, 512), 1 << 0, {kBefore, kBefore + 10}, 0);
    failure_.needed_bytes = 9 * kMiB;
    rules_.limit_bytes = 16 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

// It is wholly free, but too short, and stays while the device works.
TEST_F(HistoryTest, ASegmentThatTheDevicesWorkKeepsIsAnExcuse)
{
    failure_.needed_bytes = 9 * kMiB;
    rules_.limit_bytes = 16 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    failure_.is_held_up = true;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED) << "the pool may not wait";
    rules_.wait_ns = 1;
    EXPECT_EQ(Judge(), HISTORY_FALSE) << "no stream works";
    Busy(0, kBefore, HISTORY_NEVER);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
    failure_.needed_bytes = 8 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_FALSE) << "it has room as it is";
}

// An earlier segment's block stays that segment's when the address comes back.
TEST_F(HistoryTest, BlocksBelongToTheSegmentOfTheirTime)
{
    Free(Add(0, 8 * kMiB), 0, {30, 40});
    history_remove_segment(history_.get(), kBase, 50);
    history_add_segment(history_.get(), kBase, 4 * kMiB, 60);
    Add(0, 4 * kMiB, {70, 80});
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    rules_.limit_bytes = 7 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, WhatWasPendingInASegmentThatIsGoneIsNoExcuse)
{
    Busy(3, 25, HISTORY_NEVER);
    Free(Add(0, 512), 1 << 3, {30, 40});
    failure_.needed_bytes = 8 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
    history_remove_segment(history_.get(), kBase, kEnd);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, WhatIsPendingInASegmentThatStaysIsAnExcuse)
{
    Busy(3, 25, HISTORY_NEVER);
    Free(Add(0, 512), 1 << 3, {30, 40});
    history_remove_segment(history_.get(), kBase, kEnd + 1);
    failure_.needed_bytes = 8 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

// Another thread may have taken it before the pool looked.
TEST_F(HistoryTest, AHoleInASegmentThatGoesDuringTheCallIsNone)
{
    Free(Add(0, 4 * kMiB), 0, {kBegin, kBegin + 1});
    history_remove_segment(history_.get(), kBase, kEnd - 1);
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, AHoleInASegmentThatComesDuringTheCallIsNone)
{
    history_add_segment(history_.get(), kBase + 8 * kMiB, 8 * kMiB, kBegin + 1);
    Add(8 * kMiB, 4 * kMiB, {kBegin, kEnd});
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(HistoryTest, AHoleInASegmentThatIsThereThroughoutIsOne)
{
    history_add_segment(history_.get(), kBase + 8 * kMiB, 8 * kMiB, kBegin);
    Free(Add(8 * kMiB, 4 * kMiB), 0, {kEnd, kEnd});
    history_remove_segment(history_.get(), kBase + 8 * kMiB, kEnd);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, HasRoomForSoManyBlocks)
{
    for (unsigned i = 0; i < 16; i++)
        EXPECT_NE(Add(i * 512, 512), nullptr);
    EXPECT_EQ(Add(0, 512), nullptr);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

// One more range than there are blocks would not fit into memory.
TEST_F(HistoryTest, WhatIsPendingAndWasFreedDuringTheCallCountsOnce)
{
    Busy(3, kBefore - 1, HISTORY_NEVER);
    for (unsigned i = 0; i < 16; i++)
        Free(Add(i * 512, 512), 1 << 3, {kBegin, kEnd});
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(HistoryTest, ABlockOutsideOfAllSegmentsEndsTheProcess)
{
    Add(8 * kMiB, 512);
    EXPECT_DEATH(Judge(), "a block lies in no segment");
}

TEST_F(HistoryTest, ASegmentThatIsGivenBackTwiceEndsTheProcess)
{
    history_remove_segment(history_.get(), kBase, 2);
    EXPECT_DEATH(history_remove_segment(history_.get(), kBase, 3),
                 "gives back what it has not got");
}

TEST_F(HistoryTest, AnIdleStreamThatEndsItsWorkEndsTheProcess)
{
    EXPECT_DEATH(history_end_busy(history_.get(), 0, 1),
                 "the stream is not busy");
}

TEST(NeededBytes, IsWhatThePoolSaysWithinWhatItPromises)
{
    EXPECT_EQ(history_needed_bytes(1000, 0), 1024U);
    EXPECT_EQ(history_needed_bytes(4096, 4608), 4608U);
    EXPECT_EQ(history_needed_bytes(4096, 8192), 4096U + 512 + 512);
    EXPECT_EQ(history_needed_bytes(2 * kMiB + 1, 4 * kMiB),
              2 * kMiB + 512 + 32768);
}

} // namespace

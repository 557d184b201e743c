// SPDX-License-Identifier: Apache-2.0
//
// Histories of mapped pools that were made up, with the verdict that each deserves.
#include <gtest/gtest.h>

#include <memory>

#include "tests/oom/oracle/judge/history.h"

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kBase = UINT64_C(1) << 40;
// The call that fails, and a while before and after it.
constexpr uint64_t kBefore = 1000;
constexpr uint64_t kBegin = 5000;
constexpr uint64_t kEnd = 6000;
constexpr uint32_t kMover = 3;

struct Destroy {
    void operator()(history *own) const
    {
        history_destroy(own);
    }
};

// A pool of 8 MiB, of two handles that touch. 4 MiB on stream 0 are asked for in
// vain.
class MappedHistoryTest : public ::testing::Test
{
  protected:
    MappedHistoryTest() : history_(history_create(16))
    {
        history_add_segment(history_.get(), kBase, 4 * kMiB, 1);
        history_add_segment(history_.get(), kBase + 4 * kMiB, 4 * kMiB, 1);
        rules_.limit_bytes = 8 * kMiB;
        rules_.is_mapped = true;
    }

    history_block *Add(uint64_t offset_bytes, uint64_t size_bytes,
                       history_span alloc = {10, 20})
    {
        return history_add_block(history_.get(), kBase + offset_bytes,
                                 size_bytes, alloc);
    }

    static void Free(history_block *block, uint64_t streams,
                     history_span call = {30, 40},
                     uint32_t own_stream = HISTORY_NO_STREAM)
    {
        block->freed = {call, streams, own_stream};
    }

    void Busy(uint32_t stream, uint64_t begin)
    {
        history_begin_busy(history_.get(), stream, begin);
    }

    // The second handle goes to 20 MiB, for stream 3, before the call.
    void Move(uint64_t left_at = 50, uint64_t at = 60)
    {
        history_remove_segment(history_.get(), kBase + 4 * kMiB, left_at);
        history_move_segment(history_.get(), kBase + 4 * kMiB,
                             kBase + 20 * kMiB, kMover, at);
    }

    history_verdict Judge()
    {
        return history_judge(history_.get(), &failure_, &rules_, &answer_);
    }

    std::unique_ptr<history, Destroy> history_;
    history_failure failure_ = {{kBegin, kEnd}, 4 * kMiB, 0, false};
    fits_answer answer_ = {};
    history_rules rules_ = {};
};

TEST_F(MappedHistoryTest, AHoleOverTwoHandlesIsOne)
{
    Add(0, 2 * kMiB);
    Add(6 * kMiB, 2 * kMiB);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    EXPECT_EQ(answer_.hole_bytes, 4 * kMiB);
    failure_.needed_bytes++;
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(MappedHistoryTest, ABlockOverTwoHandlesPinsBoth)
{
    Add(3 * kMiB, 2 * kMiB);
    EXPECT_EQ(Judge(), HISTORY_TRUE);
    EXPECT_EQ(answer_.pinned_bytes, 8 * kMiB);
}

TEST_F(MappedHistoryTest, AHandleWithoutABlockGoesBehindAHole)
{
    Add(0, 2 * kMiB);
    Move();
    failure_.needed_bytes = 6 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    Add(2 * kMiB, 512);
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(MappedHistoryTest, WorkThatIsStillPendingExcuses)
{
    Add(0, 4 * kMiB);
    Free(Add(5 * kMiB, 512), 1 << 3);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    Busy(3, kBefore);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
    failure_.is_held_up = true;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(MappedHistoryTest, NoWorkOfTheDeviceKeepsHandlesFromGoingBack)
{
    Busy(7, kBefore);
    failure_.needed_bytes = 8 * kMiB;
    failure_.is_held_up = true;
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(MappedHistoryTest, WhatIsPendingOnTheRequestsStreamIsFreeForIt)
{
    Add(0, 4 * kMiB);
    Busy(0, kBefore);
    Free(Add(5 * kMiB, 512), 1 << 0, {30, 40}, 0);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    failure_.stream = 1;
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(MappedHistoryTest, AHandleBringsTheMoversWorkAlong)
{
    Add(0, 4 * kMiB);
    Free(Add(4 * kMiB, 512), 1 << kMover, {30, 40}, kMover);
    Move();
    EXPECT_EQ(Judge(), HISTORY_FALSE) << "no work is pending";
    Busy(kMover, kBefore);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED) << "all of it is the mover's";
    failure_.stream = kMover;
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

TEST_F(MappedHistoryTest, AHandleThatMovesTwiceBringsItAlong)
{
    Add(0, 4 * kMiB);
    Free(Add(4 * kMiB, 512), 1 << kMover, {30, 40}, kMover);
    Move();
    history_remove_segment(history_.get(), kBase + 20 * kMiB, 70);
    history_move_segment(history_.get(), kBase + 20 * kMiB, kBase + 40 * kMiB,
                         kMover, 80);
    Busy(kMover, kBefore);
    EXPECT_EQ(Judge(), HISTORY_EXCUSED);
}

TEST_F(MappedHistoryTest, AHandleThatWasDoneBringsNothing)
{
    Add(0, 4 * kMiB);
    Free(Add(4 * kMiB, 512), 1 << 5);
    Move();
    Busy(kMover, kBefore);
    Busy(5, kBefore);
    EXPECT_EQ(Judge(), HISTORY_FALSE);
}

// 2 MiB are free in the handle that stays, and the other one would have to be where
// it was.
TEST_F(MappedHistoryTest, AnOldPlaceThatWaitsForAllWorkIsAnExcuse)
{
    Add(0, 2 * kMiB);
    Free(Add(4 * kMiB, 512), 1 << kMover, {30, 40}, kMover);
    Move();
    failure_.needed_bytes = 6 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_FALSE);
    Busy(9, kBefore);
    EXPECT_EQ(Judge(), HISTORY_BY_PLACE);
    failure_.needed_bytes = 4 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_FALSE) << "it fits where the handle is";
}

TEST_F(MappedHistoryTest, AnOldPlaceThatIsUsedAgainIsNone)
{
    Add(0, 4 * kMiB);
    Free(Add(4 * kMiB, 512), 1 << kMover, {30, 40}, kMover);
    Move();
    history_add_segment(history_.get(), kBase + 4 * kMiB, 2 * kMiB, 70);
    Add(4 * kMiB, kMiB, {80, 90});
    Busy(9, kBefore);
    rules_.limit_bytes = 14 * kMiB;
    failure_.needed_bytes = 5 * kMiB;
    EXPECT_EQ(Judge(), HISTORY_FALSE) << "behind the new block";
    failure_.needed_bytes = 8 * kMiB + 1;
    EXPECT_EQ(Judge(), HISTORY_BY_PLACE) << "if the handle that moved goes";
}

TEST_F(MappedHistoryTest, AHandleThatMovesDuringTheCallHasNoHoles)
{
    Add(0, 4 * kMiB);
    Add(20 * kMiB, 512, {kEnd - 10, kEnd});
    Move(kBegin + 1, kBegin + 2);
    EXPECT_EQ(Judge(), HISTORY_TRUE);
}

TEST_F(MappedHistoryTest, ABlockOutsideOfAllHandlesEndsTheProcess)
{
    Add(7 * kMiB, 2 * kMiB);
    EXPECT_DEATH(Judge(), "a block lies in no segment");
}

TEST_F(MappedHistoryTest, AMoveOfWhatIsThereEndsTheProcess)
{
    EXPECT_DEATH(history_move_segment(history_.get(), kBase, kBase + 20 * kMiB,
                                      kMover, 60),
                 "gives back what it has not got");
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Handles that are wholly free move to where memory is wanted: which ones, when,
// and what becomes of the place that they leave.
#include <gtest/gtest.h>

#include "tests/segment/mapped_under_test.h"

namespace
{

using namespace segment_test;

// A handle of four pages at page 0, and page 4 in use behind it.
void MakeFour(MappedSegments &segments)
{
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 1);
}

TEST(Move, TakesAHandleThatIsDoneAtOnce)
{
    MappedSegments segments;
    MakeFour(segments);
    uint64_t handle = segments.HandleAt(0);
    segments.Give(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(handle, segments.HandleAt(5));
    EXPECT_EQ(1u, segments.mapper.PlacesOf(handle))
        << "nobody uses the old one";
    EXPECT_EQ((PieceList{{4, 7}}), segments.Pieces());
    EXPECT_EQ(6u, segments.DonePages(5, 8));
    EXPECT_EQ(0u, segments.DonePages(0, 1));
    EXPECT_EQ(1u, segments.Stats().move_count);
    EXPECT_EQ(4 * kPage, segments.Stats().moved_bytes);
    EXPECT_EQ(0u, segments.Stats().left_bytes);
    EXPECT_EQ(0u, segment_probe_left_at(segments.own));
    EXPECT_EQ((Pages{4, 1, 2}), segments.AskedPages());
    EXPECT_EQ(3u, segments.Stats().grow_count) << "a move is no growth";
}

// Only a view says what is free.
TEST(Move, NeedsAView)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.Give(0, 4);
    EXPECT_EQ(MOIETY_OK, segment_probe_grow(segments.own, 6 * kPage));
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ(11u, segments.ReservedPages());
}

TEST(Move, TakesAStreamsOwnMemoryForThatStream)
{
    MappedSegments segments;
    MakeFour(segments);
    uint64_t handle = segments.HandleAt(0);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    EXPECT_EQ(handle, segments.HandleAt(5));
    EXPECT_EQ(handle, segments.HandleAt(0)) << "work may still use it there";
    EXPECT_EQ(4u, segments.OwnPages(5, 8));
    EXPECT_EQ(0u, segments.DonePages(5, 1));
    EXPECT_EQ(2u, segments.DonePages(9, 8));
    EXPECT_EQ(0u, segments.OwnPages(0, 1)) << "it serves at one place alone";
    EXPECT_EQ(0u, segments.DonePages(0, 1));
    EXPECT_EQ((PieceList{{4, 7}}), segments.Pieces());
    EXPECT_EQ(4 * kPage, segments.Stats().left_bytes);
    EXPECT_EQ(kNext, segment_probe_left_at(segments.own));
    EXPECT_EQ(7u, segments.ReservedPages()) << "it counts once";
}

// All of it is the stream's afterwards, as work may use the part that it freed.
TEST(Move, TakesWhatIsPartlyDoneAndPartlyAStreams)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 1);
    segments.Give(1, 3);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    EXPECT_EQ(4u, segments.OwnPages(5, 8));
    EXPECT_EQ(4 * kPage, segments.Stats().left_bytes);
}

// What is done waits for nothing, although the call may move a stream's own.
TEST(Move, OfWhatIsDoneLeavesNothingForAStreamEither)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.Give(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    EXPECT_EQ(1u, segments.Stats().move_count);
    EXPECT_EQ(0u, segments.Stats().left_bytes);
    EXPECT_EQ(6u, segments.DonePages(5, 8));
    EXPECT_EQ(0u, segments.HandleAt(0));
}

TEST(Move, UsesAPlaceThatWasLeftOnceItsEpochHasPassed)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    segments.TakeOwn(5, 6);
    segment_probe_unmap_left(segments.own, kNext - 1);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(4, kNext, kNext - 1));
    EXPECT_EQ((PieceList{{4, 11}}), segments.Pieces()) << "not at page 0";
    EXPECT_NE(0u, segments.HandleAt(0));
    segments.Take(11, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(4, kNext + 1, kNext));
    EXPECT_EQ((PieceList{{0, 15}}), segments.Pieces());
    EXPECT_EQ(0u, segments.Stats().left_bytes);
}

TEST(Move, UnmapsAPlaceOnRequest)
{
    MappedSegments segments;
    MakeFour(segments);
    uint64_t handle = segments.HandleAt(0);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    segment_probe_unmap_left(segments.own, kNext - 1);
    EXPECT_EQ(2u, segments.mapper.PlacesOf(handle));
    segment_probe_unmap_left(segments.own, kNext);
    EXPECT_EQ(1u, segments.mapper.PlacesOf(handle));
    EXPECT_EQ(0u, segment_probe_left_at(segments.own));
}

// Of two places the one of the later epoch stays.
TEST(Move, TellsTheFirstEpochThatAPlaceWaitsFor)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6, 9)); // from 0 to 5
    segments.Take(9, 2);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6, 7)); // from 5 to 11
    EXPECT_EQ(8 * kPage, segments.Stats().left_bytes);
    EXPECT_EQ(7u, segment_probe_left_at(segments.own));
    segment_probe_unmap_left(segments.own, 8);
    EXPECT_EQ(0u, segments.HandleAt(5));
    EXPECT_NE(0u, segments.HandleAt(0));
    EXPECT_EQ(9u, segment_probe_left_at(segments.own));
}

TEST(Move, OfAStreamsOwnNeedsAnEpoch)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6, 0));
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ(4u, segments.OwnPages(0, 4));
    EXPECT_EQ(6u, segments.DonePages(5, 8));
}

TEST(Move, OfWhatIsDoneNeedsNone)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.Give(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6, 0));
    EXPECT_EQ(1u, segments.Stats().move_count);
    EXPECT_EQ(6u, segments.DonePages(5, 8));
}

TEST(Move, LeavesAHandleOfWhichAPartIsInUse)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.Give(0, 2);
    segments.Give(3, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ((PieceList{{0, 11}}), segments.Pieces());
}

TEST(Move, LeavesAHandleThatIsPinned)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.Give(0, 4);
    uint64_t id = 0;
    ASSERT_TRUE(segment_probe_pin(segments.own, segments.Address(2), &id));
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ(6u, segments.Trim());
    EXPECT_EQ((PieceList{{0, 5}}), segments.Pieces());
    segment_probe_unpin(segments.own, id);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(1u, segments.Stats().move_count);
}

// The free tail of five pages is a whole handle and one page of another.
TEST(Move, LeavesWhatTheRunIsToBeginWith)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 2);
    segments.ExtendAndTake(2, 4);
    segments.Give(1, 5);
    EXPECT_EQ(MOIETY_OK, segments.Extend(7));
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ(7u, segments.DonePages(1, 16));
}

TEST(Move, LeavesWhatItHasJustPlaced)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.ExtendAndTake(5, 4);
    segments.ExtendAndTake(9, 1);
    segments.Give(0, 4);
    segments.Give(5, 4);
    uint64_t calls = segments.mapper.Calls(FakeMapper::kMap);
    EXPECT_EQ(MOIETY_OK, segments.Extend(14));
    EXPECT_EQ(2u, segments.Stats().move_count);
    // Two that move, and new ones of four and two pages.
    EXPECT_EQ(calls + 4, segments.mapper.Calls(FakeMapper::kMap));
    EXPECT_EQ(14u, segments.DonePages(10, 16));
    EXPECT_EQ((PieceList{{4, 1}, {9, 15}}), segments.Pieces());
}

TEST(Move, TakesTheLargestThatFit)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.ExtendAndTake(5, 2);
    segments.ExtendAndTake(7, 1);
    segments.ExtendAndTake(8, 1);
    segments.ExtendAndTake(9, 1);
    uint64_t two = segments.HandleAt(5);
    uint64_t one = segments.HandleAt(8);
    segments.Give(0, 4); // the hole is too small for it
    segments.Give(5, 2);
    segments.Give(8, 1);
    segments.Take(0, 1); // so that nothing is long enough
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ(two, segments.HandleAt(10));
    EXPECT_EQ(one, segments.HandleAt(12));
    EXPECT_EQ(4u, segments.DonePages(10, 16));
}

// What is left of it is free behind the run.
TEST(Move, MayBringMoreThanIsMissing)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.ExtendAndTake(5, 2);
    segments.Give(0, 4);
    segments.Give(5, 2);
    EXPECT_EQ(MOIETY_OK, segments.Extend(5));
    EXPECT_EQ((Pages{4, 1, 2}), segments.AskedPages());
    EXPECT_EQ((PieceList{{4, 7}}), segments.Pieces());
    EXPECT_EQ(6u, segments.DonePages(5, 8));
}

TEST(Move, TakesTheEndOfTheLongest)
{
    MappedSegments segments;
    for (uint32_t i = 0; i < 10; i++)
        segments.ExtendAndTake(i, 1);
    segments.Give(1, 2);
    segments.Give(4, 3);
    uint64_t last = segments.HandleAt(6);
    uint64_t other = segments.HandleAt(1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ(last, segments.HandleAt(10));
    EXPECT_EQ(other, segments.HandleAt(1));
    EXPECT_EQ(4u, segments.Stats().move_count);
}

// 1024 at once, one for each new handle, and one for 128 cuts; the
// last growth may take more. Then the pool grows, until the program took enough.
TEST(Move, IsPaidForByWhatIsTaken)
{
    constexpr uint32_t kBlock = 64;
    constexpr uint64_t kTaken = 128;
    segment_probe_options options = WithCapacity(1 << 14);
    options.handle_pages = 1;
    MappedSegments segments(options);
    segments.ExtendAndTake(0, kBlock);
    uint32_t at = 0;
    auto turn = [&] {
        segments.Give(at + 1, kBlock - 2);
        EXPECT_EQ(MOIETY_OK, segments.Extend(kBlock));
        auto last = segments.Pieces().back();
        at = last.first + last.second - kBlock;
        segments.Take(at, kBlock);
    };
    for (int i = 0; i < 60; i++)
        turn();
    auto stats = segments.Stats();
    uint64_t taken = stats.move_count + 61;
    EXPECT_LE(1024u, stats.move_count);
    EXPECT_LE(stats.move_count,
              1024 + stats.grow_count + kBlock + taken / kTaken);
    for (uint64_t i = 0; i < 2 * kBlock * kTaken; i++) {
        segments.Give(at, 1);
        segments.Take(at, 1);
    }
    turn();
    EXPECT_LT(stats.move_count, segments.Stats().move_count);
}

TEST(Move, ServesWhereTheLimitLetsNothingBeCreated)
{
    MappedSegments segments(WithCapacity(64, 8));
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 4);
    segments.Give(0, 4);
    segments.Give(6, 2);
    uint64_t calls = segments.mapper.Calls(FakeMapper::kCreate);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(6u, segments.DonePages(6, 16));
    EXPECT_EQ(calls, segments.mapper.Calls(FakeMapper::kCreate));
    EXPECT_EQ(8u, segments.ReservedPages());
}

// Where nothing else is to be had, a larger handle than is missing will do.
TEST(Move, OfALargerHandleServesAtTheLimit)
{
    MappedSegments segments(WithCapacity(64, 10));
    segments.ExtendAndTake(0, 8);
    segments.ExtendAndTake(8, 2);
    segments.Give(0, 8);
    segments.Take(0, 1);
    segments.Give(9, 1);
    segments.Give(0, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(9));
    EXPECT_EQ(1u, segments.Stats().move_count);
    EXPECT_EQ(9u, segments.DonePages(9, 16));
}

// Ten pages of a thousand may move, to a hole of five that must be filled by
// handles of four, four and one: the second of four has no room.
TEST(Move, TakesNoHandleThatHasNoRoomAtTheLimit)
{
    MappedSegments segments(WithCapacity(1 << 14, 1021));
    for (uint32_t at : {0, 5}) {
        segments.ExtendAndTake(at, 4);
        segments.ExtendAndTake(at + 4, 1);
    }
    segments.ExtendAndTake(10, 1);
    segments.ExtendAndTake(11, 1);
    segments.ExtendAndTake(12, 5);
    segments.ExtendAndTake(17, 4);
    segments.Give(12, 5);
    EXPECT_EQ(5u, segments.Trim());
    segments.ExtendAndTake(21, 1005);
    EXPECT_EQ(1021u, segments.ReservedPages());
    segments.Give(0, 4);
    segments.Give(5, 4);
    segments.Give(10, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(5)) << segment_probe_message();
    EXPECT_EQ(2u, segments.Stats().move_count);
    EXPECT_EQ(5u, segments.DonePages(12, 8));
}

// 16 addresses wait for their epoch while a handle at page 8 could move.
void MakeSixteenWait(MappedSegments &segments)
{
    segments.ExtendAndTake(0, 8);
    segments.ExtendAndTake(8, 1);
    segments.GiveOwn(0, 8);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(9));
    segments.Take(17, 1);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(9));
    segments.TakeOwn(18, 9);
    EXPECT_EQ(2u, segments.Stats().move_count);
    EXPECT_EQ(16 * kPage, segments.Stats().left_bytes);
    segments.GiveOwn(8, 1);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(2));
}

TEST(Move, OfAStreamsOwnStopsWhereHalfOfTheAddressesWait)
{
    MappedSegments narrow(WithCapacity(31));
    MakeSixteenWait(narrow);
    EXPECT_EQ(2u, narrow.Stats().move_count);
    EXPECT_EQ(1u, narrow.OwnPages(8, 1));
    EXPECT_EQ(2u, narrow.DonePages(27, 4));

    MappedSegments wide(WithCapacity(32));
    MakeSixteenWait(wide);
    EXPECT_EQ(3u, wide.Stats().move_count);
    EXPECT_EQ(1u, wide.OwnPages(27, 1));
}

TEST(Move, KeepsAHandleFromATrimWhileItIsMappedTwice)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(5));
    EXPECT_EQ((PieceList{{4, 6}}), segments.Pieces());
    segments.Drain();
    EXPECT_EQ(5u, segments.DonePages(5, 8));
    segments.Take(9, 1);
    EXPECT_FALSE(segment_probe_can_trim(segments.own));
    EXPECT_EQ(0u, segments.Trim());
    EXPECT_EQ(4u, segments.DonePages(5, 8));
    segment_probe_unmap_left(segments.own, kNext);
    EXPECT_TRUE(segment_probe_can_trim(segments.own));
    EXPECT_EQ(4u, segments.Trim());
    EXPECT_EQ((PieceList{{4, 1}, {9, 1}}), segments.Pieces());
}

TEST(Move, ThatCannotBeMappedStaysAndTheRunIsCreated)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    segments.mapper.Fail(FakeMapper::kMap, 1);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    EXPECT_EQ(0u, segments.Stats().move_count);
    EXPECT_EQ(4u, segments.OwnPages(0, 4)) << "it is the stream's as before";
    EXPECT_EQ(6u, segments.DonePages(5, 8));
    segments.ExpectSound();
    segments.TakeOwn(0, 4);
}

// The places take no memory, and unmapping all would make one call long.
TEST(Move, UnmapsAFewPlacesInAGrowth)
{
    MappedSegments segments(WithCapacity(1 << 10));
    for (uint32_t i = 0; i < 160; i++)
        segments.ExtendAndTake(i, 1);
    for (uint32_t i = 0; i < 160; i += 2)
        segments.Give(i, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(80));
    EXPECT_EQ(80u, segments.Stats().move_count);
    EXPECT_EQ(16 * kPage, segments.Stats().left_bytes);
    segments.ExpectSound();
    segment_probe_unmap_left(segments.own, kNext);
    EXPECT_EQ(0u, segments.Stats().left_bytes);
}

// Whatever waits, when there is no other room.
TEST(Move, UnmapsAllPlacesWhereAddressesAreUsedUp)
{
    MappedSegments segments(WithCapacity(280));
    for (uint32_t i = 0; i < 101; i++)
        segments.ExtendAndTake(i, 1);
    segments.Give(0, 100);
    EXPECT_EQ(MOIETY_OK, segments.Extend(150));
    segments.Take(101, 150);
    EXPECT_EQ(36 * kPage, segments.Stats().left_bytes);
    EXPECT_EQ(MOIETY_OK, segments.Extend(100)) << segment_probe_message();
    segments.Take(0, 100);
}

TEST(Move, TriesAgainToUnmapAPlace)
{
    MappedSegments segments;
    MakeFour(segments);
    uint64_t handle = segments.HandleAt(0);
    segments.Give(0, 4);
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ(2u, segments.mapper.PlacesOf(handle));
    EXPECT_EQ(4 * kPage, segments.Stats().left_bytes);
    segments.ExpectSound();
    EXPECT_EQ(MOIETY_OK, segments.Extend(10));
    EXPECT_EQ(1u, segments.mapper.PlacesOf(handle));
    EXPECT_EQ(0u, segments.Stats().left_bytes);
}

TEST(Move, IsOverAtTheEndWhateverWaits)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    EXPECT_EQ(4 * kPage, segments.Stats().left_bytes);
    EXPECT_EQ(MOIETY_OK, segments.End());
}

// The second try of the end succeeds.
TEST(Move, IsOverAtTheEndThoughUnmappingIsRefusedOnce)
{
    MappedSegments segments;
    MakeFour(segments);
    segments.GiveOwn(0, 4);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(6));
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    EXPECT_EQ(MOIETY_OK, segments.End());
    EXPECT_TRUE(segments.mapper.HasFailed());
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Handles that are held: they are nobody else's, and their memory goes and comes
// back at the same place.
#include <gtest/gtest.h>

#include "tests/segment/mapped_under_test.h"

namespace
{

using namespace segment_test;

uint32_t Hold(MappedSegments &segments, uint32_t page_count)
{
    uint32_t first = 0;
    EXPECT_EQ(MOIETY_OK, segment_probe_hold(segments.own, page_count, &first))
        << segment_probe_message();
    return first;
}

TEST(SegmentHeld, NeitherServesNorGoesNorTouchesAnother)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 3);
    uint32_t second = Hold(segments, 2);
    EXPECT_LT(first + 3, second);
    EXPECT_EQ(0u, segments.DonePages(first, 3));
    EXPECT_EQ(0u, segments.Trim());
    EXPECT_EQ(5u, segments.ReservedPages());
}

TEST(SegmentHeld, IsThePoolsOnceItWasGiven)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 3);
    segments.Give(first, 3);
    EXPECT_EQ(3u, segments.DonePages(first, 3));
    EXPECT_EQ(3u, segments.Trim());
    EXPECT_EQ(0u, segments.ReservedPages());
}

TEST(SegmentHeld, IsAwayAndBackAtItsPlace)
{
    MappedSegments segments(WithCapacity(64, 4));
    uint32_t first = Hold(segments, 4);
    bool is_away = false;
    uint32_t other = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              segment_probe_hold(segments.own, 1, &other));
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_TRUE(is_away);
    EXPECT_EQ(0u, segments.ReservedPages());
    EXPECT_EQ(0u, segments.HandleAt(first));
    EXPECT_STREQ(nullptr, segment_probe_check(segments.own));
    uint32_t mine = Hold(segments, 2);
    EXPECT_TRUE(mine + 2 <= first || mine >= first + 4);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              segment_probe_refill(segments.own, first));
    segments.Give(mine, 2);
    EXPECT_EQ(2u, segments.Trim());
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_NE(0u, segments.HandleAt(first));
}

TEST(SegmentHeld, IsNotAwayWhileItIsPinnedNorPinnedWhileAway)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 2);
    uint64_t id = 0;
    bool is_away = true;
    ASSERT_TRUE(segment_probe_pin(segments.own, segments.Address(first), &id));
    EXPECT_EQ(MOIETY_E_IN_USE,
              segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_FALSE(is_away);
    segment_probe_unpin(segments.own, id);
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_FALSE(segment_probe_pin(segments.own, segments.Address(first), &id));
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_TRUE(segment_probe_pin(segments.own, segments.Address(first), &id));
    segment_probe_unpin(segments.own, id);
}

TEST(SegmentHeld, IsAPeersTooWhenItIsBack)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 2);
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 3));
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_EQ(UINT64_C(1) << 3,
              segments.mapper.PeersAt(segments.Address(first)));
}

TEST(SegmentHeld, CanEndWhileItIsAway)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 2);
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    segment_probe_drop(segments.own, first);
    EXPECT_EQ(0u, segments.Stats().segment_count);
    EXPECT_STREQ(nullptr, segment_probe_check(segments.own));
    EXPECT_EQ(first, Hold(segments, 2));
}

TEST(SegmentHeld, LeavesNothingWhereACallFails)
{
    for (auto kind : {FakeMapper::kCreate, FakeMapper::kMap}) {
        MappedSegments segments;
        uint32_t first = 0;
        segments.mapper.Fail(kind, 1);
        EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_hold(segments.own, 2, &first));
        EXPECT_TRUE(segments.mapper.HasFailed());
        EXPECT_EQ(0u, segments.ReservedPages());
        EXPECT_EQ(0u, segments.Stats().segment_count);
        (void)Hold(segments, 2);
    }
}

// The driver refuses to open it, and to unmap it again.
TEST(SegmentHeld, IsNotLostWhereItStaysMapped)
{
    MappedSegments segments;
    uint32_t first = 0;
    segments.mapper.sticks = true;
    segments.mapper.Fail(FakeMapper::kMap, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_hold(segments.own, 2, &first));
    EXPECT_EQ(2u, segments.Stats().left_bytes / segment_test::kPage);
    EXPECT_STREQ(nullptr, segment_probe_check(segments.own));
    (void)Hold(segments, 2);
    segment_probe_unmap_left(segments.own, 0);
    (void)segments.Trim();
    EXPECT_EQ(2u, segments.ReservedPages());
    EXPECT_EQ(1u, segments.mapper.HandleCount());
}

TEST(SegmentHeld, IsOpenedWhereItStayedMapped)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 2);
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_add_peer(segments.own, 3));
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    segments.mapper.sticks = true;
    segments.mapper.Fail(FakeMapper::kMap, 1);
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_refill(segments.own, first));
    EXPECT_EQ(2u, segments.ReservedPages());
    EXPECT_STREQ(nullptr, segment_probe_check(segments.own));
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_EQ(UINT64_C(1) << 3,
              segments.mapper.PeersAt(segments.Address(first)));
}

// Between the memory and the contents that come back.
TEST(SegmentHeld, IsAwayUntilItIsRestored)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 2);
    bool is_away = false;
    uint64_t id = 0;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    EXPECT_EQ(MOIETY_OK, segment_probe_refill_away(segments.own, first));
    EXPECT_FALSE(segment_probe_pin(segments.own, segments.Address(first), &id));
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    segment_probe_empty(segments.own, first);
    EXPECT_EQ(2u, segments.ReservedPages());
    EXPECT_FALSE(segment_probe_pin(segments.own, segments.Address(first), &id));
    EXPECT_STREQ(nullptr, segment_probe_check(segments.own));
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
}

// Both ways back failed: the memory is there, and is found.
TEST(SegmentHeld, IsFoundAgainWhereItCouldNotBeMappedBack)
{
    MappedSegments segments;
    uint32_t first = Hold(segments, 2);
    uint64_t handle = segments.HandleAt(first);
    bool is_away = false;
    EXPECT_EQ(MOIETY_OK, segment_probe_vacate(segments.own, first, &is_away));
    segments.mapper.Fail(FakeMapper::kMap, 1);
    segments.mapper.Fail(FakeMapper::kDestroy, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_refill(segments.own, first));
    EXPECT_EQ(2u, segments.Stats().unreleased_bytes / segment_test::kPage);
    EXPECT_EQ(MOIETY_OK, segment_probe_refill(segments.own, first));
    EXPECT_NE(handle, segments.HandleAt(first));
    (void)segments.Trim();
    EXPECT_EQ(2u, segments.ReservedPages());
}

} // namespace

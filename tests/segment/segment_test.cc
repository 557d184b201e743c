// SPDX-License-Identifier: Apache-2.0
//
// How a pool's reserve grows, is found and shrinks, over a source that behaves.
#include <gtest/gtest.h>

#include "tests/segment/segments_under_test.h"

namespace
{

using namespace segment_test;

std::vector<uint64_t> Sizes(Segments &segments)
{
    std::vector<uint64_t> sizes;
    for (const auto &info : segments.All())
        sizes.push_back(info.memory_bytes);
    return sizes;
}

TEST(SegmentsCreate, ReservesNothing)
{
    FakeSource source;
    Segments segments(source.Table());
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_TRUE(source.Asked().empty());
    EXPECT_TRUE(segments.All().empty());
}

TEST(SegmentsDestroy, AcceptsNull)
{
    EXPECT_EQ(MOIETY_OK, segment_probe_destroy(nullptr));
}

TEST(SegmentsDestroy, GivesAllBackAlsoWhatIsHeld)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(3 * kGiB));
    EXPECT_EQ(2u, source.Live().size());
    EXPECT_EQ(MOIETY_OK, segments.End());
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ("", source.Complaint());
}

TEST(SegmentsGrow, AddsAQuarterOfWhatThereIsFrom2MiBTo1GiB)
{
    FakeSource source;
    Segments segments(source.Table(), {});
    for (int i = 0; i < 12; i++)
        ASSERT_EQ(MOIETY_OK, segments.GrowAnew(512));
    std::vector<uint64_t> expected(8, 2 * kMiB);
    for (uint64_t more : {4, 4, 6, 6})
        expected.push_back(more * kMiB);
    EXPECT_EQ(expected, source.Asked());
    EXPECT_EQ(36 * kMiB, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(12u, segments.Stats().grow_count);
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(5 * kGiB));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    EXPECT_EQ(kGiB, source.Asked().back());
}

TEST(SegmentsGrow, TakesItsSizesFromTheOptions)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.first_bytes = 6 * kMiB;
    options.largest_bytes = 8 * kMiB;
    Segments segments(source.Table(), options);
    for (int i = 0; i < 8; i++)
        ASSERT_EQ(MOIETY_OK, segments.GrowAnew(512));
    std::vector<uint64_t> expected(6, 6 * kMiB);
    expected.insert(expected.end(), 2, 8 * kMiB);
    EXPECT_EQ(expected, source.Asked());
}

TEST(SegmentsGrow, BeginsAsSmallAsTheLargestWhereThatIsLess)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.first_bytes = 8 * kMiB;
    options.largest_bytes = 4 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    EXPECT_EQ(std::vector<uint64_t>{4 * kMiB}, source.Asked());
}

TEST(SegmentsGrow, AddsWholePages)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.first_bytes = 2 * kMiB;
    Segments segments(source.Table(), options);
    for (int i = 0; i < 10; i++)
        ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    std::vector<uint64_t> expected(8, 2 * kMiB);
    expected.insert(expected.end(), 2, 4 * kMiB);
    EXPECT_EQ(expected, source.Asked());
}

TEST(SegmentsGrow, AddsNothingWhileThereIsRoom)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    ASSERT_EQ(MOIETY_OK, segments.Grow(32 * kMiB));
    EXPECT_EQ(1u, source.Asked().size());
}

TEST(SegmentsGrow, GivesASmallRequestTheFirstSize)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(4 * kMiB));
    EXPECT_EQ(std::vector<uint64_t>{32 * kMiB}, source.Asked());
}

TEST(SegmentsGrow, GivesALargerRequestASegmentOfItsOwn)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.first_bytes = 2 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.Grow(10 * kMiB + 1));
    EXPECT_EQ(std::vector<uint64_t>{12 * kMiB}, source.Asked());
}

// As much as is reserved, at least twice the request and at most 20 MiB.
TEST(SegmentsGrow, LetsRequestsBelow10MiBShare)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.first_bytes = 2 * kMiB;
    Segments segments(source.Table(), options);
    for (uint64_t size :
         {kMiB + 1, 2 * kMiB + 1, 2 * kMiB + 1, 10 * kMiB - 1, 3 * kMiB})
        ASSERT_EQ(MOIETY_OK, segments.GrowAnew(size));
    EXPECT_EQ((std::vector<uint64_t>{4 * kMiB, 8 * kMiB, 12 * kMiB, 20 * kMiB,
                                     20 * kMiB}),
              source.Asked());
}

TEST(SegmentsGrow, ReservesBarelyMoreThanAHugeRequest)
{
    FakeSource source;
    Segments segments(source.Table());
    const auto size = (uint64_t)(2.083 * (double)kGiB);
    ASSERT_EQ(MOIETY_OK, segments.Grow(size));
    EXPECT_GE(segment_probe_reserved_bytes(segments.own), size);
    EXPECT_LT(segment_probe_reserved_bytes(segments.own), size + 2 * kMiB);
}

TEST(SegmentsGrow, GivesAPageNoSegmentOfItsOwnHoweverSmallSegmentsAre)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.first_bytes = 4 * kMiB;
    options.largest_bytes = 4 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.Grow(2 * kMiB));
    EXPECT_EQ(std::vector<uint64_t>{4 * kMiB}, source.Asked());
}

TEST(SegmentsGrow, CountsSegmentsThatRequestsHaveOfTheirOwn)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(100 * kMiB));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    EXPECT_EQ((std::vector<uint64_t>{100 * kMiB, 32 * kMiB}), source.Asked());
}

TEST(SegmentsGrow, BeginsAnewAfterATrim)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(5 * kGiB));
    segments.Trim();
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    EXPECT_EQ((std::vector<uint64_t>{5 * kGiB, 32 * kMiB}), source.Asked());
}

TEST(SegmentsGrow, HalvesWhatIsNotToBeHad)
{
    FakeSource source;
    source.capacity_bytes = 10 * kMiB;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(2 * kMiB));
    EXPECT_EQ((std::vector<uint64_t>{32 * kMiB, 16 * kMiB, 8 * kMiB}),
              source.Asked());
    EXPECT_EQ(8 * kMiB, segment_probe_reserved_bytes(segments.own));
}

TEST(SegmentsGrow, HalvesNoFurtherThanTheNeed)
{
    FakeSource source;
    source.capacity_bytes = 3 * kMiB;
    Segments segments(source.Table());
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Grow(3 * kMiB));
    EXPECT_EQ((std::vector<uint64_t>{32 * kMiB, 16 * kMiB, 8 * kMiB, 4 * kMiB}),
              source.Asked());
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(1u, segments.Stats().failed_grow_count);
    EXPECT_STREQ("source 'fake' failed to reserve 4194304 bytes",
                 segment_probe_message());
}

TEST(SegmentsGrow, DoesNotHalveAfterAFailureThatIsNotExhaustion)
{
    FakeSource source;
    source.failing_reserve = 1;
    Segments segments(source.Table());
    EXPECT_EQ(MOIETY_E_DRIVER, segments.Grow(1));
    EXPECT_EQ(1u, source.Asked().size());
    EXPECT_EQ(MOIETY_OK, segments.Grow(1));
}

TEST(SegmentsGrow, IsCutToTheLimit)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.limit_bytes = 43 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    EXPECT_EQ((std::vector<uint64_t>{32 * kMiB, 10 * kMiB}), source.Asked());
}

TEST(SegmentsGrow, DoesNotAskBeyondTheLimit)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.limit_bytes = 34 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.GrowAnew(3 * kMiB));
    EXPECT_EQ(1u, source.Asked().size());
    EXPECT_STREQ("4194304 bytes more would exceed the limit of 35651584 bytes: "
                 "33554432 are reserved",
                 segment_probe_message());
    EXPECT_EQ(MOIETY_OK, segments.Grow(2 * kMiB));
}

TEST(SegmentsGrow, RefusesWhatIsLargerThanTheLimit)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.limit_bytes = 8 * kMiB;
    Segments segments(source.Table(), options);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, segments.Grow(8 * kMiB + 1));
    EXPECT_EQ(MOIETY_OK, segments.Grow(8 * kMiB));
}

TEST(SegmentsGrow, RefusesWhatIsLargerThanTheOffsetSpace)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.page_capacity = 16;
    Segments segments(source.Table(), options);
    EXPECT_EQ(MOIETY_E_TOO_LARGE, segments.Grow(17 * 2 * kMiB));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, segments.Grow(UINT64_MAX));
    EXPECT_EQ(MOIETY_OK, segments.Grow(16 * 2 * kMiB));
}

TEST(SegmentsGrow, SaysThatTheOffsetSpaceIsUsedUp)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.page_capacity = 16;
    options.first_bytes = 2 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(12 * 2 * kMiB));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.GrowAnew(4 * 2 * kMiB));
    EXPECT_STREQ("the pool's offset space has no 4 pages in a row",
                 segment_probe_message());
    EXPECT_EQ(MOIETY_OK, segments.Grow(3 * 2 * kMiB));
}

TEST(SegmentsGrow, CallsPinnedMemoryPinned)
{
    FakeSource source;
    source.flags = MOIETY_SOURCE_PINNED;
    segment_probe_options options = Roomy();
    options.limit_bytes = 32 * kMiB;
    Segments segments(source.Table(), options);
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, segments.GrowAnew(1));
}

TEST(SegmentsGrow, LetsNoRunCrossABorder)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(64 * kMiB));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(64 * kMiB));
    segments.GiveAll();
    EXPECT_EQ(32u, space_probe_longest_page_run(segments.space));
}

TEST(SegmentsLookup, LeadsFromAddressToOffsetAndBack)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    for (const auto &info : segments.All()) {
        uint64_t middle = info.address + 3 * PROBE_PAGE_BYTES + 5 * 512;
        uint64_t grain = 0;
        ASSERT_TRUE(segment_probe_grain_of(segments.own, middle, &grain));
        EXPECT_EQ((info.first_page + 3) * UINT64_C(4096) + 5, grain);
        EXPECT_EQ(middle, segment_probe_address_of(segments.own, grain));
    }
}

TEST(SegmentsLookup, TakesAnAddressWithinAGrainForTheGrain)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    uint64_t grain = 0;
    ASSERT_TRUE(segment_probe_grain_of(
        segments.own, segments.All()[0].address + 513, &grain));
    EXPECT_EQ(1u, grain % 4096);
}

TEST(SegmentsLookup, FindsNothingElsewhere)
{
    FakeSource source;
    source.first_address = PROBE_ADDRESS_END - 32 * kMiB;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    uint64_t grain = 77;
    for (uint64_t address :
         {UINT64_C(0), UINT64_C(1), source.first_address - 1, PROBE_ADDRESS_END,
          UINT64_C(1) << 63, UINT64_MAX, UINT64_C(0x123456789000)})
        EXPECT_FALSE(segment_probe_grain_of(segments.own, address, &grain))
            << address;
    EXPECT_EQ(77u, grain);
    EXPECT_TRUE(
        segment_probe_grain_of(segments.own, PROBE_ADDRESS_END - 1, &grain));
}

TEST(SegmentsLookup, SpansLeaves)
{
    FakeSource source;
    source.first_address = 32 * kGiB - 4 * kMiB;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(34 * kGiB));
    segments.ExpectSound();
    EXPECT_EQ(17u * 1024, segments.All()[0].page_count);
}

TEST(SegmentsTrim, ReleasesWhatIsWhollyFree)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    segments.GiveAll();
    EXPECT_EQ(64 * kMiB, segments.Trim());
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(2u, segments.Stats().trim_count);
    EXPECT_EQ(0u, segments.Stats().segment_count);
}

TEST(SegmentsTrim, LeavesSegmentsOfWhichAGrainIsHeld)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    uint64_t start;
    ASSERT_TRUE(space_probe_take(segments.space, 1, &start));
    EXPECT_EQ(0u, segments.Trim());
    ASSERT_TRUE(space_probe_give(segments.space, start, 1));
    EXPECT_EQ(32 * kMiB, segments.Trim());
}

TEST(SegmentsTrim, GoesFromTheLowestAddressAndKeepsWhatItIsTold)
{
    FakeSource source;
    Segments segments(source.Table());
    for (uint64_t bytes : {64 * kMiB, 128 * kMiB, 256 * kMiB})
        ASSERT_EQ(MOIETY_OK, segments.GrowAnew(bytes));
    segments.GiveAll();
    EXPECT_EQ(192 * kMiB, segments.Trim(256 * kMiB));
    EXPECT_EQ(std::vector<uint64_t>{256 * kMiB}, Sizes(segments));
    EXPECT_EQ(0u, segments.Trim(1));
    EXPECT_EQ(256 * kMiB, segments.Trim(0));
}

TEST(SegmentsTrim, LetsALateLookupFindNothing)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    uint64_t address = segments.All()[0].address, grain;
    ASSERT_TRUE(segment_probe_grain_of(segments.own, address, &grain));
    segments.Trim();
    EXPECT_FALSE(segment_probe_grain_of(segments.own, address, &grain));
}

TEST(SegmentsTrim, LeavesOffsetSpaceForSegmentsThatFit)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.page_capacity = 66;
    Segments segments(source.Table(), options);
    for (int i = 0; i < 20; i++) {
        ASSERT_EQ(MOIETY_OK, segments.Grow(66 * 2 * kMiB));
        ASSERT_EQ(66 * 2 * kMiB, segments.Trim());
        ASSERT_EQ(MOIETY_OK, segments.Grow(2 * kMiB));
        ASSERT_EQ(32 * kMiB, segments.Trim());
    }
}

TEST(SegmentsTrim, MakesRoomUnderTheLimit)
{
    FakeSource source;
    segment_probe_options options = Roomy();
    options.limit_bytes = 32 * kMiB;
    Segments segments(source.Table(), options);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(MOIETY_OK, segments.Grow(1));
        ASSERT_EQ(32 * kMiB, segments.Trim());
    }
}

TEST(SegmentsStats, GivesEverySegmentAnIdOfItsOwn)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    uint64_t id = segments.All()[0].id;
    segments.Trim();
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    EXPECT_NE(id, segments.All()[0].id);
}

TEST(SegmentsCheck, SeesAPageThatDoesNotLeadToItsAddress)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    segment_probe_unlink(segments.own, 1,
                         segments.All()[0].address + PROBE_PAGE_BYTES);
    EXPECT_STREQ("S2: address and page do not lead to each other",
                 segment_probe_check(segments.own));
    EXPECT_EQ(MOIETY_OK, segments.End());
}

TEST(SegmentsCheck, SeesAnAddressThatIsNoSegments)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    segment_probe_link(segments.own, 100,
                       segments.All()[0].address + 100 * PROBE_PAGE_BYTES);
    EXPECT_STREQ("S3: pages without a segment have an address",
                 segment_probe_check(segments.own));
    EXPECT_EQ(MOIETY_OK, segments.End());
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Growth of mapped memory: where what is missing goes, how large the handles
// are, and what is said where there is no more.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/segment/mapped_under_test.h"

namespace
{

using namespace segment_test;

TEST(Extend, ReservesAddressesOnceAndNothingBefore)
{
    MappedSegments segments;
    EXPECT_TRUE(segments.mapper.IsEmpty());
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 3);
    EXPECT_EQ((Pages{(1 << 14) * kPage}), segments.mapper.AskedAddresses());
}

TEST(Extend, DoesNothingWhereThereIsRoom)
{
    MappedSegments segments;
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    uint64_t calls = segments.mapper.Calls();
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(2));
    EXPECT_EQ(calls, segments.mapper.Calls());
}

TEST(Extend, JoinsAFreeTail)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    segments.Give(3, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(3));
    EXPECT_EQ((Pages{4, 2}), segments.AskedPages());
    EXPECT_EQ(3u, segments.DonePages(3, 4));
}

// One page and a half are there, so two of three and a half are missing.
TEST(Extend, JoinsAFreeTailThatBeginsWithinAPage)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    EXPECT_TRUE(space_probe_give(
        segments.space, MappedSegments::Grain(2) + PROBE_PAGE_GRAINS / 2,
        MappedSegments::Grain(1) + PROBE_PAGE_GRAINS / 2));
    EXPECT_EQ(MOIETY_OK, segments.ExtendBytes(7 * kPage / 2, nullptr, 0, 0));
    EXPECT_EQ((Pages{4, 2}), segments.AskedPages());
}

TEST(Extend, JoinsTheTailOfTheStreamsOwn)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    segments.GiveOwn(3, 1);
    EXPECT_EQ(MOIETY_OK, segments.ExtendOwn(3));
    EXPECT_EQ((Pages{4, 2}), segments.AskedPages());
    EXPECT_EQ(1u, segments.OwnPages(3, 4)) << "what is new is everybody's";
    EXPECT_EQ(2u, segments.DonePages(4, 4));
}

TEST(Extend, DoesNotJoinWhatAStreamFreedForOthers)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    segments.GiveOwn(3, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(3));
    EXPECT_EQ((Pages{4, 2, 1}), segments.AskedPages());
    EXPECT_EQ(3u, segments.DonePages(4, 4));
}

// Nothing is said of what is free, so nothing is joined.
TEST(Extend, WithoutAViewGoesWhereItHasRoomAlone)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 4);
    segments.Give(3, 1);
    EXPECT_EQ(MOIETY_OK, segment_probe_grow(segments.own, 3 * kPage));
    EXPECT_EQ((Pages{4, 2, 1}), segments.AskedPages());
}

// Pages 0 to 3 are free addresses, 4 to 7 in use.
void MakeAGapInFront(MappedSegments &segments)
{
    segments.ExtendAndTake(0, 4);
    segments.ExtendAndTake(4, 4);
    segments.Give(0, 4);
    EXPECT_EQ(4u, segments.Trim());
    EXPECT_EQ((PieceList{{4, 4}}), segments.Pieces());
}

TEST(Extend, JoinsAFreeHead)
{
    MappedSegments segments;
    MakeAGapInFront(segments);
    segments.Give(4, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(3));
    EXPECT_EQ((PieceList{{2, 6}}), segments.Pieces());
    EXPECT_EQ(3u, segments.DonePages(2, 4));
}

// `count` pages of free addresses in front of page 8, and all else in use.
void MakeAHole(MappedSegments &segments, uint32_t count)
{
    segments.ExtendAndTake(0, 8 - count);
    segments.ExtendAndTake(8 - count, count);
    segments.ExtendAndTake(8, 4);
    segments.Give(8 - count, count);
    EXPECT_EQ(count, segments.Trim());
}

TEST(Extend, FillsAHoleBetweenTwo)
{
    MappedSegments segments;
    MakeAHole(segments, 2);
    segments.Give(4, 2);
    segments.Give(8, 2);
    EXPECT_EQ(MOIETY_OK, segments.Extend(6));
    EXPECT_EQ((PieceList{{0, 12}}), segments.Pieces());
    EXPECT_EQ(6u, segments.DonePages(4, 8));
    EXPECT_EQ(12u, segments.ReservedPages());
}

TEST(Extend, LeavesAHoleThatIsTooSmall)
{
    MappedSegments segments;
    MakeAHole(segments, 2);
    segments.Give(5, 1);
    segments.Give(8, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(5));
    EXPECT_EQ((PieceList{{0, 6}, {8, 9}}), segments.Pieces());
    EXPECT_EQ(5u, segments.DonePages(12, 8));
}

TEST(Extend, GoesWhereTheFewestPagesAreMissing)
{
    MappedSegments segments;
    MakeAHole(segments, 4);
    segments.Give(3, 1); // three of four are missing here
    segments.Give(9, 3); // and one there
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ((PieceList{{0, 4}, {8, 5}}), segments.Pieces());
}

TEST(Extend, GoesToTheLowestOfEqualPlaces)
{
    MappedSegments segments;
    MakeAHole(segments, 4);
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ((PieceList{{0, 12}}), segments.Pieces());
}

TEST(Extend, CreatesPowersOfTwoUpTo64MiB)
{
    MappedSegments segments;
    EXPECT_EQ(MOIETY_OK, segments.Extend(103));
    EXPECT_EQ((Pages{32, 32, 32, 4, 2, 1}), segments.AskedPages());
    EXPECT_EQ((PieceList{{0, 103}}), segments.Pieces());
    EXPECT_EQ(103u, segments.DonePages(0, 200));
    EXPECT_EQ(6u, segments.Stats().segment_count);
}

TEST(Extend, GrowsByWhatIsMissing)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 512);
    EXPECT_EQ(MOIETY_OK, segments.Extend(7));
    EXPECT_EQ(519u, segments.ReservedPages());
}

// Of 4 MiB; or of a 64th of a growth, up to 256 MiB; or of a 512th of all.
TEST(Extend, HasLongerHandlesForALongGrowth)
{
    segment_probe_options options = WithCapacity(1 << 16);
    options.handle_pages = 0;
    MappedSegments segments(options);
    segments.ExtendAndTake(0, 254);
    EXPECT_EQ(Pages(127, 2), segments.AskedPages());
    segments.ExtendAndTake(254, 256);
    EXPECT_EQ(4u, segments.AskedPages().back());
    segments.ExtendAndTake(510, 16384);
    EXPECT_EQ(128u, segments.AskedPages().back());
    segments.ExtendAndTake(16894, 64);
    EXPECT_EQ(32u, segments.AskedPages().back());
}

TEST(Extend, GrowsByTheFirstSizeAtLeast)
{
    segment_probe_options options = WithCapacity(256);
    options.first_bytes = 8 * kPage;
    MappedSegments segments(options);
    segments.ExtendAndTake(0, 1);
    segments.Take(1, 7);
    EXPECT_EQ(MOIETY_OK, segments.Extend(1));
    EXPECT_EQ((Pages{8, 8}), segments.AskedPages());
}

TEST(Extend, StepsNoFurtherThanTheLimitOrTheRoom)
{
    segment_probe_options options = WithCapacity(1 << 14, 514);
    options.first_bytes = 4 * kPage;
    MappedSegments limited(options);
    limited.ExtendAndTake(0, 512);
    EXPECT_EQ(MOIETY_OK, limited.Extend(1));
    EXPECT_EQ(514u, limited.ReservedPages());
    limited.ExpectSound();

    options = WithCapacity(515);
    options.first_bytes = 4 * kPage;
    MappedSegments narrow(options);
    narrow.ExtendAndTake(0, 512);
    EXPECT_EQ(MOIETY_OK, narrow.Extend(1));
    EXPECT_EQ(515u, narrow.ReservedPages());
}

TEST(Extend, HalvesAHandleThatIsRefused)
{
    MappedSegments segments;
    segments.mapper.largest_bytes = 8 * kPage;
    EXPECT_EQ(MOIETY_OK, segments.Extend(16));
    EXPECT_EQ((Pages{16, 8, 8}), segments.AskedPages());
    EXPECT_EQ(16u, segments.DonePages(0, 32));
}

// Or a pool that is out of memory would find it free again and again.
TEST(Extend, KeepsNothingThatIsTooLittle)
{
    MappedSegments segments;
    segments.mapper.memory_bytes = 4 * kPage;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(8));
    EXPECT_EQ(0u, segments.ReservedPages());
    EXPECT_EQ(1u, segments.Stats().failed_grow_count);
    segments.ExpectSound();
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ(4u, segments.ReservedPages());
    EXPECT_EQ(4u, segments.Trim());
}

// It would be full of this pool's handles before it refuses one.
TEST(Extend, TakesNothingOfADeviceThatHasTooLittle)
{
    MappedSegments segments;
    segments.mapper.memory_bytes = 63 * kPage;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(64));
    EXPECT_NE(nullptr, std::strstr(segment_probe_message(),
                                   "134217728 bytes are missing, and the "
                                   "device has 132120576"))
        << segment_probe_message();
    EXPECT_EQ(Pages(), segments.AskedPages());
    EXPECT_EQ(0u, segments.ReservedPages());
    EXPECT_EQ(MOIETY_OK, segments.Extend(63));
    EXPECT_EQ(63u, segments.ReservedPages());
}

// What the device says is a hint.
TEST(Extend, GrowsWhereTheDeviceDoesNotTellWhatItHas)
{
    MappedSegments segments;
    segments.mapper.Fail(FakeMapper::kLookFree, 1);
    EXPECT_EQ(MOIETY_OK, segments.Extend(64));
    EXPECT_TRUE(segments.mapper.HasFailed());
    EXPECT_EQ(64u, segments.ReservedPages());
}

TEST(Extend, AsksTheDeviceForNothingOfLittle)
{
    MappedSegments segments;
    EXPECT_EQ(MOIETY_OK, segments.Extend(32));
    EXPECT_EQ(0u, segments.mapper.Calls(FakeMapper::kLookFree));
}

TEST(Extend, IsRefusedBeyondTheLimit)
{
    MappedSegments segments(WithCapacity(64, 8));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, segments.Extend(9));
    EXPECT_TRUE(segments.mapper.IsEmpty());
    segments.ExtendAndTake(0, 8);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(1));
    EXPECT_NE(nullptr,
              std::strstr(segment_probe_message(), "the limit of 16777216"))
        << segment_probe_message();
    EXPECT_EQ(8u, segments.ReservedPages());
}

TEST(Extend, IsRefusedBeyondTheAddresses)
{
    MappedSegments segments(WithCapacity(8));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, segments.Extend(9));
    segments.ExtendAndTake(0, 6);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(3));
    EXPECT_NE(nullptr, std::strstr(segment_probe_message(),
                                   "no room for 6291456 bytes in a row"))
        << segment_probe_message();
    EXPECT_EQ(6u, segments.ReservedPages());
    EXPECT_EQ(MOIETY_OK, segments.Extend(2));
}

TEST(Extend, HalvesAddressesThatAreRefused)
{
    MappedSegments segments(WithCapacity(64));
    segments.mapper.address_bytes = 16 * kPage;
    segments.ExtendAndTake(0, 10);
    EXPECT_EQ((Pages{64 * kPage, 32 * kPage, 16 * kPage}),
              segments.mapper.AskedAddresses());
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(7));
    segments.ExtendAndTake(10, 6);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(1));
}

// The table of addresses ends at 512 TiB.
TEST(Extend, RefusesAddressesThatNoTableHas)
{
    for (uint64_t base : {UINT64_C(1) << 49, (UINT64_C(1) << 49) - 8 * kPage,
                          UINT64_C(1) << 60, UINT64_MAX - 64 * kPage + 1}) {
        MappedSegments segments(WithCapacity(64));
        segments.mapper.next_address = base;
        EXPECT_EQ(MOIETY_E_UNSUPPORTED, segments.Extend(1));
        EXPECT_TRUE(segments.mapper.IsEmpty());
        segments.mapper.next_address = UINT64_C(1) << 40;
        EXPECT_EQ(MOIETY_OK, segments.Extend(1));
        segments.ExpectSound();
    }
}

TEST(Extend, AsksForNoFewerAddressesThanTheLimit)
{
    MappedSegments segments(WithCapacity(64, 8));
    segments.mapper.address_bytes = 4 * kPage;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(1));
    EXPECT_EQ((Pages{64 * kPage, 32 * kPage, 16 * kPage, 8 * kPage}),
              segments.mapper.AskedAddresses());
    EXPECT_TRUE(segments.mapper.IsEmpty());
}

TEST(Extend, AsksForNoFewerAddressesThanAreNeeded)
{
    MappedSegments segments(WithCapacity(64));
    segments.mapper.address_bytes = 4 * kPage;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Extend(5));
    EXPECT_EQ((Pages{64 * kPage, 32 * kPage, 16 * kPage, 8 * kPage}),
              segments.mapper.AskedAddresses());
    EXPECT_TRUE(segments.mapper.IsEmpty());
    EXPECT_EQ(MOIETY_OK, segments.Extend(4)) << "a smaller need has room";
}

TEST(Extend, ServesAtThePlaceThatATrimLeft)
{
    MappedSegments segments;
    MakeAGapInFront(segments);
    EXPECT_EQ(4u, segments.ReservedPages());
    EXPECT_EQ(0u, segments.HandleAt(0));
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ((PieceList{{0, 8}}), segments.Pieces());
}

TEST(Extend, TrimsHandleByHandle)
{
    MappedSegments segments;
    EXPECT_EQ(MOIETY_OK, segments.Extend(7)); // of 4, 2 and 1 pages
    segments.Take(5, 1);
    EXPECT_TRUE(segment_probe_can_trim(segments.own));
    EXPECT_EQ(5u, segments.Trim());
    EXPECT_FALSE(segment_probe_can_trim(segments.own));
    EXPECT_EQ((PieceList{{4, 2}}), segments.Pieces());
}

TEST(Extend, TrimsDownToWhatIsToBeKept)
{
    MappedSegments segments;
    EXPECT_EQ(MOIETY_OK, segments.Extend(7));
    EXPECT_EQ(4u, segments.Trim(3));
    EXPECT_EQ(3u, segments.ReservedPages());
}

TEST(Extend, ShowsNeighboursAsOnePiece)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 3);
    segments.ExtendAndTake(3, 40);
    EXPECT_EQ((PieceList{{0, 43}}), segments.Pieces());
    segments.Give(0, 2);
    EXPECT_EQ(2u, segments.Trim());
    EXPECT_EQ((PieceList{{2, 41}}), segments.Pieces());
}

TEST(Extend, GrowsToATotalWhereverThatIs)
{
    MappedSegments segments;
    segments.ExtendAndTake(0, 2);
    EXPECT_EQ(MOIETY_OK, segment_probe_grow_to(segments.own, 700 * kPage));
    EXPECT_EQ(700u, segments.ReservedPages());
    EXPECT_EQ((PieceList{{0, 700}}), segments.Pieces());
}

TEST(Extend, DoesNotWaitForAnotherThatGrows)
{
    struct Inner {
        MappedSegments *segments;
        moiety_status status;
    };
    MappedSegments segments;
    Inner inner = {&segments, MOIETY_OK};
    segments.mapper.in_create = [](void *argument) {
        auto *own = static_cast<Inner *>(argument);
        own->status = own->segments->Extend(1);
    };
    segments.mapper.in_create_argument = &inner;
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, inner.status);
}

TEST(Extend, ThatCannotMapGivesTheHandleBack)
{
    MappedSegments segments;
    segments.mapper.Fail(FakeMapper::kMap, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segments.Extend(4));
    EXPECT_EQ(0u, segments.mapper.HandleCount());
    EXPECT_EQ(0u, segments.ReservedPages());
    segments.ExpectSound();
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
}

TEST(Extend, KeepsAHandleWhoseUnmappingWasRefused)
{
    MappedSegments segments;
    uint64_t bytes = 0;
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    segments.mapper.Fail(FakeMapper::kUnmap, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_trim(segments.own, 0, &bytes));
    EXPECT_EQ(0u, bytes);
    EXPECT_EQ(4u, segments.DonePages(0, 8)) << "it serves as before";
    EXPECT_EQ(0u, segments.Stats().trim_count);
    segments.ExpectSound();
    EXPECT_EQ(4u, segments.Trim());
}

TEST(Extend, TriesAgainToDestroyAHandle)
{
    MappedSegments segments;
    uint64_t bytes = 0;
    EXPECT_EQ(MOIETY_OK, segments.Extend(4));
    segments.mapper.Fail(FakeMapper::kDestroy, 1);
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_trim(segments.own, 0, &bytes));
    EXPECT_EQ(0u, bytes);
    EXPECT_EQ(4 * kPage, segments.Stats().unreleased_bytes);
    segments.ExpectSound();
    EXPECT_EQ(MOIETY_OK, segments.Extend(2)) << "its place is free";
    EXPECT_EQ((PieceList{{0, 2}}), segments.Pieces());
    EXPECT_EQ(6u, segments.Trim());
}

} // namespace

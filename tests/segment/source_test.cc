// SPDX-License-Identifier: Apache-2.0
//
// Sources that a user might write: the table's layout and versions, and what
// becomes of memory that cannot be used.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "tests/segment/segments_under_test.h"

namespace
{

using namespace segment_test;

// Version 0.1.0 of the table; fields may only be appended.
static_assert(offsetof(moiety_source, struct_size) == 0, "moved");
static_assert(offsetof(moiety_source, flags) == 4, "moved");
static_assert(offsetof(moiety_source, name) == 8, "moved");
static_assert(offsetof(moiety_source, context) == 16, "moved");
static_assert(offsetof(moiety_source, reserve) == 24, "moved");
static_assert(offsetof(moiety_source, release) == 32, "moved");
static_assert(offsetof(moiety_source, granularity_bytes) == 40, "moved");
constexpr uint32_t kFirstVersionBytes = 48;

moiety_status Create(const moiety_source *table)
{
    segment_probe_options options = {};
    moietyi_segments *segments = nullptr;
    options.source = table;
    options.page_capacity = 64;
    moiety_status status = segment_probe_create(&options, &segments);
    if (status == MOIETY_OK) {
        EXPECT_EQ(MOIETY_OK, segment_probe_destroy(segments));
    }
    return status;
}

TEST(SourceTable, IsAcceptedInItsFirstVersion)
{
    FakeSource source;
    moiety_source table = source.Table();
    table.struct_size = kFirstVersionBytes;
    EXPECT_EQ(MOIETY_OK, Create(&table));
}

TEST(SourceTable, IsAcceptedInALaterVersion)
{
    struct {
        moiety_source known;
        void *unknown[4];
    } later = {};
    FakeSource source;
    later.known = source.Table();
    later.known.struct_size = sizeof(later);
    EXPECT_EQ(MOIETY_OK, Create(&later.known));
}

TEST(SourceTable, IsCopied)
{
    FakeSource source;
    moiety_source table = source.Table();
    Segments segments(table);
    std::memset(&table, 0, sizeof(table));
    EXPECT_EQ(MOIETY_OK, segments.Grow(1));
}

TEST(SourceTable, IsRefusedWhenNullOrShort)
{
    FakeSource source;
    moiety_source table = source.Table();
    table.struct_size = kFirstVersionBytes - 1;
    EXPECT_EQ(MOIETY_E_INVALID, Create(&table));
    EXPECT_EQ(MOIETY_E_INVALID, Create(nullptr));
    EXPECT_STREQ("the source is NULL, or its struct_size is less than 48 bytes",
                 segment_probe_message());
}

TEST(SourceTable, IsRefusedWithoutItsParts)
{
    FakeSource source;
    moiety_source no_name = source.Table(), no_reserve = source.Table(),
                  no_release = source.Table();
    no_name.name = nullptr;
    no_reserve.reserve = nullptr;
    no_release.release = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, Create(&no_name));
    EXPECT_EQ(MOIETY_E_INVALID, Create(&no_reserve));
    EXPECT_EQ(MOIETY_E_INVALID, Create(&no_release));
}

TEST(SourceTable, IsRefusedWithUnknownFlags)
{
    FakeSource source;
    moiety_source table = source.Table();
    table.flags = 1u << 20;
    EXPECT_EQ(MOIETY_E_INVALID, Create(&table));
    EXPECT_STREQ("source 'fake': flags 0x100000 are not known",
                 segment_probe_message());
}

TEST(SourceTable, IsRefusedWithAnOddGranularity)
{
    FakeSource source;
    moiety_source table = source.Table();
    table.granularity_bytes = 3 * kMiB;
    EXPECT_EQ(MOIETY_E_INVALID, Create(&table));
    table.granularity_bytes = size_t{2} << 30;
    EXPECT_EQ(MOIETY_E_INVALID, Create(&table));
}

TEST(Source, IsAskedForMultiplesOfItsGranularity)
{
    FakeSource source;
    source.granularity_bytes = 16 * kMiB;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(33 * kMiB));
    EXPECT_EQ(std::vector<uint64_t>{48 * kMiB}, source.Asked());
    EXPECT_EQ(24u, segments.All()[0].page_count);
}

TEST(Source, MayHaveAGranularityAboveTheLimit)
{
    FakeSource source;
    source.granularity_bytes = 128 * kMiB;
    segment_probe_options options = {};
    options.limit_bytes = 64 * kMiB;
    Segments segments(source.Table(), options);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Grow(1));
    EXPECT_TRUE(source.Asked().empty());
}

TEST(Source, MayReturnUnalignedMemoryWhereThereIsToSpare)
{
    FakeSource source;
    source.misaligned_bytes = 4096;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    EXPECT_EQ(std::vector<uint64_t>{32 * kMiB}, source.Asked());
    auto info = segments.All()[0];
    EXPECT_EQ(15u, info.page_count);
    EXPECT_EQ(0u, info.address % PROBE_PAGE_BYTES);
    EXPECT_EQ(source.first_address + 4096, info.memory);
}

TEST(Source, IsAskedAgainForOnePageMoreWhereThereIsNone)
{
    FakeSource source;
    source.misaligned_bytes = 4096;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(40 * kMiB));
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(40 * kMiB));
    EXPECT_EQ((std::vector<uint64_t>{40 * kMiB, 42 * kMiB, 42 * kMiB}),
              source.Asked());
    EXPECT_EQ(20u, segments.All()[0].page_count);
    EXPECT_EQ(84 * kMiB, segment_probe_reserved_bytes(segments.own));
    segments.GiveAll();
    EXPECT_EQ(84 * kMiB, segments.Trim());
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ("", source.Complaint());
}

TEST(Source, IsNotAskedForThatPageBeyondTheLimit)
{
    FakeSource source;
    source.misaligned_bytes = 4096;
    segment_probe_options options = {};
    options.limit_bytes = 40 * kMiB;
    Segments segments(source.Table(), options);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Grow(40 * kMiB));
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(MOIETY_OK, segments.Grow(38 * kMiB));
}

struct BadMemory {
    const char *name;
    uint64_t address;
    const char *message;
};

void PrintTo(const BadMemory &bad, std::ostream *out)
{
    *out << bad.name;
}

class BadSource : public ::testing::TestWithParam<BadMemory>
{
};

TEST_P(BadSource, IsRefusedAndLosesNothing)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    auto before = source.Live();
    source.has_forced = true;
    source.forced_address = GetParam().address;
    EXPECT_EQ(MOIETY_E_INVALID, segments.GrowAnew(1));
    EXPECT_STREQ(GetParam().message, segment_probe_message());
    EXPECT_EQ(before, source.Live());
    EXPECT_EQ(32 * kMiB, segment_probe_reserved_bytes(segments.own));
    segments.ExpectSound();
    EXPECT_EQ(MOIETY_OK, segments.GrowAnew(1));
}

constexpr uint64_t kFirst = UINT64_C(1) << 40;

INSTANTIATE_TEST_SUITE_P(
    Returns, BadSource,
    ::testing::Values(
        BadMemory{"Null", 0,
                  "source 'fake' returned no address for 33554432 bytes"},
        BadMemory{"TheSameAgain", kFirst,
                  "source 'fake': its memory of 33554432 bytes at "
                  "0x10000000000 overlaps memory that it returned before"},
        BadMemory{"TheLastByteOfIt", kFirst + 32 * kMiB - 1,
                  "source 'fake': its memory of 33554432 bytes at "
                  "0x10001ffffff overlaps memory that it returned before"},
        BadMemory{"UpToItsFirstByte", kFirst - 32 * kMiB + 1,
                  "source 'fake': its memory of 33554432 bytes at "
                  "0xfffe000001 overlaps memory that it returned before"},
        BadMemory{"BeyondAllAddresses", PROBE_ADDRESS_END - 32 * kMiB + 512,
                  "source 'fake': its memory of 33554432 bytes at "
                  "0x1fffffe000200 is not within the 512 TiB that a device "
                  "addresses"},
        BadMemory{"TheEndOfTheNumbers", UINT64_MAX - 511,
                  "source 'fake': its memory of 33554432 bytes at "
                  "0xfffffffffffffe00 is not within the 512 TiB that a device "
                  "addresses"}),
    [](const ::testing::TestParamInfo<BadMemory> &bad) {
        return bad.param.name;
    });

TEST(Source, MayReturnTheNeighbourOfWhatItReturned)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.GrowAnew(1));
    source.has_forced = true;
    source.forced_address = kFirst - 32 * kMiB;
    EXPECT_EQ(MOIETY_OK, segments.GrowAnew(1));
}

TEST(SourceRelease, WhenRefusedKeepsTheBytesCountedAndIsTriedAgain)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    source.failing_release = 1;
    uint64_t bytes = 1;
    EXPECT_EQ(MOIETY_E_DRIVER, segment_probe_trim(segments.own, 0, &bytes));
    EXPECT_STREQ("source 'fake' failed to release 33554432 bytes",
                 segment_probe_message());
    EXPECT_EQ(0u, bytes);
    EXPECT_EQ(32 * kMiB, segments.Stats().reserved_bytes);
    EXPECT_EQ(32 * kMiB, segments.Stats().unreleased_bytes);
    EXPECT_EQ(0u, segments.Stats().segment_count);
    segments.ExpectSound();
    EXPECT_EQ(32 * kMiB, segments.Trim());
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ("", source.Complaint());
}

TEST(SourceRelease, WhenItsMemoryIsGoneCountsAsDone)
{
    for (moiety_status gone : {MOIETY_E_DEINITIALIZED,
                               MOIETY_E_CONTEXT_DESTROYED, MOIETY_E_FORKED}) {
        FakeSource source;
        Segments segments(source.Table());
        ASSERT_EQ(MOIETY_OK, segments.Grow(1));
        source.failing_release = 1;
        source.failure = gone;
        EXPECT_EQ(32 * kMiB, segments.Trim());
        EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    }
}

TEST(SourceRelease, IsTriedTwiceAtTheEnd)
{
    FakeSource source;
    Segments segments(source.Table());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    source.failing_release = 1;
    EXPECT_EQ(MOIETY_OK, segments.End());
    EXPECT_TRUE(source.Live().empty());
}

} // namespace

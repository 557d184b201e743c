// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of the source, of the host's memory and of the driver fails
// once. Whatever the segments then answer, nothing is lost, and the next calls
// work.
#include <gtest/gtest.h>

#include "tests/segment/device_under_test.h"
#include "tests/segment/segments_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

using namespace segment_test;

constexpr unsigned kTooMany = 200; // calls that no life below makes

// A segment of its own, growth, a trim and growth again. Any call may fail.
// Returns how many did.
unsigned LiveOnce(Segments &segments)
{
    unsigned failed = 0;
    uint64_t bytes;
    failed += segments.GrowAnew(40 * kMiB) != MOIETY_OK;
    segments.ExpectSound();
    failed += segments.GrowAnew(1) != MOIETY_OK;
    segments.ExpectSound();
    segments.GiveAll();
    failed += segment_probe_trim(segments.own, 0, &bytes) != MOIETY_OK;
    segments.ExpectSound();
    failed += segments.GrowAnew(1) != MOIETY_OK;
    segments.ExpectSound();
    return failed;
}

void ExpectHealth(Segments &segments)
{
    segments.GiveAll();
    segments.Trim();
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(MOIETY_OK, segments.Grow(1)) << segment_probe_message();
}

// The first life without a failure, where each n-th call fails in one.
unsigned FailEach(unsigned FakeSource::*failing)
{
    unsigned n = 0, failed = 1;
    while (failed && n < kTooMany) {
        FakeSource source;
        // So that the first growth needs two calls and a release.
        source.misaligned_bytes = 4096;
        source.*failing = ++n;
        Segments segments(source.Table());
        failed = LiveOnce(segments);
        source.*failing = 0;
        ExpectHealth(segments);
        EXPECT_EQ(MOIETY_OK, segments.End());
        EXPECT_TRUE(source.Live().empty()) << n;
        EXPECT_EQ("", source.Complaint());
    }
    return n;
}

TEST(SegmentFault, EveryCallOfASource)
{
    EXPECT_EQ(5u, FailEach(&FakeSource::failing_reserve)) << "of four calls";
    EXPECT_EQ(4u, FailEach(&FakeSource::failing_release)) << "of three calls";
}

TEST(SegmentFault, EveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany) {
        FakeSource source;
        source.first_address = UINT64_C(64) << 30; // a leaf's first page
        Segments segments(source.Table());
        failing_memory_arm(++n);
        unsigned failed = LiveOnce(segments);
        is_over = failing_memory_disarm();
        // A smaller segment may still be had.
        EXPECT_LE(failed, is_over ? 0u : 1u) << n;
        ExpectHealth(segments);
        EXPECT_EQ(MOIETY_OK, segments.End());
        EXPECT_TRUE(source.Live().empty()) << n;
    }
    // Heaps of extents have a table besides.
    EXPECT_GE(n, 5u) << "three records and a leaf, each failed once";
    EXPECT_LE(n, 6u);
}

TEST(SegmentFault, EveryAllocationOfCreation)
{
    FakeSource source;
    moiety_source table = source.Table();
    segment_probe_options options = {};
    moietyi_segments *segments = nullptr;
    options.source = &table;
    options.page_capacity = 64;
    unsigned n = 0;
    moiety_status status = MOIETY_E_NO_HOST_MEMORY;
    while (status != MOIETY_OK && n < kTooMany) {
        failing_memory_arm(++n);
        status = segment_probe_create(&options, &segments);
        failing_memory_disarm();
        if (status != MOIETY_OK) {
            EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
        }
    }
    EXPECT_EQ(4u, n) << "the struct and the tables, each failed once";
    EXPECT_EQ(MOIETY_OK, segment_probe_destroy(segments));
}

void ExpectDriverFaultsAreSurvived(const char *code)
{
    moiety_source table = segment_test::DeviceSource();
    CUcontext own = segment_test::NewContext();
    segment_test::SetCurrent(own);
    int64_t before = segment_test::LiveAllocations();
    unsigned n = 0;
    uint64_t calls = 0;
    do {
        n++;
        segment_test::SetFaults("*:nth=" + std::to_string(n) + ":code=" + code);
        Segments segments(table);
        uint64_t calls_before = segment_test::Calls();
        LiveOnce(segments);
        EXPECT_EQ(MOIETY_OK, segments.End()) << n;
        calls = segment_test::Calls() - calls_before;
        segment_test::SetFaults("");
        EXPECT_EQ(before, segment_test::LiveAllocations()) << n;
        EXPECT_EQ(own, segment_test::Current()) << n;
        EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL,
                  segment_test::ExchangeMode(CU_STREAM_CAPTURE_MODE_GLOBAL))
            << n;
    } while (n <= calls && n < kTooMany);
    EXPECT_GT(n, 20u);
    EXPECT_LT(n, kTooMany);
    segment_test::SetCurrent(nullptr);
}

TEST(SegmentFault, EveryCallOfTheDriver)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_UNKNOWN");
}

TEST(SegmentFault, EveryCallOfTheDriverByExhaustion)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_OUT_OF_MEMORY");
}

} // namespace

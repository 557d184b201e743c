// SPDX-License-Identifier: Apache-2.0
//
// cuMemAlloc as a source, on the stand-in: what it does with memory, and that
// the calling thread's context and captures do not notice.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/segment/device_under_test.h"
#include "tests/segment/segments_under_test.h"

namespace
{

using namespace segment_test;

class DeviceSourceTest : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_MEMORY", "1GiB", 1);
    }
};

TEST_F(DeviceSourceTest, CanShareItsMemory)
{
    EXPECT_TRUE(DeviceSource().flags & MOIETY_SOURCE_LEGACY_IPC);
}

TEST_F(DeviceSourceTest, ReservesAndReleasesDeviceMemory)
{
    Segments segments(DeviceSource());
    int64_t before = LiveAllocations();
    ASSERT_EQ(MOIETY_OK, segments.Grow(1)) << segment_probe_message();
    EXPECT_EQ(before + 1, LiveAllocations());
    EXPECT_EQ(32 * kMiB, segments.All()[0].memory_bytes);
    EXPECT_EQ(16u, segments.All()[0].page_count) << "aligned by itself";
    segments.ExpectSound();
    EXPECT_EQ(32 * kMiB, segments.Trim());
    EXPECT_EQ(before, LiveAllocations());
}

TEST_F(DeviceSourceTest, SaysHowTheDriverIsExhausted)
{
    Segments segments(DeviceSource());
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, segments.Grow(2048 * kMiB));
    EXPECT_STREQ("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)",
                 segment_probe_message());
}

TEST_F(DeviceSourceTest, NeedsNoCurrentContextAndLeavesNone)
{
    Segments segments(DeviceSource());
    SetCurrent(nullptr);
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    EXPECT_EQ(nullptr, Current());
    segments.Trim();
    EXPECT_EQ(nullptr, Current());
}

TEST_F(DeviceSourceTest, LeavesTheCallersContextCurrent)
{
    Segments segments(DeviceSource());
    CUcontext own = NewContext();
    SetCurrent(own);
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    EXPECT_EQ(own, Current());
    segments.Trim();
    EXPECT_EQ(own, Current());
    SetCurrent(nullptr);
    Get<CUresult(CUcontext)>("cuCtxDestroy")(own);
}

TEST_F(DeviceSourceTest, LeavesTheCallersCaptureMode)
{
    Segments segments(DeviceSource());
    ExchangeMode(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    segments.Trim();
    EXPECT_EQ(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
              ExchangeMode(CU_STREAM_CAPTURE_MODE_GLOBAL));
}

// Begins a global capture, calls, and returns how it ended.
template <typename F> CUresult Capture(F call)
{
    CUcontext context = NewContext();
    CUstream stream;
    CUgraph graph = nullptr;
    SetCurrent(context);
    Get<CUresult(CUstream *, unsigned)>("cuStreamCreate")(
        &stream, CU_STREAM_NON_BLOCKING);
    Get<CUresult(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture")(
        stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    call();
    CUresult code = Get<CUresult(CUstream, CUgraph *)>("cuStreamEndCapture")(
        stream, &graph);
    if (graph)
        Get<CUresult(CUgraph)>("cuGraphDestroy")(graph);
    SetCurrent(nullptr);
    Get<CUresult(CUcontext)>("cuCtxDestroy")(context);
    return code;
}

TEST_F(DeviceSourceTest, DisturbsNoCapture)
{
    Segments segments(DeviceSource());
    EXPECT_EQ(CUDA_SUCCESS, Capture([&] {
                  EXPECT_EQ(MOIETY_OK, segments.Grow(1));
                  segments.Trim();
              }));
}

TEST_F(DeviceSourceTest, WouldDisturbACaptureWithoutRelaxedMode)
{
    (void)DeviceSource();
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, Capture([] {
                  CUdeviceptr none;
                  Get<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc")(&none,
                                                                     4096);
              }));
}

// Refused four times, so that no further try helps.
TEST_F(DeviceSourceTest, GivesTheMemoryBackWhenItCannotRestoreTheThread)
{
    Segments segments(DeviceSource());
    SetCurrent(nullptr);
    int64_t before = LiveAllocations();
    segment_test::SetFaults(
        "cuThreadExchangeStreamCaptureMode:nth=2:code=CUDA_ERROR_UNKNOWN,"
        "cuThreadExchangeStreamCaptureMode:nth=3:code=CUDA_ERROR_UNKNOWN,"
        "cuThreadExchangeStreamCaptureMode:nth=4:code=CUDA_ERROR_UNKNOWN,"
        "cuThreadExchangeStreamCaptureMode:nth=5:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, segments.Grow(1));
    segment_test::SetFaults("");
    EXPECT_EQ(before, LiveAllocations());
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(CU_STREAM_CAPTURE_MODE_RELAXED,
              ExchangeMode(CU_STREAM_CAPTURE_MODE_GLOBAL))
        << "the faults were not where this test wants them";
}

TEST_F(DeviceSourceTest, TakesMemoryOfADestroyedContextForGone)
{
    (void)DeviceSource();
    CUcontext context = NewContext();
    Segments segments(DeviceSource(context));
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    Get<CUresult(CUcontext)>("cuCtxDestroy")(context);
    EXPECT_EQ(32 * kMiB, segments.Trim());
    EXPECT_EQ(0u, segment_probe_reserved_bytes(segments.own));
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED, segments.Grow(1));
}

TEST_F(DeviceSourceTest, DoesNotTouchTheDriverAfterAFork)
{
    Segments segments(DeviceSource());
    ASSERT_EQ(MOIETY_OK, segments.Grow(1));
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        uint64_t calls = segment_test::Calls(), bytes = 0;
        bool is_refused =
            segments.Grow(128 * kMiB) == MOIETY_E_FORKED &&
            segment_probe_trim(segments.own, 0, &bytes) == MOIETY_OK &&
            bytes == 32 * kMiB && segment_test::Calls() == calls;
        _exit(is_refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

moiety_status SupportOfMapped(segment_probe_lack lack)
{
    (void)segment_test::DeviceSource();
    return segment_probe_mapped_support(lack);
}

TEST(MappedSupport, IsThereWithADriverThatHasAll)
{
    EXPECT_EQ(MOIETY_OK, SupportOfMapped(PROBE_LACKS_NOTHING));
}

TEST(MappedSupport, NeedsEntriesOfTheDriver)
{
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, SupportOfMapped(PROBE_LACKS_ENTRIES));
    EXPECT_STREQ("the driver has no mapped memory", segment_probe_message());
}

TEST(MappedSupport, NeedsADeviceThatSaysSo)
{
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, SupportOfMapped(PROBE_LACKS_ATTRIBUTE));
    EXPECT_STREQ("device 0 has no mapped memory", segment_probe_message());
}

TEST(MappedSupport, NeedsPagesThatDivide2MiB)
{
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, SupportOfMapped(PROBE_LACKS_SMALL_PAGES));
    EXPECT_STREQ("device 0 maps memory in pieces of 3145728 bytes, which do "
                 "not divide 2 MiB",
                 segment_probe_message());
}

} // namespace

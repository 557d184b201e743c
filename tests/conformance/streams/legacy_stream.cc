// SPDX-License-Identifier: Apache-2.0
//
// The legacy default stream and what it makes wait.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using LegacyStream = OnDevice;

namespace
{

struct Workspace {
    PinnedBlock word{4096};
    Event done;
    /* Work on `stream`, then the event. */
    CUresult Launch(CUstream stream)
    {
        CUresult code = cu.MemsetD8Async(word.address, 1, 4096, stream);
        return code == CUDA_SUCCESS ? cu.EventRecord(done, stream) : code;
    }
};

} // namespace

TEST_F(LegacyStream, WaitsForBlockingStreams)
{
    Workspace work;
    Stream blocking(CU_STREAM_DEFAULT);
    StreamHold hold(blocking);
    MUST(work.Launch(nullptr));
    EXPECT_CU("legacy.waits-for-blocking-stream", StillHeld(work.done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("legacy.goes-on-after-blocking-stream",
                   Settled(work.done.handle));
}

TEST_F(LegacyStream, DoesNotWaitForNonBlockingStreams)
{
    Workspace work;
    Stream stream(CU_STREAM_NON_BLOCKING);
    StreamHold hold(stream);
    MUST(work.Launch(nullptr));
    EXPECT_SUCCESS("legacy.does-not-wait-for-non-blocking-stream",
                   Settled(work.done.handle));
}

TEST_F(LegacyStream, HoldsLaterWorkOfBlockingStreams)
{
    Workspace work;
    Stream blocking(CU_STREAM_DEFAULT);
    StreamHold hold(nullptr);
    MUST(work.Launch(blocking));
    EXPECT_CU("legacy.blocking-stream-waits-for-it", StillHeld(work.done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("legacy.blocking-stream-goes-on", Settled(work.done.handle));
}

TEST_F(LegacyStream, DoesNotHoldNonBlockingStreams)
{
    Workspace work;
    Stream stream(CU_STREAM_NON_BLOCKING);
    StreamHold hold(nullptr);
    MUST(work.Launch(stream));
    EXPECT_SUCCESS("legacy.non-blocking-stream-does-not-wait-for-it",
                   Settled(work.done.handle));
}

/* An event on the legacy stream is work like any other: it puts blocking
 * streams in line behind each other. */
TEST_F(LegacyStream, AnEventSerialisesBlockingStreams)
{
    Workspace work;
    Event fence;
    Stream held(CU_STREAM_DEFAULT), later(CU_STREAM_DEFAULT);
    StreamHold hold(held);
    MUST(cu.EventRecord(fence, nullptr));
    MUST(work.Launch(later));
    EXPECT_CU("legacy.event.waits-for-held-blocking-stream", StillHeld(fence),
              CUDA_ERROR_NOT_READY);
    EXPECT_CU("legacy.event.holds-later-blocking-work",
              cu.EventQuery(work.done), CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("legacy.event.then-all-go-on", Settled(work.done.handle));
}

TEST_F(LegacyStream, HandleOneNamesIt)
{
    Workspace work;
    Stream blocking(CU_STREAM_DEFAULT);
    StreamHold hold(blocking);
    MUST(work.Launch(CU_STREAM_LEGACY));
    EXPECT_CU("legacy.handle-1.waits-for-blocking-stream", StillHeld(work.done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("legacy.handle-1.synchronize",
                   cu.StreamSynchronize(CU_STREAM_LEGACY));
    EXPECT_SUCCESS("legacy.handle-1.query", cu.StreamQuery(CU_STREAM_LEGACY));
}

TEST_F(LegacyStream, SynchronousCopiesUseIt)
{
    DeviceBlock block(4096);
    Background copier;
    Stream blocking(CU_STREAM_DEFAULT);
    char local[16];
    StreamHold hold(blocking);
    copier.Start([&] { return cu.MemcpyDtoH(local, block, sizeof local); });
    EXPECT_YES("legacy.synchronous-copy-waits-for-blocking-stream",
               !copier.ReturnsWithin(kForbiddenMs));
    hold.Release();
    EXPECT_SUCCESS("legacy.synchronous-copy-returns", copier.Result());
}

TEST_F(LegacyStream, SynchronousCopiesIgnoreNonBlockingStreams)
{
    DeviceBlock block(4096);
    Background copier;
    Stream stream(CU_STREAM_NON_BLOCKING);
    char local[16];
    StreamHold hold(stream);
    copier.Start([&] { return cu.MemcpyDtoH(local, block, sizeof local); });
    EXPECT_YES("legacy.synchronous-copy-ignores-non-blocking-stream",
               copier.ReturnsWithin(kRequiredMs));
    hold.Release();
    MUST(copier.Result());
}

} // namespace conformance

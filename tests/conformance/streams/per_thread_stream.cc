// SPDX-License-Identifier: Apache-2.0
//
// The per-thread default stream: each thread its own.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using PerThreadStream = OnDevice;

TEST_F(PerThreadStream, IsAnotherForEachThread)
{
    unsigned long long mine = 0, again = 0, theirs = 0, legacy = 0;
    EXPECT_SUCCESS("per-thread.id",
                   cu.StreamGetId(CU_STREAM_PER_THREAD, &mine));
    MUST(cu.StreamGetId(CU_STREAM_PER_THREAD, &again));
    EXPECT_SAME("per-thread.id.is-stable", again, mine);
    MUST(OnOtherThread(
        [&] { return cu.StreamGetId(CU_STREAM_PER_THREAD, &theirs); }));
    EXPECT_YES("per-thread.id.differs-by-thread", mine != theirs);
    MUST(cu.StreamGetId(CU_STREAM_LEGACY, &legacy));
    EXPECT_YES("per-thread.id.is-not-the-legacy-one", mine != legacy);
}

TEST_F(PerThreadStream, NullMeansItInTheOtherFlavour)
{
    unsigned long long null_id = 0, per_thread = 0;
    EXPECT_SUCCESS("per-thread.flavour.id",
                   cu.StreamGetId_ptsz(nullptr, &null_id));
    MUST(cu.StreamGetId(CU_STREAM_PER_THREAD, &per_thread));
    EXPECT_SAME("per-thread.flavour.null-is-that-of-the-thread", null_id,
                per_thread);
}

TEST_F(PerThreadStream, ThreadsDoNotWaitForEachOther)
{
    PinnedBlock word(4096);
    Background other;
    StreamHold hold(CU_STREAM_PER_THREAD);
    other.Start([&] {
        CUresult code = cu.MemsetD8Async_ptsz(word.address, 1, 4096, nullptr);
        return code == CUDA_SUCCESS ? cu.StreamSynchronize_ptsz(nullptr) : code;
    });
    EXPECT_YES("per-thread.other-thread-goes-on",
               other.ReturnsWithin(kRequiredMs));
    EXPECT_CU("per-thread.own-is-held", cu.StreamQuery(CU_STREAM_PER_THREAD),
              CUDA_ERROR_NOT_READY);
    EXPECT_CU("per-thread.flavour.own-is-held", cu.StreamQuery_ptsz(nullptr),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("per-thread.other-thread", other.Result());
    EXPECT_SUCCESS("per-thread.own-goes-on", Settled(CU_STREAM_PER_THREAD));
}

TEST_F(PerThreadStream, IsABlockingStream)
{
    PinnedBlock word(4096);
    Event done;
    StreamHold hold(CU_STREAM_PER_THREAD);
    MUST(cu.MemsetD8Async(word.address, 1, 4096, nullptr));
    MUST(cu.EventRecord(done, nullptr));
    EXPECT_CU("per-thread.legacy-waits-for-it", StillHeld(done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("per-thread.legacy-goes-on", Settled(done.handle));
}

TEST_F(PerThreadStream, EventsAreRecordedOnIt)
{
    Event done;
    StreamHold hold(CU_STREAM_PER_THREAD);
    EXPECT_SUCCESS("per-thread.flavour.record",
                   cu.EventRecord_ptsz(done, nullptr));
    EXPECT_CU("per-thread.flavour.event-is-pending", StillHeld(done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("per-thread.flavour.event-completes", Settled(done.handle));
}

} // namespace conformance

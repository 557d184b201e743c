// SPDX-License-Identifier: Apache-2.0
//
// What waits for everybody, and who waits with it.
#include <functional>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/memory/vmm.h"

namespace conformance
{

using FreesThatWait = OnDevice;

namespace
{

/* What a call does while a non-blocking stream is held. */
struct Expected {
    bool call_waits;
    bool others_wait; /* other threads' launches, until the call is over */
};

/* Makes the call on one thread and a launch on another while a stream is
 * held, and checks which of them return before the stream is released. */
void ExpectWhileHeld(const std::string &name,
                     const std::function<CUresult()> &call,
                     const Expected &expected)
{
    PinnedBlock word(4096);
    Stream held, other;
    Background caller, launcher;
    StreamHold hold(held);
    caller.Start(call);
    bool has_returned =
        caller.ReturnsWithin(expected.call_waits ? kForbiddenMs : kRequiredMs);
    EXPECT_SAME(name + ".waits-for-held-stream", !has_returned,
                expected.call_waits);
    launcher.Start(
        [&] { return cu.MemsetD8Async(word.address, 1, 4096, other); });
    has_returned = launcher.ReturnsWithin(expected.others_wait ? kForbiddenMs
                                                               : kRequiredMs);
    EXPECT_SAME(name + ".others-wait-too", !has_returned, expected.others_wait);
    hold.Release();
    EXPECT_SUCCESS(name + ".returns", caller.Result());
    EXPECT_SUCCESS(name + ".others-return", launcher.Result());
}

constexpr Expected kWaitsAndStalls = {true, true};
constexpr Expected kWaitsAlone = {true, false};
constexpr Expected kWaitsForNobody = {false, false};

} // namespace

TEST_F(FreesThatWait, MemFree)
{
    CUdeviceptr address = 0;
    MUST(cu.MemAlloc(&address, kMiB));
    ExpectWhileHeld(
        "while-held.mem-free", [address] { return cu.MemFree(address); },
        kWaitsAndStalls);
}

TEST_F(FreesThatWait, MemFreeHost)
{
    void *host = nullptr;
    MUST(cu.MemHostAlloc(&host, kMiB, 0));
    ExpectWhileHeld(
        "while-held.mem-free-host", [host] { return cu.MemFreeHost(host); },
        kWaitsAndStalls);
}

TEST_F(FreesThatWait, MemHostUnregister)
{
    std::vector<char> pages(kMiB);
    MUST(cu.MemHostRegister(pages.data(), kMiB, 0));
    ExpectWhileHeld(
        "while-held.mem-host-unregister",
        [&] { return cu.MemHostUnregister(pages.data()); }, kWaitsAndStalls);
}

TEST_F(FreesThatWait, MemUnmap)
{
    MappedRange mapped(kGranule);
    ExpectWhileHeld(
        "while-held.mem-unmap", [&] { return mapped.Unmap(); },
        kWaitsForNobody);
}

TEST_F(FreesThatWait, ContextSynchronize)
{
    ExpectWhileHeld(
        "while-held.ctx-synchronize", [] { return cu.CtxSynchronize(); },
        kWaitsAlone);
}

TEST_F(FreesThatWait, ContextEvent)
{
    Event event;
    ExpectWhileHeld(
        "while-held.ctx-record-event",
        [&] { return cu.CtxRecordEvent(PrimaryContext(), event); },
        kWaitsForNobody);
}

TEST_F(FreesThatWait, LegacyEvent)
{
    Event event;
    ExpectWhileHeld(
        "while-held.legacy-event",
        [&] { return cu.EventRecord(event, nullptr); }, kWaitsForNobody);
    EXPECT_SUCCESS("while-held.legacy-event.completes", Settled(event.handle));
}

TEST_F(FreesThatWait, Allocations)
{
    CUdeviceptr address = 0;
    void *host = nullptr;
    ExpectWhileHeld(
        "while-held.mem-alloc",
        [&] { return cu.MemAlloc(&address, 64 * kMiB); }, kWaitsForNobody);
    ExpectWhileHeld(
        "while-held.mem-host-alloc",
        [&] { return cu.MemHostAlloc(&host, kMiB, 0); }, kWaitsForNobody);
    MUST(cu.MemFree(address));
    MUST(cu.MemFreeHost(host));
}

TEST_F(FreesThatWait, Registration)
{
    std::vector<char> pages(kMiB);
    ExpectWhileHeld(
        "while-held.mem-host-register",
        [&] { return cu.MemHostRegister(pages.data(), kMiB, 0); },
        kWaitsForNobody);
    MUST(cu.MemHostUnregister(pages.data()));
}

TEST_F(FreesThatWait, VmmMappings)
{
    CUmemAllocationProp property = PinnedOnDevice();
    CUmemAccessDesc access = ReadWriteByDevice();
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr address = 0;
    MUST(cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
    ExpectWhileHeld(
        "while-held.vmm-create-map-access",
        [&] {
            CUresult code = cu.MemCreate(&memory, kGranule, &property, 0);
            if (code == CUDA_SUCCESS)
                code = cu.MemMap(address, kGranule, 0, memory, 0);
            if (code == CUDA_SUCCESS)
                code = cu.MemSetAccess(address, kGranule, &access, 1);
            return code;
        },
        kWaitsForNobody);
    MUST(cu.MemUnmap(address, kGranule));
    MUST(cu.MemRelease(memory));
    MUST(cu.MemAddressFree(address, kGranule));
}

/* Only the context that owns the memory is waited for. */
TEST_F(FreesThatWait, FreeIgnoresOtherContexts)
{
    CUcontext owner = nullptr;
    CUdeviceptr address = 0;
    Background freer;
    Stream stream;
    MUST(cu.CtxCreate_v2(&owner, 0, 0));
    MUST(cu.MemAlloc(&address, kMiB));
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    {
        StreamHold hold(stream);
        freer.Start([address] { return cu.MemFree(address); });
        EXPECT_YES("mem-free.ignores-streams-of-other-contexts",
                   freer.ReturnsWithin(kRequiredMs));
        hold.Release();
        EXPECT_SUCCESS("mem-free.of-another-context", freer.Result());
    }
    MUST(cu.CtxDestroy(owner));
}

/* A free waits for work that has been queued by the time of the call. */
TEST_F(FreesThatWait, FreeComesAfterTheQueuedWork)
{
    CUdeviceptr address = 0;
    Background freer;
    Stream stream;
    MUST(cu.MemAlloc(&address, kMiB));
    StreamHold hold(stream);
    MUST(cu.MemsetD8Async(address, 1, kMiB, stream));
    freer.Start([address] { return cu.MemFree(address); });
    EXPECT_YES("mem-free.in-use.waits", !freer.ReturnsWithin(kForbiddenMs));
    hold.Release();
    EXPECT_SUCCESS("mem-free.in-use", freer.Result());
    EXPECT_SUCCESS("mem-free.in-use.stream-is-idle-after",
                   cu.StreamQuery(stream));
}

} // namespace conformance

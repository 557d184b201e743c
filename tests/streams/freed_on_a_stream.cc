// SPDX-License-Identifier: Apache-2.0
//
// Rows: freed on F, next allocation for F; for N; for ANY, the CPU or a
// capturing stream; into the space; trim.
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using FreedOnAStream = RuleTest;
FOR_EACH_LOAD(FreedOnAStream);

TEST_P(FreedOnAStream, ServesTheSameAtOnce)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesAtOnce(freed_));
    Write(freed_, pool_.last(), pool_.size_bytes(), kNew);
    hold.Release();
    EXPECT_TRUE(pool_.AllHold(freed_, kNew));
}

TEST_P(FreedOnAStream, CostsNoEventOnTheSame)
{
    pool_.Free(freed_);
    uint64_t before = pool_.Stats().events_recorded;
    ASSERT_TRUE(pool_.ServesAtOnce(freed_));
    EXPECT_EQ(pool_.Stats().events_recorded, before);
}

// The other thread goes on to live.
using FreedByAnotherThread = RuleTest;
INSTANTIATE_TEST_SUITE_P(Blocks, FreedByAnotherThread,
                         ::testing::Values(kSome, kMany), NameOf);

TEST_P(FreedByAnotherThread, ServesTheSameStreamAtOnce)
{
    Worker worker;
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    worker.Do([&] { pool_.Free(freed_); });
    uint64_t events = pool_.Stats().events_recorded;
    ASSERT_TRUE(pool_.ServesAtOnce(freed_));
    EXPECT_EQ(pool_.Stats().events_recorded, events);
    Write(freed_, pool_.last(), pool_.size_bytes(), kNew);
    hold.Release();
    EXPECT_TRUE(pool_.AllHold(freed_, kNew));
}

TEST_P(FreedByAnotherThread, ServesAnotherStreamOnlyWhenDone)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

using FreedByAThreadThatEnded = RuleTest;
FOR_EACH_LOAD(FreedByAThreadThatEnded);

TEST_P(FreedByAThreadThatEnded, ServesTheSameStreamAtOnce)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    worker.End();
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
}

TEST_P(FreedByAThreadThatEnded, ServesAnotherStreamOnlyWhenDone)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    worker.End();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(FreedOnAStream, ServesAnotherOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    ASSERT_TRUE(pool_.ServesInTheEnd(next_));
    Write(next_, pool_.last(), pool_.size_bytes(), kNew);
    EXPECT_TRUE(pool_.AllHold(next_, kNew));
}

TEST_P(FreedOnAStream, ServesTheLegacyStreamOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_LEGACY));
    ASSERT_TRUE(pool_.ServesNothing(nullptr));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(nullptr));
}

// 0 and LEGACY are one stream, with two names.
TEST_P(FreedOnAStream, ServesTheLegacyStreamByItsOtherName)
{
    Hold hold(CU_STREAM_LEGACY);
    pool_.Free(nullptr);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    EXPECT_TRUE(pool_.ServesAtOnce(MOIETY_STREAM_LEGACY));
}

// The event comes when another stream asks, after the work that is there then.
TEST(Retirement, LooksAtTheWorkOfTheMomentWhenAnotherAsks)
{
    Stream freed, next;
    TightPool pool(kMany);
    pool.Free(freed);
    Hold hold(freed);
    ASSERT_TRUE(pool.ServesNothing(next));
    Hold later(freed);
    hold.Release();
    EXPECT_TRUE(pool.ServesInTheEnd(next));
}

TEST_P(FreedOnAStream, ServesAnyOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_DONE));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(MOIETY_STREAM_ANY));
}

TEST_P(FreedOnAStream, ServesTheCallersOwnStreamOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(MOIETY_STREAM_PER_THREAD));
}

TEST_P(FreedOnAStream, ServesACapturingStreamOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    // Out of the caches and behind an event, while no guard forbids that.
    ASSERT_EQ(moiety_pool_trim(pool_, 0, nullptr), MOIETY_OK);
    CaptureScope scope(pool_, next_);
    Capture capture(next_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

// The graph may be launched on any stream: what is queued on F now does not
// come before it.
TEST_P(FreedOnAStream, ServesTheSameOnlyWhenDoneIfItCaptures)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    {
        CaptureScope scope(pool_, freed_);
        Capture capture(freed_);
        ASSERT_TRUE(pool_.ServesNothing(freed_));
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

// What nothing may be pending on comes from there.
TEST_P(FreedOnAStream, EntersTheBuddyOnlyWhenDone)
{
    constexpr size_t kAnotherSize = size_t{64} << 10;
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY, kAnotherSize));
    EXPECT_EQ(pool_.Stats().free_bytes, 0u);
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(MOIETY_STREAM_ANY, kAnotherSize));
}

// The stream's own heap: the same memory in other pieces.
TEST_P(FreedOnAStream, ServesTheSameInAnotherSizeAtOnce)
{
    constexpr size_t kAnotherSize = size_t{64} << 10;
    Hold hold(freed_);
    pool_.Free(freed_);
    EXPECT_EQ(pool_.Take(freed_, kAnotherSize), MOIETY_OK);
    EXPECT_EQ(pool_.FreeLast(freed_), MOIETY_OK);
}

// A segment that was given back too early would be waited for by cuMemFree, in
// vain: the watchdog would see it.
TEST_P(FreedOnAStream, IsTrimmedOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    uint64_t bytes = 1;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    hold.Release();
    // The driver would wait for it as well.
    MUST(cu.StreamSynchronize(freed_));
    EXPECT_TRUE(pool_.IsTrimmedInTheEnd());
    EXPECT_EQ(pool_.Stats().reserved_bytes_current, 0u);
}

class AllowedToWait : public RuleTest
{
  protected:
    AllowedToWait() : RuleTest(0, UINT32_MAX - 1) {}
};
FOR_EACH_LOAD(AllowedToWait);

// The allocation may only return when what was freed is done.
TEST_P(AllowedToWait, ServesAnotherWhenDone)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    std::future<void> served =
        worker.Start([&] { EXPECT_TRUE(pool_.ServesAtOnce(next_)); });
    PauseForTheForbidden();
    EXPECT_EQ(served.wait_for(std::chrono::seconds(0)),
              std::future_status::timeout);
    hold.Release();
    served.get();
    EXPECT_GT(pool_.Stats().oom_steps[MOIETY_OOM_WAIT], 0u);
}

} // namespace streams_test

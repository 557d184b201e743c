// SPDX-License-Identifier: Apache-2.0
//
// Captures that go on while the pool works: none is broken.
#include <atomic>
#include <future>
#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/tools/pool_maker.h"

namespace streams_test
{

struct Mode {
    const char *name;
    CUstreamCaptureMode value;
};

[[maybe_unused]] static void PrintTo(const Mode &mode, std::ostream *out)
{
    *out << mode.name;
}

static std::string NameOfMode(const ::testing::TestParamInfo<Mode> &mode)
{
    return mode.param.name;
}

// A capture in another thread, in each mode.
class DuringACapture : public ::testing::TestWithParam<Mode>
{
  protected:
    // Only the thread that began a capture can end it.
    void TearDown() override
    {
        capturer_.Do([this] { capture_.reset(); });
    }

    void Begin()
    {
        capturer_.Do([this] {
            capture_.reset(new Capture(captured_, GetParam().value));
        });
    }

    CUresult End()
    {
        CUresult code = CUDA_SUCCESS;
        capturer_.Do([&] { code = capture_->End(); });
        return code;
    }

    Stream captured_, freed_, next_;
    TightPool pool_{kMany};
    std::unique_ptr<Capture> capture_;
    Worker capturer_;
};
INSTANTIATE_TEST_SUITE_P(
    Modes, DuringACapture,
    ::testing::Values(Mode{"Global", CU_STREAM_CAPTURE_MODE_GLOBAL},
                      Mode{"ThreadLocal", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
                      Mode{"Relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}),
    NameOfMode);

TEST_P(DuringACapture, WhatIsFreedWithoutAStreamWaitsForTheGuardsEnd)
{
    Guard guard;
    Begin();
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    ASSERT_EQ(pool_.Stats().context_events_recorded, 0u);
    EXPECT_GT(pool_.Stats().ages_guarded, 0u);
    EXPECT_EQ(End(), CUDA_SUCCESS);
    guard.End();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    EXPECT_GT(pool_.Stats().context_events_recorded, 0u);
    EXPECT_EQ(pool_.Stats().captures_disturbed, 0u);
}

TEST_P(DuringACapture, WhatAThreadThatEndedFreedWaitsForTheGuardsEnd)
{
    TightPool pool(kFew);
    Guard guard;
    Begin();
    Worker worker;
    worker.Do([&] { pool.Free(MOIETY_STREAM_PER_THREAD); });
    worker.End();
    ASSERT_TRUE(pool.ServesNothing(next_));
    EXPECT_EQ(pool.Stats().context_events_recorded, 0u);
    EXPECT_EQ(End(), CUDA_SUCCESS);
    guard.End();
    EXPECT_TRUE(pool.ServesInTheEnd(next_));
}

// The guard keeps the pool from an event of the context, and not from one on the
// stream that is retired.
TEST_P(DuringACapture, WhatARetiredStreamFreedIsReusedUnderAGuard)
{
    Guard guard;
    Begin();
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    EXPECT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    EXPECT_EQ(End(), CUDA_SUCCESS);
    guard.End();
}

TEST_P(DuringACapture, PoolsGrow)
{
    std::unique_ptr<TightPool> growing;
    Begin();
    growing.reset(new TightPool(kFew));
    EXPECT_EQ(End(), CUDA_SUCCESS);
}

TEST_P(DuringACapture, UsesAreRecordedAndEventsWaitedFor)
{
    Event event;
    MUST(cu.EventRecord(event, freed_));
    moiety_devptr block = pool_.last();
    Begin();
    EXPECT_EQ(moiety_record_use(pool_, block, next_), MOIETY_OK);
    pool_.FreeAfter(event);
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    EXPECT_EQ(End(), CUDA_SUCCESS);
}

TEST_P(DuringACapture, StreamsAreRetired)
{
    Begin();
    pool_.Free(freed_);
    EXPECT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    EXPECT_EQ(End(), CUDA_SUCCESS);
}

// A stream that waits for the legacy stream, and makes that wait for its own
// capture: nothing can be put on the legacy stream until the capture ends.
struct BlockingStream {
    BlockingStream()
    {
        MUST(cu.StreamCreate(&handle, CU_STREAM_DEFAULT));
    }
    ~BlockingStream()
    {
        MUST(cu.StreamDestroy(handle));
    }
    BlockingStream(const BlockingStream &) = delete;
    BlockingStream &operator=(const BlockingStream &) = delete;
    CUstream handle = nullptr;
};

// While that captures.
class LegacyStream : public RuleTest
{
  protected:
    // It serves the legacy stream again, and nobody else before the end.
    void ExpectToTakeAFree(moiety_stream legacy)
    {
        Guard guard;
        Capture capture(captured_.handle);
        EXPECT_EQ(pool_.TryToFree(legacy), MOIETY_OK);
        EXPECT_TRUE(pool_.ServesAtOnce(legacy));
        EXPECT_EQ(pool_.FreeLast(legacy), MOIETY_OK);
        EXPECT_TRUE(pool_.ServesNothing(next_));
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
        guard.End();
        EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    }

    BlockingStream captured_;
};
FOR_EACH_LOAD(LegacyStream);

TEST_P(LegacyStream, TakesAFreeWhileABlockingStreamCaptures)
{
    ExpectToTakeAFree(MOIETY_STREAM_LEGACY);
}

TEST_P(LegacyStream, TakesAFreeByItsOtherName)
{
    ExpectToTakeAFree(nullptr);
}

TEST_P(LegacyStream, TakesAFreeOfWhatAnotherStreamUses)
{
    Guard guard;
    Capture capture(captured_.handle);
    pool_.RecordUse(other_);
    EXPECT_EQ(pool_.TryToFree(MOIETY_STREAM_LEGACY), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    guard.End();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// The capture is lost, the memory is not.
TEST_P(DuringACapture, AMissingGuardIsNoticed)
{
    Begin();
    pool_.Free(MOIETY_STREAM_ANY);
    (void)pool_.Take(next_);
    EXPECT_NE(End(), CUDA_SUCCESS);
    EXPECT_GT(pool_.Stats().captures_disturbed, 0u);
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

using FreedOnACapturingStream = RuleTest;
FOR_EACH_LOAD(FreedOnACapturingStream);

TEST_P(FreedOnACapturingStream, IsRefused)
{
    Guard guard;
    Capture capture(freed_);
    EXPECT_EQ(pool_.FreeLast(freed_), MOIETY_E_CAPTURING);
    size_t usable = 0;
    EXPECT_EQ(moiety_usable_size(pool_, pool_.last(), &usable), MOIETY_OK);
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    guard.End();
    EXPECT_EQ(pool_.FreeLast(freed_), MOIETY_OK);
}

// The capture is lost to an event of the context, the memory is not.
TEST_P(FreedOnACapturingStream, LosesNoMemoryWithoutAGuard)
{
    Capture capture(freed_);
    (void)pool_.TryToFree(freed_);
    (void)pool_.Take(next_);
    (void)capture.End();
    // An event of the graph would never be over.
    (void)pool_.TryToFree(freed_);
    EXPECT_TRUE(pool_.IsTrimmedInTheEnd());
}

using AllocatedOnACapturingStream = RuleTest;
FOR_EACH_LOAD(AllocatedOnACapturingStream);

// A guard tells the pool that there are captures, but not how long a block must
// stay.
TEST_P(AllocatedOnACapturingStream, IsRefusedOutsideAScope)
{
    pool_.Free(MOIETY_STREAM_DONE);
    Guard guard;
    Capture capture(next_);
    EXPECT_EQ(pool_.Take(next_), MOIETY_E_CAPTURING);
    EXPECT_EQ(pool_.Take(freed_), MOIETY_OK);
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    EXPECT_EQ(pool_.FreeLast(MOIETY_STREAM_DONE), MOIETY_OK);
    EXPECT_EQ(pool_.Take(next_), MOIETY_OK);
}

using CaptureGuard = RuleTest;
FOR_EACH_LOAD(CaptureGuard);

TEST_P(CaptureGuard, IsCounted)
{
    Guard outer, inner;
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    inner.End();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    outer.End();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(CaptureGuard, HoldsForPoolsThatAreMadeMeanwhile)
{
    Guard guard;
    std::unique_ptr<TightPool> made(new TightPool(GetParam()));
    made->Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(made->ServesNothing(next_));
    Hold hold(freed_);
    guard.End();
    ASSERT_TRUE(made->ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(made->ServesInTheEnd(next_));
}

TEST_P(CaptureGuard, KeepsAPoolFromBeingDestroyed)
{
    Guard guard;
    EXPECT_EQ(pool_maker.destroy(pool_, nullptr), MOIETY_E_CAPTURING);
}

// What was cached before the guard is still cached after it.
TEST_P(CaptureGuard, LeavesCachesAsTheyWere)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    {
        Guard guard;
    }
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
}

// A guard that began waits for context events that are being recorded.
TEST(CaptureGuardRace, RecordersVsGuards)
{
    Stream captured;
    TightPool pool(kMany);
    Worker worker;
    std::atomic<bool> is_over{false};
    std::future<void> churn = worker.Start([&] {
        while (!is_over.load()) {
            pool.Free(MOIETY_STREAM_ANY);
            while (pool.Take(MOIETY_STREAM_ANY) == MOIETY_OK) {
            }
        }
    });
    int broken = 0;
    for (int round = 0; round < 300; round++) {
        Guard guard;
        Capture capture(captured);
        if (capture.End() != CUDA_SUCCESS)
            broken++;
    }
    is_over = true;
    churn.get();
    EXPECT_EQ(broken, 0);
    EXPECT_EQ(pool.Stats().captures_disturbed, 0u);
}

} // namespace streams_test

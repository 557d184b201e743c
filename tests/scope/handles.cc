// SPDX-License-Identifier: Apache-2.0
//
// Beginning, ending and releasing scopes, rightly and wrongly.
#include <memory>

#include <gtest/gtest.h>

#include "moiety/ipc.h"
#include "moiety/scope.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace streams_test
{

constexpr moiety_scope kNoScope = 0;

class ScopeHandle : public ::testing::Test
{
  protected:
    moiety_scope Begin(moiety_stream stream)
    {
        moiety_scope scope = 0;
        EXPECT_EQ(moiety_scope_begin(pool_, stream, &scope), MOIETY_OK)
            << moiety_last_error_message();
        EXPECT_NE(scope, kNoScope);
        return scope;
    }

    void EndAndRelease(moiety_scope scope)
    {
        EXPECT_EQ(moiety_scope_end(scope), MOIETY_OK);
        EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
    }

    Stream stream_, other_;
    TightPool pool_{kFew};
};

TEST_F(ScopeHandle, NeedsAPoolAStreamAndAPlaceToWriteTo)
{
    auto scope = reinterpret_cast<moiety_scope>(17);
    EXPECT_EQ(moiety_scope_begin(nullptr, stream_, &scope), MOIETY_E_INVALID);
    EXPECT_EQ(moiety_scope_begin(pool_, stream_, nullptr), MOIETY_E_INVALID);
    for (moiety_stream stream : {moiety_stream(nullptr), MOIETY_STREAM_LEGACY,
                                 MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_EQ(moiety_scope_begin(pool_, stream, &scope), MOIETY_E_INVALID)
            << stream;
    EXPECT_EQ(scope, reinterpret_cast<moiety_scope>(17));
    EXPECT_EQ(moiety_scope_release_all(nullptr), MOIETY_E_INVALID);
    // None of them took a guard.
    EXPECT_EQ(moiety_capture_guard_end(), MOIETY_E_INVALID);
}

TEST_F(ScopeHandle, ZeroIsNone)
{
    EXPECT_EQ(moiety_scope_end(kNoScope), MOIETY_E_INVALID);
    EXPECT_EQ(moiety_scope_release(kNoScope), MOIETY_E_INVALID);
}

TEST_F(ScopeHandle, HoldsAGuardWhileItIsOpen)
{
    moiety_scope scope = Begin(stream_);
    EXPECT_EQ(moiety_pool_destroy(pool_, nullptr), MOIETY_E_IN_USE);
    EXPECT_EQ(moiety_scope_end(scope), MOIETY_OK);
    EXPECT_EQ(moiety_capture_guard_end(), MOIETY_E_INVALID);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
}

TEST_F(ScopeHandle, IsReleasedOnlyAfterItWasEnded)
{
    moiety_scope scope = Begin(stream_);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_E_IN_USE);
    EndAndRelease(scope);
}

TEST_F(ScopeHandle, IsEndedOnce)
{
    moiety_scope scope = Begin(stream_);
    EXPECT_EQ(moiety_scope_end(scope), MOIETY_OK);
    EXPECT_EQ(moiety_scope_end(scope), MOIETY_E_DESTROYED);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
    EXPECT_EQ(moiety_scope_end(scope), MOIETY_E_DESTROYED);
    EXPECT_EQ(moiety_capture_guard_end(), MOIETY_E_INVALID);
}

TEST_F(ScopeHandle, IsReleasedOnce)
{
    moiety_scope scope = Begin(stream_);
    EndAndRelease(scope);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_E_DESTROYED);
}

TEST_F(ScopeHandle, IsNotThatOfALaterOne)
{
    moiety_scope first = Begin(stream_);
    EndAndRelease(first);
    moiety_scope second = Begin(stream_);
    EXPECT_NE(first, second);
    EXPECT_EQ(moiety_scope_end(first), MOIETY_E_DESTROYED);
    EndAndRelease(second);
}

TEST_F(ScopeHandle, IsOneForEachStreamAndPool)
{
    moiety_scope scope = Begin(stream_);
    moiety_scope second = 0;
    EXPECT_EQ(moiety_scope_begin(pool_, stream_, &second), MOIETY_E_INVALID);
    EXPECT_EQ(second, kNoScope);
    moiety_scope other = Begin(other_);
    TightPool pool(kFew);
    moiety_scope elsewhere = 0;
    ASSERT_EQ(moiety_scope_begin(pool, stream_, &elsewhere), MOIETY_OK);
    EndAndRelease(elsewhere);
    EndAndRelease(other);
    EXPECT_EQ(moiety_scope_end(scope), MOIETY_OK);
    // One that was only ended is not in the way.
    EndAndRelease(Begin(stream_));
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
    EXPECT_EQ(moiety_capture_guard_end(), MOIETY_E_INVALID);
}

TEST_F(ScopeHandle, MayBeEndedAndReleasedByOtherThreads)
{
    moiety_scope scope = Begin(MOIETY_STREAM_PER_THREAD);
    Worker first, second;
    first.Do([&] { EXPECT_EQ(moiety_scope_end(scope), MOIETY_OK); });
    second.Do([&] { EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK); });
}

TEST_F(ScopeHandle, OfADestroyedPoolIsRecognised)
{
    moiety_scope open = 0, ended = 0;
    {
        TightPool pool(kFew);
        ASSERT_EQ(moiety_scope_begin(pool, other_, &ended), MOIETY_OK);
        ASSERT_EQ(moiety_scope_end(ended), MOIETY_OK);
        ASSERT_EQ(moiety_scope_begin(pool, stream_, &open), MOIETY_OK);
        EXPECT_EQ(moiety_pool_destroy(pool, nullptr), MOIETY_E_IN_USE);
        ASSERT_EQ(moiety_scope_end(open), MOIETY_OK);
    }
    EXPECT_EQ(moiety_scope_end(open), MOIETY_E_DESTROYED);
    EXPECT_EQ(moiety_scope_release(open), MOIETY_E_DESTROYED);
    EXPECT_EQ(moiety_scope_release(ended), MOIETY_E_DESTROYED);
}

TEST_F(ScopeHandle, KeepsItsStreamFromBeingRetired)
{
    moiety_scope scope = Begin(stream_);
    EXPECT_EQ(moiety_pool_retire_stream(pool_, stream_), MOIETY_E_IN_USE);
    EXPECT_EQ(moiety_pool_retire_stream(pool_, other_), MOIETY_OK);
    EXPECT_EQ(moiety_scope_end(scope), MOIETY_OK);
    EXPECT_EQ(moiety_pool_retire_stream(pool_, stream_), MOIETY_OK);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
}

TEST_F(ScopeHandle, ReleaseAllLeavesOpenOnes)
{
    moiety_scope open = Begin(stream_);
    moiety_scope ended = Begin(other_);
    EXPECT_EQ(moiety_scope_end(ended), MOIETY_OK);
    EXPECT_EQ(moiety_scope_release_all(pool_), MOIETY_OK);
    EXPECT_EQ(moiety_scope_release(ended), MOIETY_E_DESTROYED);
    EndAndRelease(open);
    EXPECT_EQ(moiety_scope_release_all(pool_), MOIETY_OK);
}

// A capture that broke has no number, but its stream a scope.
TEST_F(ScopeHandle, ServesACaptureThatBroke)
{
    pool_.Free(MOIETY_STREAM_DONE);
    CaptureScope scope(pool_, stream_);
    Capture capture(stream_);
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    (void)cu.StreamSynchronize(stream_);
    ASSERT_EQ(pool_.Take(stream_), MOIETY_OK) << moiety_last_error_message();
    EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
    EXPECT_NE(capture.End(), CUDA_SUCCESS);
    scope.End();
    scope.Release();
    while (pool_.Take(other_) == MOIETY_OK) {
    }
    EXPECT_TRUE(pool_.IsWhole());
}

// A scope is for one capture: two graphs may run at the same time.
TEST_F(ScopeHandle, IsNotForASecondCapture)
{
    pool_.Free(MOIETY_STREAM_DONE);
    CaptureScope scope(pool_, stream_);
    {
        Capture capture(stream_);
        ASSERT_EQ(pool_.Take(stream_), MOIETY_OK);
    }
    Capture capture(stream_);
    EXPECT_EQ(pool_.Take(stream_), MOIETY_E_CAPTURING);
}

// Its stream, while it does not capture, is a stream as any.
TEST_F(ScopeHandle, IsNotForWorkOutsideTheCapture)
{
    pool_.Free(MOIETY_STREAM_DONE);
    CaptureScope scope(pool_, stream_);
    ASSERT_EQ(pool_.Take(stream_), MOIETY_OK);
    EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(stream_));
    moiety_devptr block = pool_.last();
    EXPECT_EQ(pool_.FreeLast(MOIETY_STREAM_DONE), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(other_));
    EXPECT_EQ(pool_.last(), block);
}

// A block of a scope, live.
class BlockOfAScope : public ScopeHandle
{
  protected:
    void SetUp() override
    {
        pool_.Free(MOIETY_STREAM_DONE);
        scope_.reset(new CaptureScope(pool_, stream_));
        capture_.reset(new Capture(stream_));
        ASSERT_EQ(pool_.Take(stream_), MOIETY_OK);
    }

    // After the last of it was freed.
    void TearDown() override
    {
        EXPECT_EQ(capture_->End(), CUDA_SUCCESS);
        scope_.reset();
    }

    std::unique_ptr<CaptureScope> scope_;
    std::unique_ptr<Capture> capture_;
};

TEST_F(BlockOfAScope, IsFreedOnceOnly)
{
    moiety_devptr block = pool_.last();
    EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
    for (moiety_stream stream : {moiety_stream(stream_), moiety_stream(other_),
                                 MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_EQ(moiety_free(pool_, block, stream), MOIETY_E_DOUBLE_FREE);
    // Nor is what it freed after an ordinary life.
    ASSERT_EQ(pool_.Take(other_), MOIETY_OK);
    block = pool_.last();
    EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
    EXPECT_EQ(moiety_free(pool_, block, stream_), MOIETY_E_DOUBLE_FREE);
    EXPECT_EQ(moiety_free(pool_, block, other_), MOIETY_E_DOUBLE_FREE);
}

TEST_F(BlockOfAScope, IsFreedByItsSizeOnly)
{
    moiety_devptr block = pool_.last();
    size_t size = 0;
    ASSERT_EQ(moiety_usable_size(pool_, block, &size), MOIETY_OK);
    EXPECT_EQ(size, pool_.size_bytes());
    EXPECT_EQ(moiety_free_sized(pool_, block, size / 4, stream_),
              MOIETY_E_INVALID);
    EXPECT_EQ(moiety_free_sized(pool_, block, size, stream_), MOIETY_OK);
    pool_.Forget(block);
}

TEST_F(BlockOfAScope, IsFreedInABatch)
{
    ASSERT_EQ(pool_.Take(stream_), MOIETY_OK);
    moiety_devptr blocks[2] = {pool_.last(), 0};
    pool_.Forget(blocks[0]);
    blocks[1] = pool_.last();
    pool_.Forget(blocks[1]);
    size_t freed = 0;
    EXPECT_EQ(moiety_free_batch(pool_, blocks, 2, stream_, &freed), MOIETY_OK);
    EXPECT_EQ(freed, 2u);
    EXPECT_EQ(moiety_alloc_batch(pool_, pool_.size_bytes(), stream_, 2, blocks),
              MOIETY_OK);
    EXPECT_EQ(moiety_free_batch(pool_, blocks, 2, stream_, &freed), MOIETY_OK);
}

// All or none.
TEST_F(BlockOfAScope, IsNotServedInABatchThatIsTooLarge)
{
    moiety_devptr blocks[4] = {};
    EXPECT_EQ(moiety_alloc_batch(pool_, pool_.size_bytes(), stream_, 4, blocks),
              MOIETY_E_NO_DEVICE_MEMORY);
    while (pool_.Take(stream_) == MOIETY_OK) {
    }
    EXPECT_TRUE(pool_.IsWhole());
}

TEST_F(BlockOfAScope, IsFreedOnAStreamNotBehindAnEvent)
{
    Event event;
    MUST(cu.EventRecord(event, other_));
    EXPECT_EQ(moiety_free_on_event(pool_, pool_.last(), event),
              MOIETY_E_IN_USE);
    EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
}

TEST_F(BlockOfAScope, IsServedWithoutWaitingAndAligned)
{
    moiety_devptr block = 0;
    EXPECT_EQ(alloc_no_wait(pool_, 4096, stream_, &block), MOIETY_OK);
    EXPECT_EQ(moiety_free(pool_, block, stream_), MOIETY_OK);
    EXPECT_EQ(alloc_aligned(pool_, 4096, 65536, stream_, &block), MOIETY_OK);
    EXPECT_EQ(block % 65536, 0u);
    EXPECT_EQ(moiety_free(pool_, block, stream_), MOIETY_OK);
    EXPECT_EQ(moiety_alloc(pool_, 0, stream_, &block), MOIETY_OK);
    EXPECT_EQ(block, 0u);
    EXPECT_EQ(moiety_free(pool_, 0, stream_), MOIETY_OK);
}

// Peers may use it, and the graph too, whichever lets go of it first.
TEST(ExportedBlockOfAScope, WaitsForBothReleases)
{
    for (bool is_scope_first : {true, false}) {
        Stream stream, other;
        TightPool pool(kFew, MOIETY_POOL_EXPORTABLE);
        pool.Free(MOIETY_STREAM_DONE);
        CaptureScope scope(pool, stream);
        {
            Capture capture(stream);
            while (pool.Take(stream) == MOIETY_OK) {
            }
            moiety_ipc_handle handle = {};
            ASSERT_EQ(moiety_ipc_export(pool, pool.last(), &handle), MOIETY_OK);
            EXPECT_EQ(pool.FreeLast(stream), MOIETY_OK);
            EXPECT_TRUE(pool.ServesNothing(stream));
        }
        scope.End();
        const auto release_exports = [&] {
            EXPECT_EQ(moiety_ipc_release_exports(pool, 0), MOIETY_OK);
        };
        is_scope_first ? scope.Release() : release_exports();
        EXPECT_TRUE(pool.ServesNothing(stream));
        EXPECT_TRUE(pool.ServesNothing(other));
        is_scope_first ? release_exports() : scope.Release();
        EXPECT_TRUE(pool.ServesInTheEnd(other));
    }
}

// A pool whose captures need no call.
class AutomaticScope : public ::testing::Test
{
  protected:
    AutomaticScope() : pool_(kFew, MOIETY_POOL_AUTO_SCOPE)
    {
        pool_.Free(MOIETY_STREAM_DONE);
    }

    void TakeAll(moiety_stream stream)
    {
        while (pool_.Take(stream) == MOIETY_OK) {
        }
    }

    Stream stream_, other_;
    TightPool pool_;
};

TEST_F(AutomaticScope, KeepsWhatACaptureFreesUntilAllAreReleased)
{
    {
        Guard guard;
        Capture capture(stream_);
        TakeAll(stream_);
        ASSERT_TRUE(pool_.IsWhole());
        pool_.Free(stream_);
        EXPECT_TRUE(pool_.ServesAtOnce(stream_));
        EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
        EXPECT_TRUE(pool_.ServesNothing(other_));
    }
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    Hold hold(other_);
    EXPECT_EQ(moiety_scope_release_all(pool_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(stream_));
}

TEST_F(AutomaticScope, IsOneForEachCapture)
{
    Guard guard;
    {
        Capture capture(stream_);
        TakeAll(stream_);
        pool_.Free(stream_);
    }
    Capture capture(stream_);
    EXPECT_TRUE(pool_.ServesNothing(stream_));
}

TEST_F(AutomaticScope, TakesOrdinaryBlocksThatACaptureFrees)
{
    TakeAll(stream_);
    {
        Guard guard;
        Capture capture(stream_);
        pool_.Free(stream_);
    }
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    EXPECT_EQ(moiety_scope_release_all(pool_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesInTheEnd(stream_));
}

TEST_F(AutomaticScope, EndsWithThePool)
{
    Guard guard;
    Capture capture(stream_);
    TakeAll(stream_);
    EXPECT_EQ(pool_.FreeLast(stream_), MOIETY_OK);
}

TEST_F(AutomaticScope, YieldsToOneThatWasBegun)
{
    CaptureScope scope(pool_, stream_);
    {
        Capture capture(stream_);
        TakeAll(stream_);
        pool_.Free(stream_);
    }
    EXPECT_EQ(moiety_scope_release_all(pool_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    scope.End();
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(stream_));
}

} // namespace streams_test

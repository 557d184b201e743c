// SPDX-License-Identifier: Apache-2.0
//
// Beginning, ending and releasing scopes, rightly and wrongly.
#include <memory>

#include <gtest/gtest.h>

#include "binade/ipc.h"
#include "binade/scope.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

constexpr binade_scope kNoScope = 0;

class ScopeHandle : public ::testing::Test
{
  protected:
    binade_scope Begin(binade_stream stream)
    {
        binade_scope scope = 0;
        EXPECT_EQ(binade_scope_begin(pool_, stream, &scope), BINADE_OK)
            << binade_last_error_message();
        EXPECT_NE(scope, kNoScope);
        return scope;
    }

    void EndAndRelease(binade_scope scope)
    {
        EXPECT_EQ(binade_scope_end(scope), BINADE_OK);
        EXPECT_EQ(binade_scope_release(scope), BINADE_OK);
    }

    Stream stream_, other_;
    TightPool pool_{kFew};
};

TEST_F(ScopeHandle, NeedsAPoolAStreamAndAPlaceToWriteTo)
{
    binade_scope scope = 17;
    EXPECT_EQ(binade_scope_begin(nullptr, stream_, &scope), BINADE_E_INVALID);
    EXPECT_EQ(binade_scope_begin(pool_, stream_, nullptr), BINADE_E_INVALID);
    for (binade_stream stream : {binade_stream(nullptr), BINADE_STREAM_LEGACY,
                                 BINADE_STREAM_ANY, BINADE_STREAM_DONE})
        EXPECT_EQ(binade_scope_begin(pool_, stream, &scope), BINADE_E_INVALID)
            << stream;
    EXPECT_EQ(scope, 17u);
    EXPECT_EQ(binade_scope_release_all(nullptr), BINADE_E_INVALID);
    // None of them took a guard.
    EXPECT_EQ(binade_capture_guard_end(), BINADE_E_INVALID);
}

TEST_F(ScopeHandle, ZeroIsNone)
{
    EXPECT_EQ(binade_scope_end(kNoScope), BINADE_E_INVALID);
    EXPECT_EQ(binade_scope_release(kNoScope), BINADE_E_INVALID);
}

TEST_F(ScopeHandle, HoldsAGuardWhileItIsOpen)
{
    binade_scope scope = Begin(stream_);
    EXPECT_EQ(binade_pool_destroy(pool_, nullptr), BINADE_E_BUSY);
    EXPECT_EQ(binade_scope_end(scope), BINADE_OK);
    EXPECT_EQ(binade_capture_guard_end(), BINADE_E_INVALID);
    EXPECT_EQ(binade_scope_release(scope), BINADE_OK);
}

TEST_F(ScopeHandle, IsReleasedOnlyAfterItWasEnded)
{
    binade_scope scope = Begin(stream_);
    EXPECT_EQ(binade_scope_release(scope), BINADE_E_BUSY);
    EndAndRelease(scope);
}

TEST_F(ScopeHandle, IsEndedOnce)
{
    binade_scope scope = Begin(stream_);
    EXPECT_EQ(binade_scope_end(scope), BINADE_OK);
    EXPECT_EQ(binade_scope_end(scope), BINADE_E_INVALID);
    EXPECT_EQ(binade_scope_release(scope), BINADE_OK);
    EXPECT_EQ(binade_scope_end(scope), BINADE_E_INVALID);
    EXPECT_EQ(binade_capture_guard_end(), BINADE_E_INVALID);
}

TEST_F(ScopeHandle, IsReleasedOnce)
{
    binade_scope scope = Begin(stream_);
    EndAndRelease(scope);
    EXPECT_EQ(binade_scope_release(scope), BINADE_E_INVALID);
}

TEST_F(ScopeHandle, IsNotThatOfALaterOne)
{
    binade_scope first = Begin(stream_);
    EndAndRelease(first);
    binade_scope second = Begin(stream_);
    EXPECT_NE(first, second);
    EXPECT_EQ(binade_scope_end(first), BINADE_E_INVALID);
    EndAndRelease(second);
}

TEST_F(ScopeHandle, IsOneForEachStreamAndPool)
{
    binade_scope scope = Begin(stream_);
    binade_scope second = 0;
    EXPECT_EQ(binade_scope_begin(pool_, stream_, &second), BINADE_E_INVALID);
    EXPECT_EQ(second, kNoScope);
    binade_scope other = Begin(other_);
    TightPool pool(kFew);
    binade_scope elsewhere = 0;
    ASSERT_EQ(binade_scope_begin(pool, stream_, &elsewhere), BINADE_OK);
    EndAndRelease(elsewhere);
    EndAndRelease(other);
    EXPECT_EQ(binade_scope_end(scope), BINADE_OK);
    // One that was only ended is not in the way.
    EndAndRelease(Begin(stream_));
    EXPECT_EQ(binade_scope_release(scope), BINADE_OK);
    EXPECT_EQ(binade_capture_guard_end(), BINADE_E_INVALID);
}

TEST_F(ScopeHandle, MayBeEndedAndReleasedByOtherThreads)
{
    binade_scope scope = Begin(BINADE_STREAM_PER_THREAD);
    Worker first, second;
    first.Do([&] { EXPECT_EQ(binade_scope_end(scope), BINADE_OK); });
    second.Do([&] { EXPECT_EQ(binade_scope_release(scope), BINADE_OK); });
}

TEST_F(ScopeHandle, OfADestroyedPoolIsRecognised)
{
    binade_scope open = 0, ended = 0;
    {
        TightPool pool(kFew);
        ASSERT_EQ(binade_scope_begin(pool, other_, &ended), BINADE_OK);
        ASSERT_EQ(binade_scope_end(ended), BINADE_OK);
        ASSERT_EQ(binade_scope_begin(pool, stream_, &open), BINADE_OK);
        EXPECT_EQ(binade_pool_destroy(pool, nullptr), BINADE_E_BUSY);
        ASSERT_EQ(binade_scope_end(open), BINADE_OK);
    }
    EXPECT_EQ(binade_scope_end(open), BINADE_E_INVALID);
    EXPECT_EQ(binade_scope_release(open), BINADE_E_INVALID);
    EXPECT_EQ(binade_scope_release(ended), BINADE_E_INVALID);
}

TEST_F(ScopeHandle, KeepsItsStreamFromBeingRetired)
{
    binade_scope scope = Begin(stream_);
    EXPECT_EQ(binade_stream_retire(pool_, stream_), BINADE_E_BUSY);
    EXPECT_EQ(binade_stream_retire(pool_, other_), BINADE_OK);
    EXPECT_EQ(binade_scope_end(scope), BINADE_OK);
    EXPECT_EQ(binade_stream_retire(pool_, stream_), BINADE_OK);
    EXPECT_EQ(binade_scope_release(scope), BINADE_OK);
}

TEST_F(ScopeHandle, ReleaseAllLeavesOpenOnes)
{
    binade_scope open = Begin(stream_);
    binade_scope ended = Begin(other_);
    EXPECT_EQ(binade_scope_end(ended), BINADE_OK);
    EXPECT_EQ(binade_scope_release_all(pool_), BINADE_OK);
    EXPECT_EQ(binade_scope_release(ended), BINADE_E_INVALID);
    EndAndRelease(open);
    EXPECT_EQ(binade_scope_release_all(pool_), BINADE_OK);
}

// A capture that broke has no number, but its stream a scope.
TEST_F(ScopeHandle, ServesACaptureThatBroke)
{
    pool_.Free(BINADE_STREAM_DONE);
    CaptureScope scope(pool_, stream_);
    Capture capture(stream_);
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    (void)cu.StreamSynchronize(stream_);
    ASSERT_EQ(pool_.Take(stream_), BINADE_OK) << binade_last_error_message();
    EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
    EXPECT_NE(capture.End(), CUDA_SUCCESS);
    scope.End();
    scope.Release();
    while (pool_.Take(other_) == BINADE_OK) {
    }
    EXPECT_TRUE(pool_.IsWhole());
}

// A scope is for one capture: two graphs may run at the same time.
TEST_F(ScopeHandle, IsNotForASecondCapture)
{
    pool_.Free(BINADE_STREAM_DONE);
    CaptureScope scope(pool_, stream_);
    {
        Capture capture(stream_);
        ASSERT_EQ(pool_.Take(stream_), BINADE_OK);
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    Capture capture(stream_);
    EXPECT_EQ(pool_.Take(stream_), BINADE_E_CAPTURING);
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

// Its stream, while it does not capture, is a stream as any.
TEST_F(ScopeHandle, IsNotForWorkOutsideTheCapture)
{
    pool_.Free(BINADE_STREAM_DONE);
    CaptureScope scope(pool_, stream_);
    ASSERT_EQ(pool_.Take(stream_), BINADE_OK);
    EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(stream_));
    binade_devptr block = pool_.last();
    EXPECT_EQ(pool_.FreeLast(BINADE_STREAM_DONE), BINADE_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(other_));
    EXPECT_EQ(pool_.last(), block);
}

// A block of a scope, live.
class BlockOfAScope : public ScopeHandle
{
  protected:
    void SetUp() override
    {
        pool_.Free(BINADE_STREAM_DONE);
        scope_.reset(new CaptureScope(pool_, stream_));
        capture_.reset(new Capture(stream_));
        ASSERT_EQ(pool_.Take(stream_), BINADE_OK);
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
    binade_devptr block = pool_.last();
    EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
    for (binade_stream stream : {binade_stream(stream_), binade_stream(other_),
                                 BINADE_STREAM_ANY, BINADE_STREAM_DONE})
        EXPECT_EQ(binade_free(pool_, block, stream), BINADE_E_INVALID);
    // Nor is what it freed after an ordinary life.
    ASSERT_EQ(pool_.Take(other_), BINADE_OK);
    block = pool_.last();
    EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
    EXPECT_EQ(binade_free(pool_, block, stream_), BINADE_E_INVALID);
    EXPECT_EQ(binade_free(pool_, block, other_), BINADE_E_INVALID);
}

TEST_F(BlockOfAScope, IsFreedByItsSizeOnly)
{
    binade_devptr block = pool_.last();
    size_t size = 0;
    ASSERT_EQ(binade_usable_size(pool_, block, &size), BINADE_OK);
    EXPECT_EQ(size, pool_.size_bytes());
    EXPECT_EQ(binade_free_sized(pool_, block, size / 4, stream_),
              BINADE_E_INVALID);
    EXPECT_EQ(binade_free_sized(pool_, block, size, stream_), BINADE_OK);
    pool_.Forget(block);
}

TEST_F(BlockOfAScope, IsFreedInABatch)
{
    ASSERT_EQ(pool_.Take(stream_), BINADE_OK);
    binade_devptr blocks[2] = {pool_.last(), 0};
    pool_.Forget(blocks[0]);
    blocks[1] = pool_.last();
    pool_.Forget(blocks[1]);
    size_t freed = 0;
    EXPECT_EQ(binade_free_batch(pool_, blocks, 2, stream_, &freed), BINADE_OK);
    EXPECT_EQ(freed, 2u);
    EXPECT_EQ(binade_alloc_batch(pool_, pool_.size_bytes(), stream_, 2, blocks),
              BINADE_OK);
    EXPECT_EQ(binade_free_batch(pool_, blocks, 2, stream_, &freed), BINADE_OK);
}

// All or none.
TEST_F(BlockOfAScope, IsNotServedInABatchThatIsTooLarge)
{
    binade_devptr blocks[4] = {};
    EXPECT_EQ(binade_alloc_batch(pool_, pool_.size_bytes(), stream_, 4, blocks),
              BINADE_E_NO_DEVICE_MEMORY);
    while (pool_.Take(stream_) == BINADE_OK) {
    }
    EXPECT_TRUE(pool_.IsWhole());
}

TEST_F(BlockOfAScope, IsFreedOnAStreamNotBehindAnEvent)
{
    Event event;
    MUST(cu.EventRecord(event, other_));
    EXPECT_EQ(binade_free_after(pool_, pool_.last(), event), BINADE_E_BUSY);
    EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
}

TEST_F(BlockOfAScope, IsServedWithoutWaitingAndAligned)
{
    binade_devptr block = 0;
    EXPECT_EQ(binade_try_alloc(pool_, 4096, stream_, &block), BINADE_OK);
    EXPECT_EQ(binade_free(pool_, block, stream_), BINADE_OK);
    EXPECT_EQ(binade_alloc_aligned(pool_, 4096, 65536, stream_, &block),
              BINADE_OK);
    EXPECT_EQ(block % 65536, 0u);
    EXPECT_EQ(binade_free(pool_, block, stream_), BINADE_OK);
    EXPECT_EQ(binade_alloc(pool_, 0, stream_, &block), BINADE_OK);
    EXPECT_EQ(block, 0u);
    EXPECT_EQ(binade_free(pool_, 0, stream_), BINADE_OK);
}

// Peers may use it, and the graph too.
TEST(ExportedBlockOfAScope, WaitsForBothReleases)
{
    Stream stream, other;
    TightPool pool(kFew, BINADE_POOL_EXPORTABLE);
    pool.Free(BINADE_STREAM_DONE);
    CaptureScope scope(pool, stream);
    {
        Capture capture(stream);
        while (pool.Take(stream) == BINADE_OK) {
        }
        binade_ipc_handle handle = {};
        ASSERT_EQ(binade_ipc_export(pool, pool.last(), &handle), BINADE_OK);
        EXPECT_EQ(pool.FreeLast(stream), BINADE_OK);
        EXPECT_TRUE(pool.ServesNothing(stream));
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    scope.End();
    scope.Release();
    EXPECT_TRUE(pool.ServesNothing(stream));
    EXPECT_TRUE(pool.ServesNothing(other));
    EXPECT_EQ(binade_ipc_release_exports(pool, 0), BINADE_OK);
    EXPECT_TRUE(pool.ServesInTheEnd(other));
}

TEST(ExportedBlockOfAScope, IsTheScopesAfterItsExportsAreReleased)
{
    Stream stream, other;
    TightPool pool(kFew, BINADE_POOL_EXPORTABLE);
    pool.Free(BINADE_STREAM_DONE);
    CaptureScope scope(pool, stream);
    {
        Capture capture(stream);
        while (pool.Take(stream) == BINADE_OK) {
        }
        binade_ipc_handle handle = {};
        ASSERT_EQ(binade_ipc_export(pool, pool.last(), &handle), BINADE_OK);
        EXPECT_EQ(pool.FreeLast(stream), BINADE_OK);
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    scope.End();
    EXPECT_EQ(binade_ipc_release_exports(pool, 0), BINADE_OK);
    EXPECT_TRUE(pool.ServesNothing(stream));
    EXPECT_TRUE(pool.ServesNothing(other));
    scope.Release();
    EXPECT_TRUE(pool.ServesInTheEnd(other));
}

// A pool whose captures need no call.
class AutomaticScope : public ::testing::Test
{
  protected:
    AutomaticScope() : pool_(kFew, BINADE_POOL_AUTO_SCOPE)
    {
        pool_.Free(BINADE_STREAM_DONE);
    }

    void TakeAll(binade_stream stream)
    {
        while (pool_.Take(stream) == BINADE_OK) {
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
        EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
        EXPECT_TRUE(pool_.ServesNothing(other_));
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    Hold hold(other_);
    EXPECT_EQ(binade_scope_release_all(pool_), BINADE_OK);
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
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    Capture capture(stream_);
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

TEST_F(AutomaticScope, TakesOrdinaryBlocksThatACaptureFrees)
{
    TakeAll(stream_);
    {
        Guard guard;
        Capture capture(stream_);
        pool_.Free(stream_);
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    EXPECT_EQ(binade_scope_release_all(pool_), BINADE_OK);
    EXPECT_TRUE(pool_.ServesInTheEnd(stream_));
}

TEST_F(AutomaticScope, EndsWithThePool)
{
    Guard guard;
    Capture capture(stream_);
    TakeAll(stream_);
    EXPECT_EQ(pool_.FreeLast(stream_), BINADE_OK);
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

TEST_F(AutomaticScope, YieldsToOneThatWasBegun)
{
    CaptureScope scope(pool_, stream_);
    {
        Capture capture(stream_);
        TakeAll(stream_);
        pool_.Free(stream_);
        EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    }
    EXPECT_EQ(binade_scope_release_all(pool_), BINADE_OK);
    EXPECT_TRUE(pool_.ServesNothing(stream_));
    scope.End();
    scope.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(stream_));
}

} // namespace streams_test

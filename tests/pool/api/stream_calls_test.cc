// SPDX-License-Identifier: Apache-2.0
//
// The statuses of what a pool is told about streams, contexts and captures.
// What that does to memory is in tests/streams.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

using StreamCalls = StandinTest;

class RecordUse : public StreamCalls
{
};

TEST_F(RecordUse, NeedsAPool)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_record_use(nullptr, 512, kStream));
}

TEST_F(RecordUse, OfTheNullAddressIsIgnored)
{
    Pool pool;
    EXPECT_OK(moiety_record_use(pool, 0, kStream));
}

TEST_F(RecordUse, ByNoStreamIsInvalid)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(512);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_record_use(pool, block, MOIETY_STREAM_DONE));
    pool.Free(block);
}

TEST_F(RecordUse, InsideABlockIsInvalid)
{
    Pool pool;
    for (size_t size_bytes : {size_t{4096}, size_t{5} * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_record_use(pool, block + 512, kStream));
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_record_use(pool, block + 1, kStream));
        pool.Free(block);
    }
}

TEST_F(RecordUse, OfAnothersMemoryIsForeign)
{
    Pool pool, other;
    moiety_devptr block = other.Alloc(512);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_record_use(pool, block, kStream));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_record_use(pool, 512, kStream));
    other.Free(block);
}

TEST_F(RecordUse, IsAcceptedTwiceAndByEveryStream)
{
    Pool pool;
    pool_test::Stream created;
    const moiety_stream streams[] = {
        nullptr, MOIETY_STREAM_LEGACY, MOIETY_STREAM_PER_THREAD,
        created, MOIETY_STREAM_ANY,    created};
    for (size_t size_bytes : {size_t{512}, size_t{5} * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        for (moiety_stream stream : streams)
            EXPECT_OK(moiety_record_use(pool, block, stream));
        EXPECT_GE(pool.UsableSize(block), size_bytes);
        pool.Free(block);
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(RecordUse, LeavesTheBlocksSizeAsItWas)
{
    Pool pool;
    for (size_t size_bytes : {size_t{512}, size_t{70000}, size_t{5} * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        size_t before = pool.UsableSize(block);
        ASSERT_OK(moiety_record_use(pool, block, MOIETY_STREAM_ANY));
        EXPECT_EQ(before, pool.UsableSize(block));
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_free_sized(pool, block, 2 * size_bytes, kStream));
        EXPECT_OK(moiety_free_sized(pool, block, size_bytes, kStream));
    }
}

class FreeAfter : public StreamCalls
{
  protected:
    void SetUp() override
    {
        event = pool_test::NewEvent();
    }
    void TearDown() override
    {
        pool_test::DestroyEvent(event);
    }
    moiety_event event;
};

TEST_F(FreeAfter, NeedsAPool)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_on_event(nullptr, 512, event));
}

TEST_F(FreeAfter, OfTheNullAddressDoesNothing)
{
    Pool pool;
    EXPECT_OK(moiety_free_on_event(pool, 0, event));
    EXPECT_EQ(0u, pool.Stats().allocation_freed);
}

TEST_F(FreeAfter, TakesTheBlock)
{
    Pool pool;
    for (size_t size_bytes : {size_t{512}, size_t{5} * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_OK(moiety_free_on_event(pool, block, event));
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(2u, pool.Stats().allocation_freed);
}

TEST_F(FreeAfter, InsideABlockIsInvalid)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(4096);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_on_event(pool, block + 512, event));
    pool.Free(block);
}

TEST_F(FreeAfter, OfAnothersMemoryIsForeign)
{
    Pool pool, other;
    moiety_devptr block = other.Alloc(512);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free_on_event(pool, block, event));
    other.Free(block);
}

TEST_F(FreeAfter, AnEventThatTheDriverRefusesLeavesTheBlockToTheCaller)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(4096);
    pool_test::SetFaults("cuEventQuery:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_free_on_event(pool, block, event));
    pool_test::SetFaults("");
    EXPECT_EQ(1u, pool.Stats().allocation_current);
    EXPECT_OK(moiety_free_on_event(pool, block, event));
}

class StreamRetire : public StreamCalls
{
};

TEST_F(StreamRetire, NeedsAPool)
{
    pool_test::Stream stream;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_retire_stream(nullptr, stream));
}

TEST_F(StreamRetire, OfWhatIsNoCreatedStreamIsInvalid)
{
    Pool pool;
    const moiety_stream streams[] = {nullptr, MOIETY_STREAM_LEGACY,
                                     MOIETY_STREAM_PER_THREAD,
                                     MOIETY_STREAM_ANY, MOIETY_STREAM_DONE};
    for (moiety_stream stream : streams)
        EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_retire_stream(pool, stream))
            << stream;
}

TEST_F(StreamRetire, OfAStreamThatThePoolHasNotSeenIsFine)
{
    Pool pool;
    pool_test::Stream stream;
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(StreamRetire, EndsAStreamAndASecondTimeDoesNothing)
{
    Pool pool;
    pool_test::Stream stream;
    pool.Free(pool.Alloc(4096, stream), stream);
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(StreamRetire, WithoutAnEventLosesNothing)
{
    Pool pool;
    pool_test::Stream stream;
    for (int i = 0; i < 100; i++)
        pool.Free(pool.Alloc(4096, stream), stream);
    pool_test::SetFaults("cuEventRecord:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_retire_stream(pool, stream));
    pool_test::SetFaults("");
    EXPECT_EQ(32 * kMiB, pool.TrimAll());
}

class CaptureGuard : public StreamCalls
{
};

TEST_F(CaptureGuard, CannotEndBeforeItBegan)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
}

TEST_F(CaptureGuard, IsCounted)
{
    EXPECT_OK(moiety_capture_guard_begin());
    EXPECT_OK(moiety_capture_guard_begin());
    EXPECT_OK(moiety_capture_guard_end());
    EXPECT_OK(moiety_capture_guard_end());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end());
}

TEST_F(CaptureGuard, MayBeHeldAroundEverythingElse)
{
    ASSERT_OK(moiety_capture_guard_begin());
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    ASSERT_OK(moiety_pool_create(nullptr, &pool));
    for (int i = 0; i < 1000; i++) {
        ASSERT_OK(moiety_alloc(pool, 64 << 10, kStream, &block));
        ASSERT_OK(moiety_free(pool, block, MOIETY_STREAM_ANY));
    }
    ASSERT_OK(moiety_capture_guard_end());
    EXPECT_OK(moiety_pool_destroy(pool, nullptr));
}

class AddContext : public StreamCalls
{
};

TEST_F(AddContext, NeedsAPoolAndAContext)
{
    Pool pool;
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_pool_add_context(nullptr, pool_test::PrimaryContext()));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_add_context(pool, nullptr));
}

TEST_F(AddContext, TakesEachOnceAndThePoolsOwnNever)
{
    Pool pool;
    moiety_context context = pool_test::NewContext();
    // More often than there is room for contexts.
    for (int i = 0; i < 40; i++) {
        EXPECT_OK(moiety_pool_add_context(pool, context));
        EXPECT_OK(moiety_pool_add_context(pool, pool_test::PrimaryContext()));
    }
    pool.End();
    pool_test::DestroyContext(context);
}

TEST_F(AddContext, KnowsSixteen)
{
    Pool pool;
    std::vector<moiety_context> contexts;
    for (int i = 0; i < 17; i++)
        contexts.push_back(pool_test::NewContext());
    for (size_t i = 0; i < 16; i++)
        EXPECT_OK(moiety_pool_add_context(pool, contexts[i])) << i;
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_pool_add_context(pool, contexts[16]));
    EXPECT_OK(moiety_pool_add_context(pool, contexts[3]));
    pool.End();
    for (moiety_context context : contexts)
        pool_test::DestroyContext(context);
}

class RetireEverywhere : public StreamCalls
{
};

TEST_F(RetireEverywhere, TellsAllPoolsAndArenas)
{
    Pool first, second;
    moiety_host *host = nullptr;
    ASSERT_OK(moiety_host_create(nullptr, &host));
    pool_test::Stream stream;
    void *memory = nullptr;
    for (moiety_pool *pool : {static_cast<moiety_pool *>(first),
                              static_cast<moiety_pool *>(second)}) {
        moiety_devptr block = 0;
        ASSERT_OK(moiety_alloc(pool, kMiB, stream, &block));
        EXPECT_OK(moiety_free(pool, block, stream));
    }
    ASSERT_OK(moiety_host_alloc(host, kMiB, stream, &memory));
    EXPECT_OK(moiety_host_free(host, memory, stream));
    const uint64_t streams = first.Stats().streams;
    EXPECT_OK(moiety_retire_stream(stream));
    EXPECT_EQ(streams - 1, first.Stats().streams);
    EXPECT_EQ(streams - 1, second.Stats().streams);
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_OK(moiety_pool_get_stats(moiety_host_pool(host), &stats));
    EXPECT_EQ(streams - 1, stats.streams);
    EXPECT_OK(moiety_retire_stream(stream));
    EXPECT_OK(moiety_host_destroy(host, nullptr));
}

TEST_F(RetireEverywhere, IsOfCreatedStreams)
{
    for (moiety_stream stream :
         {static_cast<moiety_stream>(nullptr), MOIETY_STREAM_LEGACY,
          MOIETY_STREAM_PER_THREAD, MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_EQ(MOIETY_E_INVALID, moiety_retire_stream(stream)) << stream;
}

TEST_F(RetireEverywhere, IsOfNobodyWhereThereAreNoPools)
{
    pool_test::Stream stream;
    EXPECT_OK(moiety_retire_stream(stream));
}

// What one of them refuses is told, and the others have forgotten the stream.
TEST_F(RetireEverywhere, TellsTheRestToo)
{
    Pool first, second, third;
    pool_test::Stream stream;
    const uint64_t streams = first.Stats().streams;
    for (moiety_pool *pool : {static_cast<moiety_pool *>(first),
                              static_cast<moiety_pool *>(third)}) {
        moiety_devptr block = 0;
        ASSERT_OK(moiety_alloc(pool, kMiB, stream, &block));
        EXPECT_EQ(MOIETY_OK, moiety_free(pool, block, stream));
    }
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(second, stream, &scope));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_retire_stream(stream));
    EXPECT_EQ(streams, first.Stats().streams);
    EXPECT_EQ(streams, third.Stats().streams);
    EXPECT_OK(moiety_scope_end(scope));
    EXPECT_OK(moiety_scope_release(scope));
    EXPECT_OK(moiety_retire_stream(stream));
}

} // namespace

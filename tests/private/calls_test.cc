// SPDX-License-Identifier: Apache-2.0
//
// The calls of private arenas, with arguments that are right and that are not,
// and what the rest of a pool says of an arena's memory.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "binade/heap.h"
#include "binade/ipc.h"
#include "binade/private.h"
#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kGiB;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;
using pool_test::Stream;

const binade_stream kStream = BINADE_STREAM_LEGACY;

class PrivateArena : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    static binade_private Make(binade_pool *pool, uint64_t limit_bytes = 0)
    {
        binade_private arena = 0;
        EXPECT_EQ(BINADE_OK, binade_private_create(pool, limit_bytes, &arena));
        EXPECT_NE(0u, arena);
        return arena;
    }

    static binade_devptr Alloc(binade_private arena, size_t size_bytes,
                               binade_stream stream = kStream)
    {
        binade_devptr block = 0;
        EXPECT_EQ(BINADE_OK,
                  binade_private_alloc(arena, size_bytes, stream, &block))
            << binade_last_error_message();
        return block;
    }

    static binade_private_info Info(binade_private arena)
    {
        binade_private_info info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(BINADE_OK, binade_private_stats(arena, &info));
        return info;
    }

    // What every function that takes an arena says of one that is none.
    static void ExpectNone(binade_private arena)
    {
        binade_devptr block = 7;
        uint64_t bytes = 7;
        binade_scope scope = 7;
        binade_private_info info = {};
        info.struct_size = sizeof info;
        Stream stream;
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_private_alloc(arena, 512, kStream, &block));
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_private_claim(arena, 512, 512, kStream));
        EXPECT_EQ(BINADE_E_INVALID, binade_private_trim(arena, &bytes));
        EXPECT_EQ(BINADE_E_INVALID, binade_private_stats(arena, &info));
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_private_scope_begin(arena, stream, &scope));
        EXPECT_EQ(BINADE_E_INVALID, binade_private_release(arena));
        EXPECT_EQ(7u, block);
        EXPECT_EQ(7u, bytes);
        EXPECT_EQ(7u, scope);
    }
};

TEST_F(PrivateArena, IsNotMadeOfWrongArguments)
{
    Pool pool;
    binade_private arena = 7;
    EXPECT_EQ(BINADE_E_INVALID, binade_private_create(nullptr, 0, &arena));
    EXPECT_EQ(BINADE_E_INVALID, binade_private_create(pool, 0, nullptr));
    EXPECT_EQ(BINADE_E_INVALID, binade_private_create(pool, 1, &arena));
    EXPECT_EQ(BINADE_E_INVALID,
              binade_private_create(pool, 2 * kMiB - 1, &arena));
    EXPECT_EQ(7u, arena);
}

TEST_F(PrivateArena, ThatIsNoneIsRefused)
{
    ExpectNone(0);
    ExpectNone(~binade_private{0});
    binade_private late = 0;
    {
        Pool pool;
        binade_private arena = Make(pool);
        EXPECT_EQ(BINADE_OK, binade_private_release(arena));
        ExpectNone(arena);
        // Its place is another's now.
        late = Make(pool);
        ExpectNone(arena);
        Stream stream;
        binade_scope scope = 0;
        ASSERT_EQ(BINADE_OK, binade_scope_begin(pool, stream, &scope));
        ExpectNone(scope);
        EXPECT_EQ(BINADE_E_INVALID, binade_scope_end(late));
        EXPECT_EQ(BINADE_E_INVALID, binade_scope_release(late));
        EXPECT_EQ(BINADE_OK, binade_scope_end(scope));
        EXPECT_EQ(BINADE_OK, binade_scope_release(scope));
        EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
    }
    ExpectNone(late);
}

TEST_F(PrivateArena, RefusesWrongArguments)
{
    Pool pool;
    Stream stream;
    binade_private arena = Make(pool, 4 * kMiB);
    binade_devptr block = Alloc(arena, kMiB);
    binade_scope scope = 7;
    binade_private_info info = {};
    EXPECT_EQ(BINADE_E_INVALID,
              binade_private_alloc(arena, 512, kStream, nullptr));
    EXPECT_EQ(BINADE_E_INVALID, binade_private_stats(arena, nullptr));
    EXPECT_EQ(BINADE_E_INVALID, binade_private_stats(arena, &info));
    for (binade_stream wrong : {binade_stream(nullptr), BINADE_STREAM_LEGACY,
                                BINADE_STREAM_ANY, BINADE_STREAM_DONE})
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_private_scope_begin(arena, wrong, &scope));
    EXPECT_EQ(BINADE_E_INVALID,
              binade_private_scope_begin(arena, stream, nullptr));
    EXPECT_EQ(7u, scope);
    EXPECT_EQ(BINADE_E_INVALID, binade_private_claim(arena, block, 0, kStream));
    EXPECT_EQ(BINADE_E_INVALID,
              binade_private_claim(arena, block + 1, 512, kStream));
    EXPECT_EQ(BINADE_E_INVALID,
              binade_private_claim(arena, block, ~size_t{0}, kStream));
    EXPECT_EQ(BINADE_E_FOREIGN,
              binade_private_claim(arena, block, 1024 * kGiB, kStream));
    EXPECT_EQ(BINADE_E_FOREIGN, binade_private_claim(arena, 512, 512, kStream));
    EXPECT_EQ(BINADE_E_FOREIGN,
              binade_private_claim(arena, block + 4 * kMiB, 512, kStream));
    EXPECT_EQ(BINADE_E_BUSY,
              binade_private_claim(arena, block + 512, 512, kStream));
    EXPECT_EQ(1u, Info(arena).live_count);
    pool.Free(block);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

TEST_F(PrivateArena, GivesNothingForNothing)
{
    Pool pool;
    binade_private arena = Make(pool);
    EXPECT_EQ(0u, Alloc(arena, 0));
    EXPECT_EQ(0u, Info(arena).live_count);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

TEST_F(PrivateArena, KeepsItsLimit)
{
    binade_pool_options options = Defaults();
    options.wait_ms = 0;
    Pool pool(options);
    // The rest of a page is nobody's.
    binade_private arena = Make(pool, 4 * kMiB + 4096);
    binade_devptr block = 7;
    EXPECT_EQ(BINADE_E_TOO_LARGE,
              binade_private_alloc(arena, 4 * kMiB + 1, kStream, &block));
    EXPECT_EQ(BINADE_E_TOO_LARGE,
              binade_private_alloc(arena, 1024 * kGiB, kStream, &block));
    EXPECT_EQ(BINADE_E_TOO_LARGE,
              binade_private_alloc(arena, ~size_t{0}, kStream, &block));
    EXPECT_EQ(7u, block);
    binade_devptr large = Alloc(arena, 3 * kMiB);
    EXPECT_EQ(BINADE_E_BUDGET,
              binade_private_alloc(arena, 2 * kMiB, kStream, &block));
    binade_devptr small = Alloc(arena, kMiB);
    EXPECT_EQ(BINADE_E_BUDGET, binade_private_alloc(arena, 1, kStream, &block));
    EXPECT_EQ(7u, block);
    binade_private_info info = Info(arena);
    EXPECT_EQ(4 * kMiB, info.limit_bytes);
    EXPECT_EQ(4 * kMiB, info.reserved_bytes);
    EXPECT_EQ(4 * kMiB, info.live_bytes);
    EXPECT_EQ(2u, info.live_count);
    pool.Free(large);
    info = Info(arena);
    EXPECT_EQ(kMiB, info.live_bytes);
    EXPECT_EQ(4 * kMiB, info.live_peak_bytes);
    EXPECT_EQ(3 * kMiB, info.waiting_bytes);
    pool.Free(small);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

// What was freed on another stream comes back while the call waits.
TEST_F(PrivateArena, WaitsAtItsLimit)
{
    binade_pool_options options = Defaults();
    options.wait_ms = 10000;
    Pool pool(options);
    Stream stream;
    binade_private arena = Make(pool, 2 * kMiB);
    pool.Free(Alloc(arena, 2 * kMiB, stream), stream);
    binade_devptr block = Alloc(arena, 2 * kMiB);
    pool.Free(block);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
}

TEST_F(PrivateArena, HasNoMoreThanThePool)
{
    binade_pool_options options = Defaults();
    options.limit_bytes = 8 * kMiB;
    options.first_segment_bytes = 8 * kMiB;
    options.wait_ms = 0;
    Pool pool(options);
    binade_private arena = Make(pool);
    binade_devptr block = 7;
    EXPECT_EQ(BINADE_E_TOO_LARGE,
              binade_private_alloc(arena, 8 * kMiB + 1, kStream, &block));
    binade_devptr large = Alloc(arena, 8 * kMiB);
    EXPECT_EQ(BINADE_E_NO_DEVICE_MEMORY,
              binade_private_alloc(arena, 512, kStream, &block));
    EXPECT_EQ(8 * kMiB, Info(arena).reserved_bytes);
    pool.Free(large);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

TEST_F(PrivateArena, BlocksAreFreedOnce)
{
    Pool pool, other;
    binade_private arena = Make(pool);
    for (size_t size_bytes : {size_t{512}, 3 * kKiB, kMiB, 5 * kMiB}) {
        binade_devptr block = Alloc(arena, size_bytes);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block + 512, kStream));
        EXPECT_EQ(BINADE_E_FOREIGN, binade_free(other, block, kStream));
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_free_sized(pool, block, 64 * kMiB, kStream));
        EXPECT_EQ(1u, Info(arena).live_count);
        pool.Free(block);
        for (binade_stream stream :
             {kStream, BINADE_STREAM_ANY, BINADE_STREAM_DONE})
            EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block, stream));
    }
    EXPECT_EQ(0u, Info(arena).live_count);
    EXPECT_EQ(0u, Info(arena).live_bytes);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

TEST_F(PrivateArena, BlocksAreFreedOnTheirOwnStream)
{
    binade_pool_options options = Defaults();
    options.flags = BINADE_POOL_NOTE_STREAMS;
    options.wait_ms = 0;
    Pool pool(options);
    Stream stream;
    binade_private arena = Make(pool, 2 * kMiB);
    binade_devptr block = Alloc(arena, 2 * kMiB, stream);
    binade_devptr other = 0;
    stream.Hold();
    EXPECT_EQ(BINADE_OK, binade_free_own(pool, block));
    EXPECT_EQ(BINADE_E_BUDGET,
              binade_private_alloc(arena, 2 * kMiB, kStream, &other));
    EXPECT_EQ(block, Alloc(arena, 2 * kMiB, stream));
    EXPECT_EQ(BINADE_OK, binade_free_own(pool, block));
    ASSERT_EQ(BINADE_OK, binade_private_claim(arena, block, 2 * kMiB, stream));
    EXPECT_EQ(BINADE_OK, binade_free_own(pool, block));
    EXPECT_EQ(block, Alloc(arena, 2 * kMiB, stream));
    pool.Free(block, stream);
    stream.Release();
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
}

TEST_F(PrivateArena, BlocksAreNotExported)
{
    binade_pool_options options = Defaults();
    options.flags = BINADE_POOL_EXPORTABLE;
    Pool pool(options);
    binade_private arena = Make(pool);
    binade_devptr block = Alloc(arena, kMiB);
    binade_ipc_handle handle = {};
    EXPECT_EQ(BINADE_E_UNSUPPORTED, binade_ipc_export(pool, block, &handle));
    pool.Free(block);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

TEST_F(PrivateArena, IsNotReleasedUnderAnOpenScope)
{
    Pool pool;
    Stream stream;
    binade_private arena = Make(pool);
    binade_scope scope = 0, second = 0;
    ASSERT_EQ(BINADE_OK, binade_private_scope_begin(arena, stream, &scope));
    EXPECT_EQ(BINADE_E_INVALID,
              binade_private_scope_begin(arena, stream, &second));
    EXPECT_EQ(1u, Info(arena).graph_count);
    EXPECT_EQ(BINADE_E_BUSY, binade_private_release(arena));
    EXPECT_EQ(BINADE_E_BUSY, binade_pool_destroy(pool, nullptr));
    pool.Free(Alloc(arena, kMiB));
    EXPECT_EQ(BINADE_OK, binade_scope_end(scope));
    EXPECT_EQ(1u, Info(arena).graph_count);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
    EXPECT_EQ(BINADE_E_INVALID, binade_scope_release(scope));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
}

TEST_F(PrivateArena, EndsWithItsPool)
{
    Pool pool;
    binade_private arena = Make(pool);
    Alloc(arena, kMiB);
    pool.Free(Alloc(arena, 3 * kMiB));
    binade_leaks leaks = pool.End();
    EXPECT_EQ(1u, leaks.block_count);
    EXPECT_EQ(kMiB, leaks.bytes);
    ExpectNone(arena);
}

TEST_F(PrivateArena, OfALostContextOnlyGivesUp)
{
    binade_context context = pool_test::NewContext();
    binade_pool_options options = Defaults();
    options.context = context;
    Pool pool(options);
    binade_private arena = Make(pool);
    binade_devptr block = 0;
    ASSERT_EQ(BINADE_OK,
              binade_private_alloc(arena, kMiB, BINADE_STREAM_ANY, &block));
    binade_devptr other = 7;
    ASSERT_EQ(BINADE_OK, binade_pool_context_lost(pool));
    EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
              binade_private_alloc(arena, 512, BINADE_STREAM_ANY, &other));
    EXPECT_EQ(BINADE_E_CONTEXT_DESTROYED,
              binade_private_claim(arena, block, 512, BINADE_STREAM_ANY));
    EXPECT_EQ(7u, other);
    EXPECT_EQ(BINADE_OK, binade_free(pool, block, BINADE_STREAM_ANY));
    EXPECT_EQ(BINADE_OK, binade_private_trim(arena, nullptr));
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
    pool.End();
    pool_test::DestroyContext(context);
}

TEST_F(PrivateArena, IsNotForTheChildOfAFork)
{
    Pool pool;
    binade_private arena = Make(pool);
    pid_t child = fork();
    if (!child) {
        binade_devptr block = 0;
        binade_private another = 0;
        binade_scope scope = 0;
        binade_private_info info = {};
        info.struct_size = sizeof info;
        binade_stream created = reinterpret_cast<binade_stream>(&pool);
        bool is_refused =
            binade_private_alloc(arena, 512, kStream, &block) ==
                BINADE_E_FORKED &&
            binade_private_claim(arena, 512, 512, kStream) == BINADE_E_FORKED &&
            binade_private_trim(arena, nullptr) == BINADE_E_FORKED &&
            binade_private_stats(arena, &info) == BINADE_E_FORKED &&
            binade_private_scope_begin(arena, created, &scope) ==
                BINADE_E_FORKED &&
            binade_private_release(arena) == BINADE_E_FORKED &&
            binade_private_create(pool, 0, &another) == BINADE_E_FORKED;
        _exit(is_refused ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

// As what capture scopes keep.
TEST_F(PrivateArena, PagesCountAsBlocksOfThePoolInUse)
{
    Pool pool;
    binade_private arena = Make(pool);
    binade_devptr block = Alloc(arena, 5 * kMiB);
    EXPECT_EQ(3u, pool.Stats().allocation_current);
    EXPECT_EQ(6 * kMiB, pool.Stats().allocated_bytes_current);
    pool.Free(block, BINADE_STREAM_DONE);
    EXPECT_EQ(3u, pool.Stats().allocation_current);
    uint64_t bytes = 0;
    EXPECT_EQ(BINADE_OK, binade_private_trim(arena, &bytes));
    EXPECT_EQ(6 * kMiB, bytes);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    pool.Free(Alloc(arena, 5 * kMiB));
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

TEST_F(PrivateArena, IsWhatASnapshotOfTheHeapSaysIsKept)
{
    Pool pool;
    binade_private arena = Make(pool);
    binade_devptr block = Alloc(arena, kMiB);
    pool.Free(Alloc(arena, 512));
    binade_heap_snapshot *snapshot = nullptr;
    ASSERT_EQ(BINADE_OK, binade_heap_snapshot_create(pool, &snapshot));
    binade_heap_summary summary = {};
    summary.struct_size = sizeof summary;
    ASSERT_EQ(BINADE_OK, binade_heap_snapshot_summary(snapshot, &summary));
    EXPECT_EQ(kMiB, summary.bytes[BINADE_HEAP_USED]);
    EXPECT_EQ(kMiB, summary.bytes[BINADE_HEAP_KEPT]);
    EXPECT_EQ(0u, summary.bytes[BINADE_HEAP_LOST]);
    binade_heap_snapshot_destroy(snapshot);
    pool.Free(block);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena));
}

TEST_F(PrivateArena, ThereMayBeManyOfAPool)
{
    Pool pool;
    std::vector<binade_private> arenas;
    for (int i = 0; i < 100; i++) {
        arenas.push_back(Make(pool));
        Alloc(arenas.back(), kKiB);
    }
    EXPECT_EQ(100u, pool.Stats().allocation_current);
    for (binade_private arena : arenas)
        EXPECT_EQ(BINADE_OK, binade_private_release(arena));
    EXPECT_EQ(100u, pool.End().block_count);
}

// In pools that look at each block an arena is an account.
class PrivateAccount : public PrivateArena,
                       public ::testing::WithParamInterface<uint32_t>
{
  protected:
    PrivateAccount()
    {
        binade_pool_options options = Defaults();
        options.flags = GetParam();
        pool_.reset(new Pool(options));
        arena_ = Make(*pool_, 4 * kMiB);
    }

    std::unique_ptr<Pool> pool_;
    binade_private arena_;
};
INSTANTIATE_TEST_SUITE_P(Pools, PrivateAccount,
                         ::testing::Values(BINADE_POOL_CHECKED |
                                               BINADE_POOL_CHECKED_QUIET,
                                           BINADE_POOL_PASS_THROUGH,
                                           BINADE_POOL_CHECKED |
                                               BINADE_POOL_CHECKED_QUIET |
                                               BINADE_POOL_PASS_THROUGH));

TEST_P(PrivateAccount, CountsAndKeepsItsLimit)
{
    binade_devptr refused = 7;
    binade_devptr large = Alloc(arena_, 3 * kMiB);
    EXPECT_EQ(BINADE_E_BUDGET,
              binade_private_alloc(arena_, kMiB + 1, kStream, &refused));
    EXPECT_EQ(BINADE_E_TOO_LARGE,
              binade_private_alloc(arena_, 4 * kMiB + 1, kStream, &refused));
    EXPECT_EQ(7u, refused);
    binade_devptr small = Alloc(arena_, 100);
    binade_private_info info = Info(arena_);
    EXPECT_EQ(2u, info.live_count);
    EXPECT_EQ(3 * kMiB + 100, info.live_bytes);
    EXPECT_EQ(BINADE_E_UNSUPPORTED,
              binade_private_claim(arena_, small, 100, kStream));
    uint64_t bytes = 7;
    EXPECT_EQ(BINADE_OK, binade_private_trim(arena_, &bytes));
    EXPECT_EQ(0u, bytes);
    pool_->Free(large);
    EXPECT_EQ(BINADE_E_INVALID, binade_free(*pool_, large, kStream));
    EXPECT_EQ(100u, Info(arena_).live_bytes);
    EXPECT_EQ(3 * kMiB + 100, Info(arena_).live_peak_bytes);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena_));
    // An ordinary block by now.
    pool_->Free(small);
    EXPECT_EQ(0u, pool_->Stats().allocation_current);
    EXPECT_EQ(0u, pool_->Stats().allocated_bytes_current);
}

TEST_P(PrivateAccount, CountsWhatCapturesTake)
{
    Stream stream;
    auto *begin = pool_test::Get<CUresult(CUstream, CUstreamCaptureMode)>(
        "cuStreamBeginCapture_v2");
    auto *end =
        pool_test::Get<CUresult(CUstream, CUgraph *)>("cuStreamEndCapture");
    CUgraph graph = nullptr;
    binade_scope scope = 0;
    binade_devptr block = 0;
    binade_devptr refused = 7;
    ASSERT_EQ(BINADE_OK, binade_private_scope_begin(arena_, stream, &scope));
    ASSERT_EQ(CUDA_SUCCESS, begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(BINADE_OK, binade_alloc(*pool_, 3 * kMiB, stream, &block));
    EXPECT_EQ(BINADE_E_BUDGET,
              binade_alloc(*pool_, 2 * kMiB, stream, &refused));
    binade_devptr other = Alloc(arena_, kMiB, stream);
    EXPECT_EQ(2u, Info(arena_).live_count);
    EXPECT_EQ(4 * kMiB, Info(arena_).live_bytes);
    pool_->Free(block, stream);
    EXPECT_EQ(CUDA_SUCCESS, end(stream, &graph));
    EXPECT_EQ(BINADE_OK, binade_scope_end(scope));
    pool_->Free(other, stream);
    EXPECT_EQ(BINADE_OK, binade_scope_release(scope));
    EXPECT_EQ(0u, Info(arena_).live_count);
    EXPECT_EQ(0u, Info(arena_).live_bytes);
    EXPECT_EQ(0u, Info(arena_).graph_count);
    EXPECT_EQ(BINADE_OK, binade_private_release(arena_));
    EXPECT_EQ(CUDA_SUCCESS,
              pool_test::Get<CUresult(CUgraph)>("cuGraphDestroy")(graph));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(*pool_, stream));
}

} // namespace

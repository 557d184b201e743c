// SPDX-License-Identifier: Apache-2.0
//
// The calls of private arenas, with arguments that are right and that are not,
// and what the rest of a pool says of an arena's memory.
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "moiety/heap.h"
#include "moiety/ipc.h"
#include "moiety/private.h"
#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class PrivateArena : public StandinTest
{
  protected:
    static moiety_private Make(moiety_pool *pool, uint64_t limit_bytes = 0)
    {
        moiety_private arena = 0;
        EXPECT_EQ(MOIETY_OK, create_arena(pool, limit_bytes, &arena));
        EXPECT_NE(nullptr, arena);
        return arena;
    }

    static moiety_devptr Alloc(moiety_private arena, size_t size_bytes,
                               moiety_stream stream = kStream)
    {
        moiety_devptr block = 0;
        EXPECT_OK(alloc_of_arena(arena, size_bytes, stream, &block));
        return block;
    }

    static moiety_private_stats Info(moiety_private arena)
    {
        moiety_private_stats info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(moiety_private_get_stats(arena, &info));
        return info;
    }

    // What every function that takes an arena says of one that is none.
    static void ExpectNone(moiety_private arena, moiety_status status)
    {
        moiety_devptr block = 7;
        uint64_t bytes = 7;
        auto scope = reinterpret_cast<moiety_scope>(7);
        moiety_private_stats info = {};
        info.struct_size = sizeof info;
        Stream stream;
        EXPECT_EQ(status, alloc_of_arena(arena, 512, kStream, &block));
        EXPECT_EQ(status, moiety_private_claim(arena, 512, 512, kStream));
        EXPECT_EQ(status, moiety_private_trim(arena, &bytes));
        EXPECT_EQ(status, moiety_private_get_stats(arena, &info));
        EXPECT_EQ(status, moiety_private_scope_begin(arena, stream, &scope));
        EXPECT_EQ(status, moiety_private_destroy(arena));
        EXPECT_EQ(7u, block);
        EXPECT_EQ(7u, bytes);
        EXPECT_EQ(reinterpret_cast<moiety_scope>(7), scope);
    }
};

TEST_F(PrivateArena, IsNotMadeOfWrongArguments)
{
    Pool pool;
    auto arena = reinterpret_cast<moiety_private>(7);
    EXPECT_EQ(MOIETY_E_INVALID, create_arena(nullptr, 0, &arena));
    EXPECT_EQ(MOIETY_E_INVALID, create_arena(pool, 0, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, create_arena(pool, 1, &arena));
    EXPECT_EQ(MOIETY_E_INVALID, create_arena(pool, 2 * kMiB - 1, &arena));
    EXPECT_EQ(reinterpret_cast<moiety_private>(7), arena);
}

TEST_F(PrivateArena, ThatIsNoneIsRefused)
{
    ExpectNone(nullptr, MOIETY_E_INVALID);
    ExpectNone(reinterpret_cast<moiety_private>(UINTPTR_MAX), MOIETY_E_INVALID);
    moiety_private late = nullptr;
    {
        Pool pool;
        moiety_private arena = Make(pool);
        EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena));
        ExpectNone(arena, MOIETY_E_DESTROYED);
        // Its place is another's now.
        late = Make(pool);
        ExpectNone(arena, MOIETY_E_DESTROYED);
        Stream stream;
        moiety_scope scope = nullptr;
        ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
        // Their numbers are of one row.
        ExpectNone(reinterpret_cast<moiety_private>(scope), MOIETY_E_DESTROYED);
        auto wrong = reinterpret_cast<moiety_scope>(late);
        EXPECT_EQ(MOIETY_E_DESTROYED, moiety_scope_end(wrong));
        EXPECT_EQ(MOIETY_E_DESTROYED, moiety_scope_release(wrong));
        EXPECT_OK(moiety_scope_end(scope));
        EXPECT_OK(moiety_scope_release(scope));
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    }
    ExpectNone(late, MOIETY_E_DESTROYED);
}

TEST_F(PrivateArena, RefusesWrongArguments)
{
    Pool pool;
    Stream stream;
    moiety_private arena = Make(pool, 4 * kMiB);
    moiety_devptr block = Alloc(arena, kMiB);
    auto scope = reinterpret_cast<moiety_scope>(7);
    moiety_private_stats info = {};
    EXPECT_EQ(MOIETY_E_INVALID, alloc_of_arena(arena, 512, kStream, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_get_stats(arena, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_get_stats(arena, &info));
    for (moiety_stream wrong : {moiety_stream(nullptr), MOIETY_STREAM_LEGACY,
                                MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_private_scope_begin(arena, wrong, &scope));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_private_scope_begin(arena, stream, nullptr));
    EXPECT_EQ(reinterpret_cast<moiety_scope>(7), scope);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_claim(arena, block, 0, kStream));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_private_claim(arena, block + 1, 512, kStream));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_private_claim(arena, block, ~size_t{0}, kStream));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_private_claim(arena, block, 1024 * kGiB, kStream));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_private_claim(arena, 512, 512, kStream));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_private_claim(arena, block + 4 * kMiB, 512, kStream));
    EXPECT_EQ(MOIETY_E_IN_USE,
              moiety_private_claim(arena, block + 512, 512, kStream));
    EXPECT_EQ(1u, Info(arena).live_count);
    pool.Free(block);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateArena, GivesNothingForNothing)
{
    Pool pool;
    moiety_private arena = Make(pool);
    EXPECT_EQ(0u, Alloc(arena, 0));
    EXPECT_EQ(0u, Info(arena).live_count);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateArena, KeepsItsLimit)
{
    moiety_pool_options options = Defaults();
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    // The rest of a page is nobody's.
    moiety_private arena = Make(pool, 4 * kMiB + 4096);
    moiety_devptr block = 7;
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              alloc_of_arena(arena, 4 * kMiB + 1, kStream, &block));
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              alloc_of_arena(arena, 1024 * kGiB, kStream, &block));
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              alloc_of_arena(arena, ~size_t{0}, kStream, &block));
    EXPECT_EQ(7u, block);
    moiety_devptr large = Alloc(arena, 3 * kMiB);
    EXPECT_EQ(MOIETY_E_BUDGET,
              alloc_of_arena(arena, 2 * kMiB, kStream, &block));
    moiety_devptr small = Alloc(arena, kMiB);
    EXPECT_EQ(MOIETY_E_BUDGET, alloc_of_arena(arena, 1, kStream, &block));
    EXPECT_EQ(7u, block);
    moiety_private_stats info = Info(arena);
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
    EXPECT_OK(moiety_private_destroy(arena));
}

// What was freed on another stream comes back while the call waits.
TEST_F(PrivateArena, WaitsAtItsLimit)
{
    moiety_pool_options options = Defaults();
    options.wait_ms = 10000;
    Pool pool(options);
    Stream stream;
    moiety_private arena = Make(pool, 2 * kMiB);
    pool.Free(Alloc(arena, 2 * kMiB, stream), stream);
    moiety_devptr block = Alloc(arena, 2 * kMiB);
    pool.Free(block);
    EXPECT_OK(moiety_private_destroy(arena));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(PrivateArena, HasNoMoreThanThePool)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 8 * kMiB;
    options.first_segment_bytes = 8 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_private arena = Make(pool);
    moiety_devptr block = 7;
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              alloc_of_arena(arena, 8 * kMiB + 1, kStream, &block));
    moiety_devptr large = Alloc(arena, 8 * kMiB);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              alloc_of_arena(arena, 512, kStream, &block));
    EXPECT_EQ(8 * kMiB, Info(arena).reserved_bytes);
    pool.Free(large);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateArena, BlocksAreFreedOnce)
{
    Pool pool, other;
    moiety_private arena = Make(pool);
    for (size_t size_bytes : {size_t{512}, 3 * kKiB, kMiB, 5 * kMiB}) {
        moiety_devptr block = Alloc(arena, size_bytes);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 512, kStream));
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(other, block, kStream));
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_free_sized(pool, block, 64 * kMiB, kStream));
        EXPECT_EQ(1u, Info(arena).live_count);
        pool.Free(block);
        for (moiety_stream stream :
             {kStream, MOIETY_STREAM_ANY, MOIETY_STREAM_DONE})
            EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, stream));
    }
    EXPECT_EQ(0u, Info(arena).live_count);
    EXPECT_EQ(0u, Info(arena).live_bytes);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateArena, BlocksAreFreedOnTheirOwnStream)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_NOTE_STREAMS;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    Stream stream;
    moiety_private arena = Make(pool, 2 * kMiB);
    moiety_devptr block = Alloc(arena, 2 * kMiB, stream);
    moiety_devptr other = 0;
    stream.Hold();
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    EXPECT_EQ(MOIETY_E_BUDGET,
              alloc_of_arena(arena, 2 * kMiB, kStream, &other));
    EXPECT_EQ(block, Alloc(arena, 2 * kMiB, stream));
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    ASSERT_OK(moiety_private_claim(arena, block, 2 * kMiB, stream));
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    EXPECT_EQ(block, Alloc(arena, 2 * kMiB, stream));
    pool.Free(block, stream);
    stream.Release();
    EXPECT_OK(moiety_private_destroy(arena));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(PrivateArena, BlocksAreNotExported)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    moiety_private arena = Make(pool);
    moiety_devptr block = Alloc(arena, kMiB);
    moiety_ipc_handle handle = {};
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_ipc_export(pool, block, &handle));
    pool.Free(block);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateArena, IsNotReleasedUnderAnOpenScope)
{
    Pool pool;
    Stream stream;
    moiety_private arena = Make(pool);
    moiety_scope scope = 0, second = 0;
    ASSERT_EQ(MOIETY_OK, moiety_private_scope_begin(arena, stream, &scope));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_private_scope_begin(arena, stream, &second));
    EXPECT_EQ(1u, Info(arena).graph_count);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_private_destroy(arena));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_pool_destroy(pool, nullptr));
    pool.Free(Alloc(arena, kMiB));
    EXPECT_EQ(MOIETY_OK, moiety_scope_end(scope));
    EXPECT_EQ(1u, Info(arena).graph_count);
    EXPECT_OK(moiety_private_destroy(arena));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_scope_release(scope));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(PrivateArena, EndsWithItsPool)
{
    Pool pool;
    moiety_private arena = Make(pool);
    Alloc(arena, kMiB);
    pool.Free(Alloc(arena, 3 * kMiB));
    moiety_leaks leaks = pool.End();
    EXPECT_EQ(1u, leaks.block_count);
    EXPECT_EQ(kMiB, leaks.bytes);
    ExpectNone(arena, MOIETY_E_DESTROYED);
}

TEST_F(PrivateArena, OfALostContextOnlyGivesUp)
{
    moiety_context context = pool_test::NewContext();
    moiety_pool_options options = Defaults();
    options.context = context;
    Pool pool(options);
    moiety_private arena = Make(pool);
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK,
              alloc_of_arena(arena, kMiB, MOIETY_STREAM_ANY, &block));
    moiety_devptr other = 7;
    ASSERT_OK(moiety_pool_context_lost(pool));
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
              alloc_of_arena(arena, 512, MOIETY_STREAM_ANY, &other));
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
              moiety_private_claim(arena, block, 512, MOIETY_STREAM_ANY));
    EXPECT_EQ(7u, other);
    EXPECT_OK(moiety_free(pool, block, MOIETY_STREAM_ANY));
    EXPECT_OK(moiety_private_trim(arena, nullptr));
    EXPECT_OK(moiety_private_destroy(arena));
    pool.End();
    pool_test::DestroyContext(context);
}

TEST_F(PrivateArena, IsNotForTheChildOfAFork)
{
    Pool pool;
    moiety_private arena = Make(pool);
    pid_t child = fork();
    if (!child) {
        moiety_devptr block = 0;
        moiety_private another = 0;
        moiety_scope scope = nullptr;
        moiety_private_stats info = {};
        info.struct_size = sizeof info;
        moiety_stream created = reinterpret_cast<moiety_stream>(&pool);
        bool is_refused =
            alloc_of_arena(arena, 512, kStream, &block) == MOIETY_E_FORKED &&
            moiety_private_claim(arena, 512, 512, kStream) == MOIETY_E_FORKED &&
            moiety_private_trim(arena, nullptr) == MOIETY_E_FORKED &&
            moiety_private_get_stats(arena, &info) == MOIETY_E_FORKED &&
            moiety_private_scope_begin(arena, created, &scope) ==
                MOIETY_E_FORKED &&
            moiety_private_destroy(arena) == MOIETY_E_FORKED &&
            create_arena(pool, 0, &another) == MOIETY_E_FORKED;
        _exit(is_refused ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_OK(moiety_private_destroy(arena));
}

// As what capture scopes keep.
TEST_F(PrivateArena, PagesCountAsBlocksOfThePoolInUse)
{
    Pool pool;
    moiety_private arena = Make(pool);
    moiety_devptr block = Alloc(arena, 5 * kMiB);
    EXPECT_EQ(3u, pool.Stats().allocation_current);
    EXPECT_EQ(6 * kMiB, pool.Stats().allocated_bytes_current);
    pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(3u, pool.Stats().allocation_current);
    uint64_t bytes = 0;
    EXPECT_OK(moiety_private_trim(arena, &bytes));
    EXPECT_EQ(6 * kMiB, bytes);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    pool.Free(Alloc(arena, 5 * kMiB));
    EXPECT_OK(moiety_private_destroy(arena));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

TEST_F(PrivateArena, IsWhatASnapshotOfTheHeapSaysIsKept)
{
    Pool pool;
    moiety_private arena = Make(pool);
    moiety_devptr block = Alloc(arena, kMiB);
    pool.Free(Alloc(arena, 512));
    moiety_heap_snapshot *snapshot = nullptr;
    ASSERT_OK(moiety_heap_snapshot_create(pool, &snapshot));
    moiety_heap_summary summary = {};
    summary.struct_size = sizeof summary;
    ASSERT_OK(moiety_heap_snapshot_summary(snapshot, &summary));
    EXPECT_EQ(kMiB, summary.bytes[MOIETY_HEAP_USED]);
    EXPECT_EQ(kMiB, summary.bytes[MOIETY_HEAP_KEPT]);
    EXPECT_EQ(0u, summary.bytes[MOIETY_HEAP_LOST]);
    moiety_heap_snapshot_destroy(snapshot);
    pool.Free(block);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(PrivateArena, ThereMayBeManyOfAPool)
{
    Pool pool;
    std::vector<moiety_private> arenas;
    for (int i = 0; i < 100; i++) {
        arenas.push_back(Make(pool));
        Alloc(arenas.back(), kKiB);
    }
    EXPECT_EQ(100u, pool.Stats().allocation_current);
    for (moiety_private arena : arenas)
        EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena));
    EXPECT_EQ(100u, pool.End().block_count);
}

// In pools that look at each block an arena is an account.
class PrivateAccount : public PrivateArena,
                       public ::testing::WithParamInterface<uint32_t>
{
  protected:
    PrivateAccount()
    {
        moiety_pool_options options = Defaults();
        set_kind(&options, GetParam());
        pool_.reset(new Pool(options));
        arena_ = Make(*pool_, 4 * kMiB);
    }

    std::unique_ptr<Pool> pool_;
    moiety_private arena_;
};
INSTANTIATE_TEST_SUITE_P(Pools, PrivateAccount,
                         ::testing::Values(KIND_CHECKED |
                                               MOIETY_POOL_CHECKED_QUIET,
                                           KIND_PASS_THROUGH,
                                           KIND_CHECKED |
                                               MOIETY_POOL_CHECKED_QUIET |
                                               KIND_PASS_THROUGH));

TEST_P(PrivateAccount, CountsAndKeepsItsLimit)
{
    moiety_devptr refused = 7;
    moiety_devptr large = Alloc(arena_, 3 * kMiB);
    EXPECT_EQ(MOIETY_E_BUDGET,
              alloc_of_arena(arena_, kMiB + 1, kStream, &refused));
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              alloc_of_arena(arena_, 4 * kMiB + 1, kStream, &refused));
    EXPECT_EQ(7u, refused);
    moiety_devptr small = Alloc(arena_, 100);
    moiety_private_stats info = Info(arena_);
    EXPECT_EQ(2u, info.live_count);
    EXPECT_EQ(3 * kMiB + 100, info.live_bytes);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_private_claim(arena_, small, 100, kStream));
    uint64_t bytes = 7;
    EXPECT_OK(moiety_private_trim(arena_, &bytes));
    EXPECT_EQ(0u, bytes);
    pool_->Free(large);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(*pool_, large, kStream));
    EXPECT_EQ(100u, Info(arena_).live_bytes);
    EXPECT_EQ(3 * kMiB + 100, Info(arena_).live_peak_bytes);
    EXPECT_OK(moiety_private_destroy(arena_));
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
    moiety_scope scope = nullptr;
    moiety_devptr block = 0;
    moiety_devptr refused = 7;
    ASSERT_OK(moiety_private_scope_begin(arena_, stream, &scope));
    ASSERT_EQ(CUDA_SUCCESS, begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(moiety_alloc(*pool_, 3 * kMiB, stream, &block));
    EXPECT_EQ(MOIETY_E_BUDGET,
              moiety_alloc(*pool_, 2 * kMiB, stream, &refused));
    moiety_devptr other = Alloc(arena_, kMiB, stream);
    EXPECT_EQ(2u, Info(arena_).live_count);
    EXPECT_EQ(4 * kMiB, Info(arena_).live_bytes);
    pool_->Free(block, stream);
    EXPECT_EQ(CUDA_SUCCESS, end(stream, &graph));
    EXPECT_OK(moiety_scope_end(scope));
    pool_->Free(other, stream);
    EXPECT_OK(moiety_scope_release(scope));
    EXPECT_EQ(0u, Info(arena_).live_count);
    EXPECT_EQ(0u, Info(arena_).live_bytes);
    EXPECT_EQ(0u, Info(arena_).graph_count);
    EXPECT_OK(moiety_private_destroy(arena_));
    EXPECT_EQ(CUDA_SUCCESS,
              pool_test::Get<CUresult(CUgraph)>("cuGraphDestroy")(graph));
    EXPECT_OK(moiety_pool_retire_stream(*pool_, stream));
}

} // namespace

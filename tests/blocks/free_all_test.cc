// SPDX-License-Identifier: Apache-2.0
//
// All of a pool's live blocks are freed by one call.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/checked/captured_graph.h"
#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using checked_test::CapturedGraph;
using host_test::Arena;
using namespace pool_test;

uint64_t FreeAll(moiety_pool *pool, moiety_stream stream)
{
    uint64_t freed = UINT64_MAX;
    EXPECT_OK(moiety_free_all(pool, stream, &freed));
    return freed;
}

class FreeAllOfKind : public StandinTestWith<uint32_t>
{
  protected:
    static moiety_pool_options Options()
    {
        moiety_pool_options options = Defaults();
        set_kind(&options, GetParam());
        return options;
    }
};

INSTANTIATE_TEST_SUITE_P(Kinds, FreeAllOfKind,
                         ::testing::Values(0, KIND_MAPPED,
                                           MOIETY_POOL_NOTE_STREAMS,
                                           MOIETY_POOL_EXPORTABLE,
                                           KIND_CHECKED |
                                               MOIETY_POOL_CHECKED_QUIET,
                                           KIND_PASS_THROUGH));

TEST_P(FreeAllOfKind, FreesBlocksOfAllLengthsAndThreads)
{
    Pool pool(Options());
    EXPECT_EQ(0u, FreeAll(pool, kStream));
    auto take = [&] {
        for (int i = 0; i < 50; i++)
            for (size_t size_bytes : {100ul, 5 * kKiB, 70 * kKiB, 2 * kMiB})
                pool.Alloc(size_bytes);
    };
    for (int round = 0; round < 3; round++) {
        std::thread first(take);
        std::thread second(take);
        first.join();
        second.join();
        take();
        EXPECT_EQ(600u, FreeAll(pool, kStream));
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    }
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

TEST_P(FreeAllOfKind, LeavesWhatIsFreeAlone)
{
    Pool pool(Options());
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 20; i++)
        blocks.push_back(pool.Alloc(5 * kKiB));
    for (int i = 0; i < 20; i += 2)
        pool.Free(blocks[static_cast<size_t>(i)]);
    EXPECT_EQ(10u, FreeAll(pool, kStream));
    EXPECT_EQ(0u, FreeAll(pool, kStream));
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

TEST_P(FreeAllOfKind, FreesBlocksOfTenantsAndPrivateArenas)
{
    Pool pool(Options());
    moiety_tenant tenant = 0;
    moiety_private arena = 0;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "one", 0, &tenant));
    ASSERT_OK(create_arena(pool, 0, &arena));
    for (size_t size_bytes : {5 * kKiB, 3 * kMiB}) {
        ASSERT_OK(alloc_for_tenant(tenant, size_bytes, kStream, &block));
        ASSERT_OK(alloc_of_arena(arena, size_bytes, kStream, &block));
    }
    EXPECT_EQ(4u, FreeAll(pool, kStream));
    EXPECT_OK(moiety_tenant_destroy(tenant));
    EXPECT_OK(moiety_private_destroy(arena));
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

using FreeAllOf = StandinTest;

TEST_F(FreeAllOf, RefusesWhatIsNoPool)
{
    uint64_t freed = 7;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_all(nullptr, kStream, &freed));
    EXPECT_EQ(0u, freed);
    Pool pool;
    pool.Alloc(100);
    moiety_pool *handle = pool;
    EXPECT_OK(moiety_free_all(pool, kStream, nullptr));
    pool.End();
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_free_all(handle, kStream, nullptr));
}

// As after any free: the stream has it at once, others when its work is over.
TEST_F(FreeAllOf, KeepsTheOrderOfTheStream)
{
    Pool pool;
    Stream own;
    Stream other;
    // Each has a segment of its own.
    moiety_devptr block = pool.Alloc(12 * kMiB, own);
    own.Hold();
    EXPECT_EQ(1u, FreeAll(pool, own));
    EXPECT_NE(block, pool.Alloc(12 * kMiB, other));
    EXPECT_EQ(block, pool.Alloc(12 * kMiB, own));
    own.Release();
    pool.End();
}

TEST_F(FreeAllOf, WaitsForRecordedUses)
{
    Pool pool;
    Stream own;
    Stream other;
    moiety_devptr block = pool.Alloc(3 * kMiB, own);
    ASSERT_OK(moiety_record_use(pool, block, other));
    other.Hold();
    EXPECT_EQ(1u, FreeAll(pool, own));
    EXPECT_NE(block, pool.Alloc(3 * kMiB, own));
    other.Release();
    pool.End();
}

TEST_F(FreeAllOf, KeepsWhatIsExported)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    moiety_ipc_handle handle = {};
    moiety_devptr block = pool.Alloc(4 * kMiB);
    pool.Alloc(4 * kMiB);
    ASSERT_OK(moiety_ipc_export(pool, block, &handle));
    EXPECT_EQ(2u, FreeAll(pool, kStream));
    EXPECT_EQ(0u, FreeAll(pool, kStream));
    EXPECT_EQ(4 * kMiB, pool.Stats().allocated_bytes_current);
    ASSERT_OK(moiety_ipc_release_exports(pool, block));
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

TEST_F(FreeAllOf, KeepsWhatAScopeHas)
{
    Pool pool;
    Stream stream;
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    CapturedGraph graph(stream);
    pool.Alloc(3 * kMiB, stream);
    graph.End();
    ASSERT_OK(moiety_scope_end(scope));
    pool.Alloc(100);
    EXPECT_EQ(2u, FreeAll(pool, kStream));
    EXPECT_EQ(0u, FreeAll(pool, kStream));
    ASSERT_OK(moiety_scope_release(scope));
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

TEST_F(FreeAllOf, FreesNothingOnAStreamThatCaptures)
{
    Pool pool;
    Stream stream;
    uint64_t freed = 7;
    moiety_devptr block = pool.Alloc(100, stream);
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    CapturedGraph graph(stream);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_free_all(pool, stream, &freed));
    EXPECT_EQ(0u, freed);
    graph.End();
    ASSERT_OK(moiety_capture_guard_end());
    pool.Free(block, stream);
}

TEST_F(FreeAllOf, TakesBlocksOfAContextThatIsGone)
{
    moiety_pool_options options = Defaults();
    options.context = pool_test::NewContext();
    Pool pool(options);
    pool.Alloc(3 * kMiB);
    ASSERT_OK(moiety_pool_context_lost(pool));
    pool_test::DestroyContext(options.context);
    EXPECT_EQ(1u, FreeAll(pool, kStream));
    pool.End();
}

constexpr int kRounds = 20;

// Threads that allocate keep out of the way; what they get may be freed or not.
TEST_F(FreeAllOf, StandsBesideAllocations)
{
    Pool pool;
    std::atomic<int> round{0};
    std::thread other([&] {
        // So many in each, however long the rounds take: it does not fill the pool.
        for (int i = 0; i < kRounds; i++) {
            for (int j = 0; j < 100; j++)
                for (size_t size_bytes : {100ul, 5 * kKiB, 70 * kKiB})
                    pool.Alloc(size_bytes);
            while (round <= i)
                std::this_thread::yield();
        }
    });
    for (; round < kRounds; round++)
        FreeAll(pool, kStream);
    other.join();
    FreeAll(pool, kStream);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(0u, stats.allocated_bytes_current);
    EXPECT_EQ(0u, stats.double_frees_found);
}

TEST_F(FreeAllOf, AHostArena)
{
    Arena host;
    uint64_t freed = 0;
    void *block = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_host_free_all(nullptr, kStream, &freed));
    for (int round = 0; round < 3; round++) {
        for (size_t size_bytes : {100ul, 5 * kKiB, 700 * kKiB})
            ASSERT_OK(
                moiety_host_alloc(host, size_bytes, MOIETY_HOST_CPU, &block));
        ASSERT_OK(moiety_host_free_all(host, MOIETY_STREAM_DONE, &freed));
        EXPECT_EQ(3u, freed);
    }
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Resizing blocks of which more is noted than their length, of pools of other
// kinds, and of host arenas.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/checked/captured_graph.h"
#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using checked_test::CapturedGraph;
using host_test::Arena;
using namespace pool_test;

moiety_pool_options OfKind(uint32_t flags)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, flags);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    return options;
}

using ResizeKept = StandinTest;

// --- tenants ---

moiety_tenant_stats Info(moiety_tenant tenant)
{
    moiety_tenant_stats info = {};
    info.struct_size = sizeof(info);
    EXPECT_OK(moiety_tenant_get_stats(tenant, &info));
    return info;
}

TEST_F(ResizeKept, ATenantIsChargedForWhatIsAdded)
{
    Pool pool(OfKind(0));
    moiety_tenant tenant = 0;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "one", 8 * kMiB, &tenant));
    ASSERT_OK(alloc_for_tenant(tenant, 3 * kMiB, kStream, &block));
    ASSERT_OK(moiety_resize(pool, block, 7 * kMiB, kStream));
    EXPECT_EQ(7 * kMiB, Info(tenant).live_bytes);
    EXPECT_EQ(MOIETY_E_BUDGET, moiety_resize(pool, block, 9 * kMiB, kStream));
    EXPECT_EQ(7 * kMiB, pool.UsableSize(block));
    ASSERT_OK(moiety_resize(pool, block, 2 * kMiB, kStream));
    EXPECT_EQ(2 * kMiB, Info(tenant).live_bytes);
    pool.Free(block);
    EXPECT_EQ(0u, Info(tenant).live_bytes);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

TEST_F(ResizeKept, ATenantIsNotChargedWhereThereIsNoRoom)
{
    Pool pool(OfKind(0));
    moiety_tenant tenant = 0;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "one", 0, &tenant));
    ASSERT_EQ(MOIETY_OK, alloc_for_tenant(tenant, 3 * kMiB, kStream, &block));
    EXPECT_EQ(MOIETY_E_NO_ROOM,
              moiety_resize(pool, block, 100 * kMiB, kStream));
    EXPECT_EQ(3 * kMiB, Info(tenant).live_bytes);
    pool.Free(block);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

// As if it had been allocated with that size, whatever it was before.
TEST_F(ResizeKept, ATenantsSmallBlockCountsByItsSizeAlone)
{
    Pool pool(OfKind(0));
    moiety_tenant tenant = 0;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "one", 0, &tenant));
    ASSERT_OK(alloc_for_tenant(tenant, 70 * kKiB, kStream, &block));
    for (size_t size_bytes : {71 * kKiB, 100 * kKiB, 70 * kKiB, 99 * kKiB}) {
        moiety_devptr other = 0;
        ASSERT_OK(moiety_resize(pool, block, size_bytes, kStream));
        uint64_t resized_bytes = Info(tenant).live_bytes;
        ASSERT_OK(alloc_for_tenant(tenant, size_bytes, kStream, &other));
        EXPECT_EQ(2 * resized_bytes, Info(tenant).live_bytes);
        ASSERT_OK(moiety_free_sized(pool, other, size_bytes, kStream));
    }
    ASSERT_OK(moiety_free_sized(pool, block, 99 * kKiB, kStream));
    EXPECT_EQ(0u, Info(tenant).live_bytes);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

// --- recorded uses ---

TEST_F(ResizeKept, WhatIsGivenBackWaitsForAllStreamsThatUseIt)
{
    Pool pool(OfKind(0));
    Stream own;
    Stream other;
    moiety_devptr block = pool.Alloc(9 * kMiB, own);
    ASSERT_OK(moiety_record_use(pool, block, other));
    other.Hold();
    ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, 3 * kMiB, own));
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 4 * kMiB, own));
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 4 * kMiB, other));
    other.Release();
    pool.Free(block, own);
    pool_test::Synchronize();
}

TEST_F(ResizeKept, ABlockThatGrewIsHeldAsAWholeForItsUsers)
{
    Pool pool(OfKind(0));
    Stream own;
    Stream other;
    moiety_devptr block = pool.Alloc(3 * kMiB, own);
    ASSERT_OK(moiety_record_use(pool, block, other));
    ASSERT_OK(moiety_resize(pool, block, 6 * kMiB, own));
    other.Hold();
    pool.Free(block, own);
    EXPECT_EQ(6 * kMiB, pool.Stats().retiring_bytes);
    other.Release();
}

// --- exports ---

TEST_F(ResizeKept, AnExportedBlockKeepsItsLengthUntilItIsReleased)
{
    Pool pool(OfKind(MOIETY_POOL_EXPORTABLE));
    moiety_ipc_handle handle = {};
    moiety_devptr block = pool.Alloc(4 * kMiB);
    ASSERT_EQ(MOIETY_OK, moiety_ipc_export(pool, block, &handle));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_resize(pool, block, 6 * kMiB, kStream));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_resize(pool, block, 2 * kMiB, kStream));
    EXPECT_EQ(4 * kMiB, pool.UsableSize(block));
    ASSERT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, block));
    EXPECT_OK(moiety_resize(pool, block, 6 * kMiB, kStream));
    pool.Free(block);
}

TEST_F(ResizeKept, ALargeBlockOfAnExportablePoolStaysAligned)
{
    Pool pool(OfKind(MOIETY_POOL_EXPORTABLE));
    moiety_devptr first = pool.Alloc(4 * kKiB);
    moiety_devptr second = pool.Alloc(4 * kKiB);
    moiety_devptr unaligned = first % (2 * kMiB) ? first : second;
    moiety_devptr last = first < second ? second : first;
    ASSERT_NE(0u, unaligned % (2 * kMiB));
    ASSERT_EQ(last, unaligned);
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, last, 3 * kMiB, kStream));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, last, kMiB, kStream));
    pool.Free(first);
    pool.Free(second);
}

// --- captures ---

TEST_F(ResizeKept, NothingIsResizedInACapture)
{
    Pool pool(OfKind(0));
    Stream stream;
    moiety_devptr block = pool.Alloc(3 * kMiB, stream);
    ASSERT_OK(moiety_capture_guard_begin());
    CapturedGraph graph(stream);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_resize(pool, block, 4 * kMiB, stream));
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_resize(pool, block, kMiB, stream));
    graph.End();
    ASSERT_OK(moiety_capture_guard_end());
    EXPECT_OK(moiety_resize(pool, block, 4 * kMiB, stream));
    pool.Free(block, stream);
}

TEST_F(ResizeKept, AScopesBlockKeepsItsLength)
{
    Pool pool(OfKind(0));
    Stream stream;
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
    CapturedGraph graph(stream);
    moiety_devptr block = pool.Alloc(3 * kMiB, stream);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_resize(pool, block, 4 * kMiB, stream));
    graph.End();
    ASSERT_EQ(MOIETY_OK, moiety_scope_end(scope));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_resize(pool, block, 4 * kMiB, kStream));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_resize(pool, block, kMiB, kStream));
    EXPECT_EQ(3 * kMiB, pool.UsableSize(block));
    pool.Free(block, stream);
    ASSERT_OK(moiety_scope_release(scope));
}

// --- private arenas ---

moiety_private_stats ArenaInfo(moiety_private arena)
{
    moiety_private_stats info = {};
    info.struct_size = sizeof(info);
    EXPECT_OK(moiety_private_get_stats(arena, &info));
    return info;
}

TEST_F(ResizeKept, APrivateArenasBlockGrowsIntoTheArena)
{
    Pool pool(OfKind(0));
    Stream own;
    Stream other;
    moiety_private arena = 0;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, create_arena(pool, 0, &arena));
    ASSERT_OK(alloc_of_arena(arena, 100 * kKiB, own, &block));
    uint64_t reserved_bytes = ArenaInfo(arena).reserved_bytes;
    uint64_t pool_bytes = pool.Stats().allocated_bytes_current;
    ASSERT_OK(moiety_resize(pool, block, 900 * kKiB, own));
    EXPECT_EQ(900 * kKiB, pool.UsableSize(block));
    EXPECT_EQ(900 * kKiB, ArenaInfo(arena).live_bytes);
    EXPECT_EQ(900 * kKiB, ArenaInfo(arena).live_peak_bytes);
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 3 * kMiB, own));
    own.Hold();
    ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, 50 * kKiB, own));
    EXPECT_EQ(50 * kKiB, ArenaInfo(arena).live_bytes);
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 900 * kKiB, other));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, block, 900 * kKiB, own));
    ASSERT_EQ(MOIETY_OK, moiety_record_use(pool, block, other));
    ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, 50 * kKiB, own));
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 900 * kKiB, own));
    own.Release();
    EXPECT_EQ(reserved_bytes, ArenaInfo(arena).reserved_bytes);
    EXPECT_EQ(pool_bytes, pool.Stats().allocated_bytes_current);
    pool.Free(block, own);
    EXPECT_EQ(0u, ArenaInfo(arena).live_bytes);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(ResizeKept, ABlockOfACapturesHalfKeepsItsLength)
{
    Pool pool(OfKind(0));
    Stream stream;
    moiety_private arena = 0;
    moiety_scope scope = 0;
    ASSERT_EQ(MOIETY_OK, create_arena(pool, 0, &arena));
    ASSERT_EQ(MOIETY_OK, moiety_private_scope_begin(arena, stream, &scope));
    CapturedGraph graph(stream);
    moiety_devptr block = pool.Alloc(100 * kKiB, stream);
    graph.End();
    ASSERT_EQ(MOIETY_OK, moiety_scope_end(scope));
    for (size_t size_bytes : {50 * kKiB, 200 * kKiB})
        EXPECT_EQ(MOIETY_E_IN_USE,
                  moiety_resize(pool, block, size_bytes, kStream));
    ASSERT_EQ(MOIETY_OK, moiety_scope_release(scope));
    for (size_t size_bytes : {50 * kKiB, 200 * kKiB})
        EXPECT_EQ(MOIETY_E_IN_USE,
                  moiety_resize(pool, block, size_bytes, kStream));
    EXPECT_EQ(100 * kKiB, pool.UsableSize(block));
    pool.Free(block, stream);
    EXPECT_OK(moiety_private_destroy(arena));
}

TEST_F(ResizeKept, APausableTenantsBlockCountsInAndOut)
{
    Pool pool(OfKind(KIND_MAPPED));
    moiety_tenant tenant = 0;
    moiety_devptr block = 0;
    moiety_tenant_options options = {};
    options.struct_size = sizeof(options);
    options.flags = MOIETY_TENANT_PAUSABLE;
    ASSERT_OK(moiety_tenant_create(pool, &options, &tenant));
    ASSERT_OK(alloc_for_tenant(tenant, 70 * kKiB, kStream, &block));
    for (size_t size_bytes : {99 * kKiB, 500 * kKiB, 70 * kKiB, kMiB}) {
        ASSERT_OK(moiety_resize(pool, block, size_bytes, kStream));
        EXPECT_EQ(pool.UsableSize(block), Info(tenant).live_bytes);
    }
    ASSERT_EQ(MOIETY_OK,
              moiety_tenant_pause(tenant, MOIETY_PAUSE_KEEP_CONTENTS));
    for (size_t size_bytes : {50 * kKiB, 2 * kMiB})
        EXPECT_EQ(MOIETY_E_PAUSED,
                  moiety_resize(pool, block, size_bytes, kStream));
    EXPECT_EQ(kMiB, Info(tenant).live_bytes);
    ASSERT_OK(moiety_tenant_resume(tenant));
    pool.Free(block);
    EXPECT_EQ(0u, Info(tenant).live_bytes);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

// An ordinary block does not grow into what is free in an arena.
TEST_F(ResizeKept, NoBlockGrowsIntoAPrivateArena)
{
    Pool pool(OfKind(0));
    moiety_private arena = 0;
    moiety_devptr foreign = 0;
    ASSERT_EQ(MOIETY_OK, create_arena(pool, 0, &arena));
    moiety_devptr block = pool.Alloc(2 * kMiB);
    ASSERT_OK(alloc_of_arena(arena, 2 * kMiB, kStream, &foreign));
    pool.Free(foreign, MOIETY_STREAM_DONE);
    ASSERT_EQ(block + 2 * kMiB, foreign);
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 4 * kMiB, kStream));
    ASSERT_EQ(MOIETY_OK, moiety_private_destroy(arena));
    pool.Free(block);
}

// --- other kinds of pool ---

TEST_F(ResizeKept, ACheckedPoolLetsNoBlockChange)
{
    Pool pool(OfKind(KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET));
    moiety_devptr block = pool.Alloc(1000);
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 1001, kStream));
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 999, kStream));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, block, 1000, kStream));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_resize(pool, block + 8, 5, kStream));
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_resize(pool, block, 1000, kStream));
}

TEST_F(ResizeKept, APoolThatPassesAllThroughCannot)
{
    Pool pool(OfKind(KIND_PASS_THROUGH));
    moiety_devptr block = pool.Alloc(1000);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_resize(pool, block, 900, kStream));
    EXPECT_OK(moiety_resize(pool, block, 1000, kStream));
    pool.Free(block);
}

TEST_F(ResizeKept, AMappedPoolGrowsABlockOverItsPieces)
{
    Pool pool(OfKind(KIND_MAPPED));
    ASSERT_OK(moiety_pool_reserve(pool, 64 * kMiB));
    moiety_devptr block = pool.Alloc(3 * kMiB);
    ASSERT_OK(moiety_resize(pool, block, 9 * kMiB, kStream));
    pool_test::Fill(block, 9 * kMiB, 5);
    EXPECT_TRUE(pool_test::Holds(block, 9 * kMiB, 5));
    pool.Free(block);
}

// --- a context that is gone ---

TEST_F(ResizeKept, NothingIsResizedOnceTheContextIsGone)
{
    moiety_pool_options options = OfKind(0);
    options.context = pool_test::NewContext();
    Pool pool(options);
    moiety_devptr block = pool.Alloc(3 * kMiB);
    ASSERT_OK(moiety_pool_context_lost(pool));
    pool_test::DestroyContext(options.context);
    EXPECT_EQ(MOIETY_E_CONTEXT_DESTROYED,
              moiety_resize(pool, block, 4 * kMiB, kStream));
    EXPECT_OK(moiety_free(pool, block, kStream));
    pool.End();
}

// --- host arenas ---

TEST_F(ResizeKept, AHostArenasBlockGrowsForTheCpu)
{
    Arena host;
    void *block = nullptr;
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_resize(nullptr, nullptr, 1, MOIETY_HOST_CPU));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_host_resize(host, nullptr, 1, MOIETY_HOST_CPU));
    ASSERT_OK(moiety_host_alloc(host, 100 * kKiB, MOIETY_HOST_CPU, &block));
    std::memset(block, 3, 100 * kKiB);
    ASSERT_OK(moiety_host_resize(host, block, 900 * kKiB, MOIETY_HOST_CPU));
    std::memset(static_cast<char *>(block) + 100 * kKiB, 3, 800 * kKiB);
    for (size_t at : {size_t{0}, 100 * kKiB, 900 * kKiB - 1})
        EXPECT_EQ(3, static_cast<char *>(block)[at]);
    ASSERT_OK(moiety_host_resize(host, block, 50 * kKiB, MOIETY_STREAM_DONE));
    ASSERT_OK(
        moiety_host_free_sized(host, block, 50 * kKiB, MOIETY_STREAM_DONE));
}

} // namespace

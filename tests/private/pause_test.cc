// SPDX-License-Identifier: Apache-2.0
//
// Arenas that are fixed, and pause and resume: what they have and where, what is
// refused, and that contents and graphs are there again afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "moiety/private.h"
#include "moiety/scope.h"
#include "moiety/segment.h"
#include "moiety/tenant.h"
#include "tests/checked/captured_graph.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/private/pausing_arena.h"
#include "tests/support/tools/pools.h"

namespace
{

using checked_test::CapturedGraph;
using namespace pool_test;
using namespace private_test;

using Pause = StandinTest;

bool HasMessage(const char *part)
{
    return std::string(moiety_last_error_message()).find(part) !=
           std::string::npos;
}

TEST_F(Pause, ContentsAreThereAgainAfterManyCycles)
{
    Pool pool(Mapped());
    Arena arena(pool);
    moiety_devptr small = arena.Alloc(4096);
    moiety_devptr large = arena.Alloc(kMiB);
    pool_test::Fill(small, 4096, 7);
    pool_test::Fill(large, kMiB, 9);
    uint64_t reserved = pool.Stats().reserved_bytes_current;
    for (int i = 0; i < 20; i++) {
        arena.Pause(kKeep);
        ASSERT_EQ(0u, pool.Stats().reserved_bytes_current);
        ASSERT_EQ(reserved, pool.Stats().mapped_paused_bytes);
        arena.Resume();
        ASSERT_EQ(reserved, pool.Stats().reserved_bytes_current);
    }
    EXPECT_TRUE(pool_test::Holds(small, 4096, 7));
    EXPECT_TRUE(pool_test::Holds(large, kMiB, 9));
    pool.Free(small);
    pool.Free(large);
}

// What is kept lies in chunks of 256 MiB. The second block, in one piece, begins
// behind the first and ends in the second chunk, before the third.
TEST_F(Pause, ContentsAreThereAgainWhereTheyAreLargerThanAChunk)
{
    constexpr size_t kPart = 2 * kMiB;
    Pool pool(Mapped());
    Arena arena(pool, MOIETY_PRIVATE_PAUSABLE | MOIETY_PRIVATE_FIXED);
    std::vector<std::pair<moiety_devptr, uint32_t>> parts;
    std::vector<moiety_devptr> blocks;
    for (size_t size : {2 * kMiB, 258 * kMiB, 4 * kMiB}) {
        blocks.push_back(arena.Alloc(size));
        for (size_t at = 0; at < size; at += kPart)
            parts.emplace_back(blocks.back() + at,
                               static_cast<uint32_t>(parts.size() + 1));
    }
    for (const auto &[address, word] : parts)
        pool_test::Fill(address, kPart, word);
    arena.Pause(kKeep);
    arena.Resume();
    for (const auto &[address, word] : parts)
        EXPECT_TRUE(pool_test::Holds(address, kPart, word)) << "part " << word;
    for (moiety_devptr block : blocks)
        pool.Free(block);
}

TEST_F(Pause, SaysWhatItHas)
{
    Pool pool(Mapped());
    Arena arena(pool);
    moiety_devptr block = arena.Alloc(4 * kMiB);
    EXPECT_EQ(4 * kMiB, arena.Info().reserved_bytes);
    EXPECT_EQ(0u, arena.Info().is_paused);
    arena.Pause(kKeep);
    EXPECT_EQ(1u, arena.Info().is_paused);
    EXPECT_EQ(0u, arena.Info().reserved_bytes);
    EXPECT_EQ(4 * kMiB, arena.Info().paused_bytes);
    EXPECT_EQ(4 * kMiB, arena.Info().kept_bytes);
    EXPECT_EQ(4 * kMiB, arena.Info().live_bytes);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    arena.Resume();
    EXPECT_EQ(0u, arena.Info().is_paused);
    EXPECT_EQ(0u, arena.Info().paused_bytes);
    EXPECT_EQ(4 * kMiB, pool.Stats().allocated_bytes_current);
    pool.Free(block);
}

TEST_F(Pause, OthersHaveTheMemoryMeanwhile)
{
    moiety_pool_options options = Mapped(16 * kMiB);
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    Arena arena(pool);
    moiety_devptr block = arena.Alloc(12 * kMiB);
    moiety_devptr other = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 12 * kMiB, MOIETY_STREAM_DONE, &other));
    arena.Pause();
    other = pool.Alloc(12 * kMiB);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, moiety_private_resume(arena));
    EXPECT_EQ(1u, arena.Info().is_paused);
    pool.Free(other, MOIETY_STREAM_DONE);
    arena.Resume();
    pool_test::Fill(block, 12 * kMiB, 3);
    EXPECT_TRUE(pool_test::Holds(block, 12 * kMiB, 3));
    pool.Free(block);
}

// The driver has none until the resume has asked it several times.
TEST_F(Pause, AResumeWaitsForMemory)
{
    Pool pool(Mapped());
    Arena arena(pool);
    moiety_devptr block = arena.Alloc(2 * kMiB);
    std::atomic<bool> is_over{false};
    moiety_status status = MOIETY_E_INVALID;
    arena.Pause();
    uint64_t before = pool_test::Calls("cuMemCreate");
    pool_test::SetFaults("cuMemCreate:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    std::thread resumer([&] {
        status = moiety_private_resume(arena);
        is_over = true;
    });
    while (!is_over && pool_test::Calls("cuMemCreate") < before + 4)
        std::this_thread::yield();
    pool_test::SetFaults("");
    resumer.join();
    EXPECT_OK(status);
    pool.Free(block);
}

// An allocation of such an arena, too: for what a stream has freed.
TEST_F(Pause, AGrowthWaitsForWhatIsPendingInThePool)
{
    Pool pool(Mapped(4 * kMiB));
    Stream stream;
    Arena arena(pool);
    std::atomic<bool> is_over{false};
    moiety_devptr block = pool.Alloc(4 * kMiB, stream);
    stream.Hold();
    pool.Free(block, stream);
    uint64_t before = pool_test::Calls();
    std::thread grower([&] {
        block = arena.Alloc(4 * kMiB);
        is_over = true;
    });
    // It asks the driver again and again.
    while (!is_over && pool_test::Calls() < before + 500)
        std::this_thread::yield();
    stream.Release();
    grower.join();
    pool.Free(block);
}

// What a free of a pool says whose context is lost, the arena counts, too.
TEST_F(Pause, WhatIsPausedCanGoAfterItsContext)
{
    {
        Pool pool(Mapped());
        Arena arena(pool);
        Arena running(pool);
        moiety_devptr block = arena.Alloc(2 * kMiB);
        moiety_devptr other = running.Alloc(2 * kMiB);
        arena.Pause();
        EXPECT_EQ(MOIETY_OK, moiety_pool_context_lost(pool));
        EXPECT_EQ(MOIETY_E_PAUSED, arena.Release());
        pool.Free(block);
        pool.Free(other);
        EXPECT_EQ(0u, arena.Info().live_bytes);
        EXPECT_EQ(0u, running.Info().live_bytes);
        EXPECT_OK(arena.Release());
        EXPECT_OK(running.Release());
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    }
    pool_test::ResetContext();
}

TEST_F(Pause, WhatIsPausedRefusesAndTakesFrees)
{
    Pool pool(Mapped());
    Stream stream;
    Arena arena(pool);
    moiety_devptr kept = arena.Alloc(2 * kMiB);
    moiety_devptr freed = arena.Alloc(2 * kMiB);
    moiety_devptr out = 1;
    auto scope = reinterpret_cast<moiety_scope>(1);
    pool_test::Fill(kept, 2 * kMiB, 5);
    arena.Pause(kKeep);
    EXPECT_EQ(MOIETY_E_PAUSED,
              alloc_of_arena(arena, 512, MOIETY_STREAM_DONE, &out));
    EXPECT_TRUE(HasMessage("paused"));
    EXPECT_EQ(MOIETY_E_PAUSED,
              moiety_private_claim(arena, freed, 512, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_E_PAUSED, moiety_private_trim(arena, nullptr));
    EXPECT_EQ(MOIETY_E_PAUSED,
              moiety_private_scope_begin(arena, stream, &scope));
    EXPECT_EQ(MOIETY_E_PAUSED, moiety_private_pause(arena, 0));
    EXPECT_EQ(MOIETY_E_PAUSED, moiety_private_destroy(arena));
    EXPECT_EQ(1u, out);
    EXPECT_EQ(reinterpret_cast<moiety_scope>(1), scope);
    pool.Free(freed);
    EXPECT_EQ(2 * kMiB, arena.Info().live_bytes);
    arena.Resume();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_resume(arena));
    EXPECT_TRUE(HasMessage("not paused"));
    EXPECT_TRUE(pool_test::Holds(kept, 2 * kMiB, 5));
    EXPECT_OK(moiety_private_claim(arena, freed, 2 * kMiB, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_pause(arena, 2));
    pool.Free(kept);
    pool.Free(freed);
}

TEST_F(Pause, WhatIsHeldStaysAndWhatIsPausedIsNotHeld)
{
    Pool pool(Mapped());
    Arena arena(pool);
    moiety_devptr block = arena.Alloc(2 * kMiB);
    moiety_segment_info before = {};
    moiety_segment_info after = {};
    before.struct_size = after.struct_size = sizeof before;
    ASSERT_EQ(MOIETY_OK, moiety_segment_find(pool, block, &before));
    ASSERT_EQ(MOIETY_OK, moiety_segment_hold(pool, block, 2 * kMiB));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_private_pause(arena, kKeep));
    EXPECT_TRUE(HasMessage("held"));
    EXPECT_EQ(0u, arena.Info().is_paused);
    ASSERT_EQ(MOIETY_OK, moiety_segment_unhold(pool, block, 2 * kMiB));
    arena.Pause();
    EXPECT_EQ(MOIETY_E_PAUSED, moiety_segment_hold(pool, block, 2 * kMiB));
    arena.Resume();
    ASSERT_EQ(MOIETY_OK, moiety_segment_find(pool, block, &after));
    EXPECT_NE(before.id, after.id) << "what was registered is stale";
    EXPECT_EQ(before.address, after.address);
    pool.Free(block);
}

TEST_F(Pause, OnlyWhatWasMadeForItPauses)
{
    Pool pool(Mapped());
    Pool plain;
    Arena fixed(pool, MOIETY_PRIVATE_FIXED);
    Arena trivially(plain, MOIETY_PRIVATE_FIXED);
    moiety_private_options options = {};
    const auto wrong = reinterpret_cast<moiety_private>(UINTPTR_MAX);
    moiety_private out = wrong;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_private_pause(fixed, 0));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_private_pause(trivially, 0));
    options.struct_size = sizeof options;
    options.flags = MOIETY_PRIVATE_PAUSABLE;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_private_create(plain, &options, &out));
    options.flags = 4;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_create(pool, &options, &out));
    options.flags = 0;
    options.struct_size = 4;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_create(pool, &options, &out));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_pause(wrong, 0));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_resume(wrong));
    EXPECT_EQ(wrong, out);
}

TEST_F(Pause, FixedMemoryIsOneMappingForEachBlockAndStays)
{
    Pool pool(Mapped());
    Arena arena(pool, MOIETY_PRIVATE_FIXED);
    std::vector<moiety_devptr> blocks;
    for (size_t size : {6 * kMiB, 2 * kMiB, 10 * kMiB}) {
        moiety_devptr block = arena.Alloc(size);
        moiety_devptr base = 0;
        size_t bytes = 0;
        EXPECT_EQ(
            CUDA_SUCCESS,
            (pool_test::Get<CUresult(CUdeviceptr *, size_t *, CUdeviceptr)>(
                "cuMemGetAddressRange_v2")(&base, &bytes, block)));
        EXPECT_LE(base, block);
        EXPECT_GE(base + bytes, block + size);
        blocks.push_back(block);
    }
    for (moiety_devptr block : blocks)
        pool.Free(block);
    pool_test::Synchronize();
    // Free in the arena, so neither a trim nor a move of the pool takes it.
    uint64_t reserved = pool.Stats().reserved_bytes_current;
    pool.TrimAll();
    EXPECT_EQ(reserved, pool.Stats().reserved_bytes_current);
    uint64_t bytes = 0;
    EXPECT_OK(moiety_private_trim(arena, &bytes));
    EXPECT_EQ(reserved, bytes);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(Pause, MemoryThatIsReleasedIsThePools)
{
    Pool pool(Mapped());
    Arena arena(pool);
    moiety_devptr block = arena.Alloc(2 * kMiB);
    moiety_devptr more = arena.Alloc(4 * kMiB);
    pool.Free(more);
    EXPECT_OK(arena.Release());
    EXPECT_EQ(2 * kMiB, pool.Stats().allocated_bytes_current);
    pool.Free(block);
    pool_test::Synchronize();
    for (int i = 0; i < 4; i++)
        pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(Pause, WhatIsPausedCanGoWhenItHasNoBlocks)
{
    Pool pool(Mapped());
    Arena arena(pool);
    moiety_devptr block = arena.Alloc(2 * kMiB);
    arena.Pause(kKeep);
    EXPECT_EQ(MOIETY_E_PAUSED, arena.Release());
    pool.Free(block);
    EXPECT_EQ(MOIETY_OK, arena.Release());
    EXPECT_EQ(0u, pool.Stats().mapped_paused_bytes);
    EXPECT_EQ(0u, pool.Stats().segment_current);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    pool.Free(pool.Alloc(8 * kMiB));
}

TEST_F(Pause, APoolEndsWithWhatIsPaused)
{
    pool_test::Inventory inventory;
    int64_t handles = pool_test::Live("vmm");
    {
        Pool pool(Mapped());
        Arena arena(pool);
        (void)arena.Alloc(2 * kMiB);
        arena.Pause(kKeep);
        arena.Forget();
        EXPECT_EQ(1u, pool.End().block_count);
    }
    EXPECT_EQ(handles, pool_test::Live("vmm"));
    inventory.ExpectUnchanged();
}

TEST_F(Pause, AGraphReplaysOnWhatIsBack)
{
    Pool pool(Mapped());
    Stream stream;
    Arena arena(pool);
    moiety_devptr source = arena.Alloc(2 * kMiB);
    moiety_devptr target = arena.Alloc(2 * kMiB);
    moiety_scope scope = 0;
    pool_test::Fill(source, 2 * kMiB, 11);
    ASSERT_EQ(MOIETY_OK, moiety_private_scope_begin(arena, stream, &scope));
    CapturedGraph graph(stream);
    moiety_devptr inner = arena.Alloc(2 * kMiB, stream);
    checked_test::Set(inner, 0x17, 2 * kMiB, stream);
    checked_test::Set(target, 0x5a, 2 * kMiB, stream);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_private_pause(arena, 0));
    graph.End();
    ASSERT_OK(moiety_scope_end(scope));
    for (uint32_t i = 0; i < 20; i++) {
        pool_test::Fill(target, 2 * kMiB, i);
        arena.Pause(kKeep);
        arena.Resume();
        ASSERT_TRUE(pool_test::Holds(target, 2 * kMiB, i));
        graph.Launch(stream);
        pool_test::Synchronize();
        ASSERT_TRUE(pool_test::Holds(target, 2 * kMiB, 0x5a5a5a5a));
        ASSERT_TRUE(pool_test::Holds(inner, 2 * kMiB, 0x17171717));
        ASSERT_TRUE(pool_test::Holds(source, 2 * kMiB, 11));
    }
    EXPECT_OK(moiety_scope_release(scope));
    pool.Free(inner);
    pool.Free(source);
    pool.Free(target);
}

TEST_F(Pause, TenantsCountTheirSmallBlocksInAndOut)
{
    Pool pool(Mapped());
    moiety_tenant_options options = {};
    moiety_tenant tenant = 0;
    options.struct_size = sizeof options;
    options.flags = MOIETY_TENANT_PAUSABLE;
    ASSERT_OK(moiety_tenant_create(pool, &options, &tenant));
    for (size_t size_bytes : {70000, 9000, 500000}) {
        moiety_devptr block = 0;
        ASSERT_OK(
            alloc_for_tenant(tenant, size_bytes, MOIETY_STREAM_DONE, &block));
        EXPECT_OK(
            moiety_free_sized(pool, block, size_bytes, MOIETY_STREAM_DONE));
    }
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

TEST_F(Pause, TenantsPauseByTheirArenas)
{
    Pool pool(Mapped());
    moiety_tenant_options options = {};
    moiety_tenant tenant = 0;
    moiety_tenant plain = 0;
    moiety_private arena = 0;
    moiety_devptr block = 0;
    moiety_devptr out = 0;
    options.struct_size = sizeof options;
    options.flags = MOIETY_TENANT_PAUSABLE;
    options.name = "a";
    options.budget_bytes = 8 * kMiB;
    ASSERT_OK(moiety_tenant_create(pool, &options, &tenant));
    ASSERT_OK(create_tenant(pool, "b", 0, &plain));
    ASSERT_OK(alloc_for_tenant(tenant, 4 * kMiB, MOIETY_STREAM_DONE, &block));
    EXPECT_EQ(MOIETY_E_BUDGET,
              alloc_for_tenant(tenant, 5 * kMiB, MOIETY_STREAM_DONE, &out));
    EXPECT_EQ(
        MOIETY_E_UNSUPPORTED,
        alloc_for_tenant_aligned(tenant, 512, 4096, MOIETY_STREAM_DONE, &out));
    EXPECT_OK(alloc_for_tenant_no_wait(tenant, 512, MOIETY_STREAM_DONE, &out));
    pool.Free(out);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_tenant_pause(plain, 0));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_tenant_private(plain, &arena));
    pool_test::Fill(block, 4 * kMiB, 2);
    EXPECT_EQ(MOIETY_OK, moiety_tenant_pause(tenant, kKeep));
    EXPECT_EQ(MOIETY_E_PAUSED,
              alloc_for_tenant(tenant, 512, MOIETY_STREAM_DONE, &out));
    EXPECT_EQ(MOIETY_OK,
              alloc_for_tenant(plain, 512, MOIETY_STREAM_DONE, &out));
    pool.Free(out);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_tenant_destroy(tenant));
    EXPECT_EQ(MOIETY_OK, moiety_tenant_resume(tenant));
    EXPECT_TRUE(pool_test::Holds(block, 4 * kMiB, 2));
    EXPECT_OK(moiety_tenant_private(tenant, &arena));
    EXPECT_OK(moiety_private_pause(arena, 0));
    pool.Free(block);
    moiety_tenant_stats info = {};
    info.struct_size = sizeof info;
    EXPECT_OK(moiety_tenant_get_stats(tenant, &info));
    EXPECT_EQ(0u, info.live_bytes);
    EXPECT_OK(moiety_tenant_destroy(tenant));
    EXPECT_OK(moiety_tenant_destroy(plain));
    EXPECT_EQ(0u, pool.Stats().mapped_paused_bytes);
}

TEST_F(Pause, ThreadsThatPauseAtOnceTakeTurnsWhileOthersAllocate)
{
    Pool pool(Mapped());
    Arena arena(pool);
    Arena other(pool);
    moiety_devptr block = arena.Alloc(2 * kMiB);
    pool_test::Fill(block, 2 * kMiB, 21);
    std::atomic<unsigned> paused{0};
    std::atomic<bool> is_over{false};
    auto cycle = [&] {
        for (int i = 0; i < 40; i++) {
            moiety_status status = moiety_private_pause(arena, kKeep);
            EXPECT_TRUE(status == MOIETY_OK || status == MOIETY_E_PAUSED ||
                        status == MOIETY_E_IN_USE)
                << moiety_last_error_message();
            paused += status == MOIETY_OK;
            status = moiety_private_resume(arena);
            EXPECT_TRUE(status == MOIETY_OK || status == MOIETY_E_IN_USE ||
                        status == MOIETY_E_INVALID)
                << moiety_last_error_message();
        }
    };
    auto work = [&] {
        while (!is_over) {
            pool.Free(other.Alloc(2 * kMiB), MOIETY_STREAM_DONE);
            pool.Free(pool.Alloc(2 * kMiB), MOIETY_STREAM_DONE);
            moiety_devptr mine = 0;
            if (alloc_of_arena(arena, 512, MOIETY_STREAM_DONE, &mine) ==
                MOIETY_OK)
                pool.Free(mine, MOIETY_STREAM_DONE);
        }
    };
    std::thread worker(work);
    std::thread first(cycle);
    std::thread second(cycle);
    first.join();
    second.join();
    is_over = true;
    worker.join();
    EXPECT_LE(1u, paused);
    EXPECT_EQ(0u, arena.Info().is_paused);
    EXPECT_TRUE(pool_test::Holds(block, 2 * kMiB, 21));
    pool.Free(block);
}

} // namespace

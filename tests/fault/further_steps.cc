// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fault/further_steps.h"
#include "tests/support/tools/pools.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace fault_test
{

using namespace pool_test;

namespace
{

void AllocForTenant(World &world, moiety_tenant tenant)
{
    moiety_devptr address = 0;
    if (TRY_WAY(world, alloc_for_tenant,
                (tenant, 5 * kKiB, world.first, &address)))
        world.Own(address, 5 * kKiB);
    if (TRY_WAY(world, alloc_for_tenant_aligned,
                (tenant, 5 * kKiB, 16 * kKiB, world.first, &address)))
        world.Own(address, 5 * kKiB);
    if (TRY_WAY(world, alloc_for_tenant_no_wait,
                (tenant, 3 * kMiB, world.first, &address)))
        world.Own(address, 3 * kMiB);
}

// The newest block is freed and taken again, for another stream.
void FreeAndClaim(World &world, moiety_private arena)
{
    moiety_devptr address = 0;
    size_t freed_bytes = 0;
    world.FreeNewest([&](moiety_devptr block, size_t size_bytes) {
        if (!TRY(world, moiety_free, (world.pool, block, world.first)))
            return false;
        address = block;
        freed_bytes = size_bytes;
        return true;
    });
    if (freed_bytes && TRY(world, moiety_private_claim,
                           (arena, address, freed_bytes, world.second)))
        world.Own(address, freed_bytes);
}

void UsePrivateArena(World &world, moiety_private arena)
{
    moiety_devptr address = 0;
    for (moiety_stream stream : {static_cast<moiety_stream>(world.first),
                                 static_cast<moiety_stream>(world.second)})
        for (size_t size_bytes : {5 * kKiB, 3 * kMiB})
            if (TRY_WAY(world, alloc_of_arena,
                        (arena, size_bytes, stream, &address)))
                world.Own(address, size_bytes);
    FreeAndClaim(world, arena);
    world.FreeAll(world.first);
    if (TRY_WAY(world, alloc_of_arena,
                (arena, 9 * kKiB, world.second, &address)))
        world.Own(address, 9 * kKiB);
    world.FreeAll(MOIETY_STREAM_ANY);
}

// A block that stays ours when it is not taken is taken the next time.
void UseHostArena(World &world, moiety_host *host)
{
    void *block = nullptr;
    moiety_devptr device = 0;
    if (TRY(world, moiety_host_alloc,
            (host, 5 * kKiB, MOIETY_HOST_CPU, &block))) {
        std::memset(block, 1, 5 * kKiB);
        EXPECT_TRUE(
            TRY(world, moiety_host_device_address, (host, block, &device)));
        if (!TRY(world, moiety_host_free, (host, block, world.first))) {
            EXPECT_OK(moiety_host_free(host, block, MOIETY_STREAM_DONE));
        }
    }
    if (TRY_HOST_WAY(world, host_alloc_no_wait,
                     (host, 5 * kKiB, world.first, &block)) &&
        !TRY(world, moiety_host_free_sized,
             (host, block, 5 * kKiB, world.first))) {
        EXPECT_OK(
            moiety_host_free_sized(host, block, 5 * kKiB, MOIETY_STREAM_DONE));
    }
    if (TRY(world, moiety_host_alloc,
            (host, 100 * kKiB, MOIETY_HOST_CPU, &block))) {
        (void)TRY(world, moiety_host_resize,
                  (host, block, 50 * kKiB, world.first));
        if (!TRY(world, moiety_host_free_all, (host, world.first, nullptr))) {
            EXPECT_OK(moiety_host_free_all(host, MOIETY_STREAM_DONE, nullptr));
        }
    }
}

} // namespace

// What could not be freed is the tenant's until it is.
void Tenants(World &world)
{
    moiety_tenant tenant = 0;
    moiety_tenant_stats info = {};
    info.struct_size = sizeof(info);
    if (!world.pool ||
        !TRY_NAMED(world, "moiety_tenant_create", create_tenant,
                   (world.pool, "tenant", 4 * kMiB, &tenant)) ||
        !TRY(world, moiety_tenant_set_budget, (tenant, 8 * kMiB)))
        return;
    AllocForTenant(world, tenant);
    world.FreeAll(world.first);
    EXPECT_TRUE(TRY(world, moiety_tenant_get_stats, (tenant, &info)));
    moiety_status status = moiety_tenant_destroy(tenant);
    (void)world.Try("moiety_tenant_destroy", status);
    EXPECT_EQ(info.live_bytes ? MOIETY_E_IN_USE : MOIETY_OK, status);
}

void Scopes(World &world)
{
    moiety_scope scope = 0;
    if (!world.pool)
        return;
    if (TRY(world, moiety_scope_begin, (world.pool, world.first, &scope))) {
        world.Alloc(4 * kKiB, world.second);
        world.FreeAll(world.second);
        EXPECT_TRUE(TRY(world, moiety_scope_end, (scope)));
        (void)TRY(world, moiety_scope_release, (scope));
    }
    (void)TRY(world, moiety_scope_release_all, (world.pool));
}

// What could not be freed is the pool's own block when the arena is gone.
void PrivateArenas(World &world)
{
    moiety_private arena = 0;
    moiety_scope scope = 0;
    moiety_private_stats info = {};
    uint64_t bytes = 0;
    info.struct_size = sizeof(info);
    if (!world.pool || !TRY_NAMED(world, "moiety_private_create", create_arena,
                                  (world.pool, 12 * kMiB, &arena)))
        return;
    UsePrivateArena(world, arena);
    (void)TRY(world, moiety_private_trim, (arena, &bytes));
    EXPECT_TRUE(TRY(world, moiety_private_get_stats, (arena, &info)));
    EXPECT_EQ(0u, info.graph_count);
    if (TRY(world, moiety_private_scope_begin, (arena, world.first, &scope))) {
        EXPECT_TRUE(TRY(world, moiety_scope_end, (scope)));
    }
    if (!TRY(world, moiety_private_destroy, (arena))) {
        EXPECT_OK(moiety_private_destroy(arena));
    }
    world.FreeAll(MOIETY_STREAM_ANY);
}

// A pool of its own. A block is as long as it was where it cannot change, and what
// one call does not free, the next one does.
void ResizeAndFreeAll(World &world)
{
    moiety_pool *pool = nullptr;
    moiety_devptr address = 0;
    uint64_t freed = 0;
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    moiety_pool_options options = pool_test::Defaults();
    options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    if (!TRY(world, moiety_pool_create, (&options, &pool)))
        return;
    for (size_t size_bytes : {8 * kKiB, 2 * kMiB}) {
        size_t bytes = 0;
        if (!TRY(world, moiety_alloc,
                 (pool, size_bytes, world.first, &address)))
            continue;
        if (TRY(world, moiety_resize,
                (pool, address, size_bytes / 2, world.first)))
            size_bytes /= 2;
        (void)TRY(world, moiety_record_use, (pool, address, world.second));
        if (TRY(world, moiety_resize,
                (pool, address, size_bytes * 3 / 2, world.first)))
            size_bytes = size_bytes * 3 / 2;
        if (TRY(world, moiety_resize,
                (pool, address, size_bytes / 2, world.first)))
            size_bytes /= 2;
        EXPECT_OK(moiety_usable_size(pool, address, &bytes));
        EXPECT_EQ(size_bytes, bytes);
    }
    bool is_freed = TRY(world, moiety_free_all, (pool, world.first, &freed));
    // Two calls of the driver may fail.
    for (int i = 0; i < 2 && !is_freed; i++)
        is_freed = moiety_free_all(pool, world.first, &freed) == MOIETY_OK;
    EXPECT_TRUE(is_freed) << moiety_last_error_message();
    if (TRY(world, moiety_pool_get_stats, (pool, &stats))) {
        EXPECT_EQ(0u, stats.allocated_bytes_current);
        EXPECT_EQ(0u, stats.double_frees_found);
        EXPECT_EQ(stats.reserved_bytes_current,
                  stats.cached_bytes + stats.retiring_bytes + stats.free_bytes);
    }
    (void)TRY_TO_END(world, moiety_pool_destroy, (pool, nullptr));
}

// A pool of its own, which notes streams. Large blocks take the long way.
void FreeOwn(World &world)
{
    moiety_pool *pool = nullptr;
    moiety_devptr address = 0;
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_NOTE_STREAMS;
    options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    if (!TRY(world, moiety_pool_create, (&options, &pool)))
        return;
    for (moiety_stream stream :
         {static_cast<moiety_stream>(world.first), MOIETY_STREAM_ANY})
        for (size_t size_bytes : {5 * kKiB, 3 * kMiB})
            if (TRY(world, moiety_alloc,
                    (pool, size_bytes, stream, &address)) &&
                !TRY(world, moiety_free_on_alloc_stream, (pool, address))) {
                EXPECT_OK(moiety_free(pool, address, MOIETY_STREAM_DONE));
            }
    (void)TRY_TO_END(world, moiety_pool_destroy, (pool, nullptr));
}

void LookBack(World &world)
{
    moiety_history_entry entries[8];
    moiety_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    world.Note("moiety_history_kind_name"), (void)moiety_history_kind_name(0);
    if (world.pool)
        (void)TRY(world, moiety_history_read,
                  (world.pool, entries, 8, &summary));
}

void Record(World &world)
{
    moiety_trace_summary summary = {};
    summary.struct_size = sizeof(summary);
    if (!world.pool ||
        !TRY(world, moiety_trace_start, (world.pool, "/dev/null")))
        return;
    world.Alloc(4 * kKiB, world.first);
    world.FreeAll(world.first);
    (void)TRY(world, moiety_trace_flush, (world.pool, &summary));
    (void)TRY(world, moiety_trace_stop, (world.pool, &summary));
}

void Snapshot(World &world)
{
    moiety_heap_snapshot *snapshot = nullptr;
    moiety_heap_summary summary = {};
    size_t segment_count = 0, interval_count = 0;
    summary.struct_size = sizeof(summary);
    world.Note("moiety_heap_kind_name"), (void)moiety_heap_kind_name(0);
    world.Alloc(4 * kKiB, world.first);
    if (world.pool &&
        TRY(world, moiety_heap_snapshot_create, (world.pool, &snapshot))) {
        EXPECT_TRUE(
            TRY(world, moiety_heap_snapshot_summary, (snapshot, &summary)));
        world.Note("moiety_heap_snapshot_segments");
        (void)moiety_heap_snapshot_segments(snapshot, &segment_count);
        world.Note("moiety_heap_snapshot_intervals");
        (void)moiety_heap_snapshot_intervals(snapshot, &interval_count);
        EXPECT_EQ(summary.segment_count, segment_count);
        EXPECT_EQ(summary.interval_count, interval_count);
    }
    world.Note("moiety_heap_snapshot_destroy");
    moiety_heap_snapshot_destroy(snapshot);
    world.FreeAll(world.first);
}

// A pool of its own, without findings whatever fails.
void Checked(World &world)
{
    moiety_pool *pool = nullptr;
    moiety_devptr address = 0;
    moiety_checked_counts counts = {};
    counts.struct_size = sizeof(counts);
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_CHECKED);
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    if (!TRY(world, moiety_pool_create, (&options, &pool)))
        return;
    if (TRY(world, moiety_alloc, (pool, 1000, world.first, &address)) &&
        !TRY(world, moiety_free, (pool, address, world.first)) &&
        !TRY(world, moiety_free, (pool, address, MOIETY_STREAM_DONE))) {
        // No more than two calls in a row fail.
        EXPECT_OK(moiety_free(pool, address, MOIETY_STREAM_DONE));
    }
    if (TRY(world, moiety_pool_check, (pool, &counts))) {
        EXPECT_EQ(0u, counts.writes_after_free + counts.writes_out_of_bounds);
        EXPECT_EQ(0u, counts.live_blocks);
    }
    (void)TRY_TO_END(world, moiety_pool_destroy, (pool, nullptr));
}

// All of it is there, so it calls nothing; and what one that is cancelled has pinned
// before is up to the threads.
void Growth(World &world, moiety_host *host)
{
    moiety_growth *growth = nullptr;
    if (!TRY(world, moiety_host_reserve_async, (host, 4 * kMiB, 1, &growth)))
        return;
    (void)TRY(world, moiety_growth_wait, (growth, 600000));
    world.Note("moiety_growth_descriptor");
    EXPECT_LE(0, moiety_growth_descriptor(growth));
    world.Note("moiety_growth_ready_bytes");
    EXPECT_GE(4 * kMiB, moiety_growth_ready_bytes(growth));
    world.Note("moiety_growth_cancel");
    moiety_growth_cancel(growth);
    EXPECT_TRUE(TRY(world, moiety_growth_destroy, (growth)));
}

void HostArena(World &world)
{
    moiety_host *host = nullptr;
    moiety_host_stats stats = {};
    char text[512];
    stats.struct_size = sizeof(stats);
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    options.limit_bytes = 4 * kMiB;
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    options.touch_threads = 1;
    options.wait_ms = MOIETY_WAIT_NONE;
    if (!TRY(world, moiety_host_create, (&options, &host)))
        return;
    world.Note("moiety_host_pool");
    EXPECT_NE(nullptr, moiety_host_pool(host));
    (void)TRY(world, moiety_host_reserve,
              (host, 4 * kMiB, 1, nullptr, nullptr));
    Growth(world, host);
    world.Note("moiety_host_cancel");
    moiety_host_cancel(host);
    UseHostArena(world, host);
    EXPECT_TRUE(TRY(world, moiety_host_get_stats, (host, &stats)));
    EXPECT_EQ(2 * kMiB * stats.region_count, stats.pinned_bytes);
    EXPECT_TRUE(TRY(world, moiety_host_report, (host, text, sizeof text)));
    (void)TRY(world, moiety_host_topology,
              (MOIETY_HOST_TOPOLOGY_TEXT, text, sizeof text, nullptr));
    EXPECT_TRUE(TRY(world, moiety_host_copy_to_children, (host)));
    (void)TRY(world, moiety_host_trim, (host, 0, nullptr));
    (void)TRY_TO_END(world, moiety_host_destroy, (host, nullptr));
    world.Note("moiety_host_destroy_later");
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_host_destroy_later(host));
}

// What could not be unpinned waits for the next call of these.
void Pins(World &world)
{
    static char memory[10000];
    (void)TRY(world, moiety_host_pin_keep, (sizeof memory));
    if (TRY(world, moiety_host_pin, (memory, sizeof memory)))
        (void)TRY(world, moiety_host_unpin, (memory, sizeof memory));
    (void)TRY(world, moiety_host_pin_keep, (0));
}

// The thread that serves asks the pool nothing here: the scenario's faults are
// of the calling thread's.
void Expose(World &world)
{
    // A socket's path is short, and sandboxes have process ids of their own.
    char folder[] = "/tmp/moiety-fault-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(folder));
    (void)TRY(world, moiety_expose_start,
              ((std::string(folder) + "/s").c_str()));
    EXPECT_TRUE(TRY(world, moiety_expose_stop, ()));
    EXPECT_EQ(0, rmdir(folder));
}

} // namespace fault_test

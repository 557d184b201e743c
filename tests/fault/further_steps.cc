// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/further_steps.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace fault_test
{

using pool_test::kKiB;
using pool_test::kMiB;

namespace
{

void AllocForTenant(World &world, binade_tenant tenant)
{
    binade_devptr address = 0;
    if (TRY(world, binade_tenant_alloc,
            (tenant, 5 * kKiB, world.first, &address)))
        world.Own(address, 5 * kKiB);
    if (TRY(world, binade_tenant_alloc_aligned,
            (tenant, 5 * kKiB, 16 * kKiB, world.first, &address)))
        world.Own(address, 5 * kKiB);
    if (TRY(world, binade_tenant_try_alloc,
            (tenant, 3 * kMiB, world.first, &address)))
        world.Own(address, 3 * kMiB);
}

// The newest block is freed and taken again, for another stream.
void FreeAndClaim(World &world, binade_private arena)
{
    binade_devptr address = 0;
    size_t freed_bytes = 0;
    world.FreeNewest([&](binade_devptr block, size_t size_bytes) {
        if (!TRY(world, binade_free, (world.pool, block, world.first)))
            return false;
        address = block;
        freed_bytes = size_bytes;
        return true;
    });
    if (freed_bytes && TRY(world, binade_private_claim,
                           (arena, address, freed_bytes, world.second)))
        world.Own(address, freed_bytes);
}

void UsePrivateArena(World &world, binade_private arena)
{
    binade_devptr address = 0;
    for (binade_stream stream : {static_cast<binade_stream>(world.first),
                                 static_cast<binade_stream>(world.second)})
        for (size_t size_bytes : {5 * kKiB, 3 * kMiB})
            if (TRY(world, binade_private_alloc,
                    (arena, size_bytes, stream, &address)))
                world.Own(address, size_bytes);
    FreeAndClaim(world, arena);
    world.FreeAll(world.first);
    if (TRY(world, binade_private_alloc,
            (arena, 9 * kKiB, world.second, &address)))
        world.Own(address, 9 * kKiB);
    world.FreeAll(BINADE_STREAM_ANY);
}

// A block that stays ours when it is not taken is taken the next time.
void UseHostArena(World &world, binade_host *host)
{
    void *block = nullptr;
    binade_devptr device = 0;
    if (TRY(world, binade_host_alloc,
            (host, 5 * kKiB, BINADE_HOST_CPU, &block))) {
        std::memset(block, 1, 5 * kKiB);
        EXPECT_TRUE(
            TRY(world, binade_host_device_address, (host, block, &device)));
        if (!TRY(world, binade_host_free, (host, block, world.first))) {
            EXPECT_EQ(BINADE_OK,
                      binade_host_free(host, block, BINADE_STREAM_DONE));
        }
    }
    if (TRY(world, binade_host_try_alloc,
            (host, 5 * kKiB, world.first, &block)) &&
        !TRY(world, binade_host_free_sized,
             (host, block, 5 * kKiB, world.first))) {
        EXPECT_EQ(BINADE_OK, binade_host_free_sized(host, block, 5 * kKiB,
                                                    BINADE_STREAM_DONE));
    }
    if (TRY(world, binade_host_alloc,
            (host, 100 * kKiB, BINADE_HOST_CPU, &block))) {
        (void)TRY(world, binade_host_resize,
                  (host, block, 50 * kKiB, world.first));
        if (!TRY(world, binade_host_free_all, (host, world.first, nullptr))) {
            EXPECT_EQ(BINADE_OK,
                      binade_host_free_all(host, BINADE_STREAM_DONE, nullptr));
        }
    }
}

} // namespace

// What could not be freed is the tenant's until it is.
void Tenants(World &world)
{
    binade_tenant tenant = 0;
    binade_tenant_info info = {};
    info.struct_size = sizeof(info);
    if (!world.pool ||
        !TRY(world, binade_tenant_create,
             (world.pool, "tenant", 4 * kMiB, &tenant)) ||
        !TRY(world, binade_tenant_set_budget, (tenant, 8 * kMiB)))
        return;
    AllocForTenant(world, tenant);
    world.FreeAll(world.first);
    EXPECT_TRUE(TRY(world, binade_tenant_stats, (tenant, &info)));
    binade_status status = binade_tenant_destroy(tenant);
    (void)world.Try("binade_tenant_destroy", status);
    EXPECT_EQ(info.live_bytes ? BINADE_E_BUSY : BINADE_OK, status);
}

void Scopes(World &world)
{
    binade_scope scope = 0;
    if (!world.pool)
        return;
    if (TRY(world, binade_scope_begin, (world.pool, world.first, &scope))) {
        world.Alloc(4 * kKiB, world.second);
        world.FreeAll(world.second);
        EXPECT_TRUE(TRY(world, binade_scope_end, (scope)));
        (void)TRY(world, binade_scope_release, (scope));
    }
    (void)TRY(world, binade_scope_release_all, (world.pool));
}

// What could not be freed is the pool's own block when the arena is gone.
void PrivateArenas(World &world)
{
    binade_private arena = 0;
    binade_scope scope = 0;
    binade_private_info info = {};
    uint64_t bytes = 0;
    info.struct_size = sizeof(info);
    if (!world.pool ||
        !TRY(world, binade_private_create, (world.pool, 12 * kMiB, &arena)))
        return;
    UsePrivateArena(world, arena);
    (void)TRY(world, binade_private_trim, (arena, &bytes));
    EXPECT_TRUE(TRY(world, binade_private_stats, (arena, &info)));
    EXPECT_EQ(0u, info.graph_count);
    if (TRY(world, binade_private_scope_begin, (arena, world.first, &scope))) {
        EXPECT_TRUE(TRY(world, binade_scope_end, (scope)));
    }
    if (!TRY(world, binade_private_release, (arena))) {
        EXPECT_EQ(BINADE_OK, binade_private_release(arena))
            << binade_last_error_message();
    }
    world.FreeAll(BINADE_STREAM_ANY);
}

// A pool of its own. A block is as long as it was where it cannot change, and what
// one call does not free, the next one does.
void ResizeAndFreeAll(World &world)
{
    binade_pool *pool = nullptr;
    binade_devptr address = 0;
    uint64_t freed = 0;
    binade_stats stats = {};
    stats.struct_size = sizeof(stats);
    binade_pool_options options = pool_test::Defaults();
    options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
    options.wait_ms = 0;
    if (!TRY(world, binade_pool_create, (&options, &pool)))
        return;
    for (size_t size_bytes : {8 * kKiB, 2 * kMiB}) {
        size_t bytes = 0;
        if (!TRY(world, binade_alloc,
                 (pool, size_bytes, world.first, &address)))
            continue;
        if (TRY(world, binade_resize,
                (pool, address, size_bytes / 2, world.first)))
            size_bytes /= 2;
        (void)TRY(world, binade_record_use, (pool, address, world.second));
        if (TRY(world, binade_resize,
                (pool, address, size_bytes * 3 / 2, world.first)))
            size_bytes = size_bytes * 3 / 2;
        if (TRY(world, binade_resize,
                (pool, address, size_bytes / 2, world.first)))
            size_bytes /= 2;
        EXPECT_EQ(BINADE_OK, binade_usable_size(pool, address, &bytes));
        EXPECT_EQ(size_bytes, bytes);
    }
    if (!TRY(world, binade_free_all, (pool, world.first, &freed))) {
        EXPECT_EQ(BINADE_OK, binade_free_all(pool, world.first, &freed));
    }
    if (TRY(world, binade_pool_stats, (pool, &stats))) {
        EXPECT_EQ(0u, stats.allocated_bytes_current);
        EXPECT_EQ(0u, stats.double_frees_found);
        EXPECT_EQ(stats.reserved_bytes_current,
                  stats.cached_bytes + stats.retiring_bytes + stats.free_bytes);
    }
    (void)TRY(world, binade_pool_destroy, (pool, nullptr));
}

// A pool of its own, which notes streams. Large blocks take the long way.
void FreeOwn(World &world)
{
    binade_pool *pool = nullptr;
    binade_devptr address = 0;
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_NOTE_STREAMS;
    options.first_segment_bytes = options.largest_segment_bytes = 4 * kMiB;
    options.wait_ms = 0;
    if (!TRY(world, binade_pool_create, (&options, &pool)))
        return;
    for (binade_stream stream :
         {static_cast<binade_stream>(world.first), BINADE_STREAM_ANY})
        for (size_t size_bytes : {5 * kKiB, 3 * kMiB})
            if (TRY(world, binade_alloc,
                    (pool, size_bytes, stream, &address)) &&
                !TRY(world, binade_free_own, (pool, address))) {
                EXPECT_EQ(BINADE_OK,
                          binade_free(pool, address, BINADE_STREAM_DONE));
            }
    (void)TRY(world, binade_pool_destroy, (pool, nullptr));
}

void LookBack(World &world)
{
    binade_history_entry entries[8];
    binade_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    world.Note("binade_history_kind_name"), (void)binade_history_kind_name(0);
    if (world.pool)
        (void)TRY(world, binade_history_read,
                  (world.pool, entries, 8, &summary));
}

void Record(World &world)
{
    binade_record_summary summary = {};
    summary.struct_size = sizeof(summary);
    if (!world.pool ||
        !TRY(world, binade_record_start, (world.pool, "/dev/null")))
        return;
    world.Alloc(4 * kKiB, world.first);
    world.FreeAll(world.first);
    (void)TRY(world, binade_record_flush, (world.pool, &summary));
    (void)TRY(world, binade_record_stop, (world.pool, &summary));
}

void Snapshot(World &world)
{
    binade_heap_snapshot *snapshot = nullptr;
    binade_heap_summary summary = {};
    size_t segment_count = 0, interval_count = 0;
    summary.struct_size = sizeof(summary);
    world.Note("binade_heap_kind_name"), (void)binade_heap_kind_name(0);
    world.Alloc(4 * kKiB, world.first);
    if (world.pool &&
        TRY(world, binade_heap_snapshot_create, (world.pool, &snapshot))) {
        EXPECT_TRUE(
            TRY(world, binade_heap_snapshot_summary, (snapshot, &summary)));
        world.Note("binade_heap_snapshot_segments");
        (void)binade_heap_snapshot_segments(snapshot, &segment_count);
        world.Note("binade_heap_snapshot_intervals");
        (void)binade_heap_snapshot_intervals(snapshot, &interval_count);
        EXPECT_EQ(summary.segment_count, segment_count);
        EXPECT_EQ(summary.interval_count, interval_count);
    }
    world.Note("binade_heap_snapshot_destroy");
    binade_heap_snapshot_destroy(snapshot);
    world.FreeAll(world.first);
}

// A pool of its own, without findings whatever fails.
void Checked(World &world)
{
    binade_pool *pool = nullptr;
    binade_devptr address = 0;
    binade_checked_counts counts = {};
    counts.struct_size = sizeof(counts);
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_CHECKED;
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    options.wait_ms = 0;
    if (!TRY(world, binade_pool_create, (&options, &pool)))
        return;
    if (TRY(world, binade_alloc, (pool, 1000, world.first, &address)) &&
        !TRY(world, binade_free, (pool, address, world.first))) {
        EXPECT_EQ(BINADE_OK, binade_free(pool, address, BINADE_STREAM_DONE));
    }
    if (TRY(world, binade_pool_check, (pool, &counts))) {
        EXPECT_EQ(0u, counts.writes_after_free + counts.writes_out_of_bounds);
        EXPECT_EQ(0u, counts.live_blocks);
    }
    (void)TRY(world, binade_pool_destroy, (pool, nullptr));
}

void HostArena(World &world)
{
    binade_host *host = nullptr;
    binade_host_stats stats = {};
    char text[512];
    stats.struct_size = sizeof(stats);
    binade_host_options options = BINADE_HOST_OPTIONS_INIT;
    options.limit_bytes = 4 * kMiB;
    options.first_segment_bytes = options.largest_segment_bytes = 2 * kMiB;
    options.touch_threads = 1;
    options.wait_ms = 0;
    if (!TRY(world, binade_host_create, (&options, &host)))
        return;
    world.Note("binade_host_pool");
    EXPECT_NE(nullptr, binade_host_pool(host));
    (void)TRY(world, binade_host_reserve,
              (host, 4 * kMiB, 1, nullptr, nullptr));
    UseHostArena(world, host);
    EXPECT_TRUE(TRY(world, binade_host_stats_get, (host, &stats)));
    EXPECT_EQ(2 * kMiB * stats.region_count, stats.pinned_bytes);
    EXPECT_TRUE(TRY(world, binade_host_report, (host, text, sizeof text)));
    (void)TRY(world, binade_host_topology,
              (BINADE_HOST_TOPOLOGY_TEXT, text, sizeof text, nullptr));
    (void)TRY(world, binade_host_trim, (host, 0, nullptr));
    (void)TRY(world, binade_host_destroy, (host, nullptr));
}

// What could not be unpinned waits for the next call of these.
void Pins(World &world)
{
    static char memory[10000];
    (void)TRY(world, binade_host_pin_keep, (sizeof memory));
    if (TRY(world, binade_host_pin, (memory, sizeof memory)))
        (void)TRY(world, binade_host_unpin, (memory, sizeof memory));
    (void)TRY(world, binade_host_pin_keep, (0));
}

// The thread that serves asks the pool nothing here: the scenario's faults are
// of the calling thread's.
void Expose(World &world)
{
    // A socket's path is short, and sandboxes have process ids of their own.
    char folder[] = "/tmp/binade-fault-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(folder));
    (void)TRY(world, binade_expose_start,
              ((std::string(folder) + "/s").c_str()));
    EXPECT_TRUE(TRY(world, binade_expose_stop, ()));
    EXPECT_EQ(0, rmdir(folder));
}

} // namespace fault_test

// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/mapped_steps.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include "binade/segment.h"
#include "tests/segment/ledger.h"

namespace fault_test
{

using pool_test::kKiB;
using pool_test::kMiB;

namespace
{

constexpr int kPeer = 1;

// A pool of its own, whose end takes all that a failure has left in it.
binade_pool *CreateMapped(World &world)
{
    binade_pool *pool = nullptr;
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_MAPPED | BINADE_POOL_EXPORTABLE;
    options.wait_ms = 0;
    return TRY(world, binade_pool_create, (&options, &pool)) ? pool : nullptr;
}

void Hold(World &world, binade_pool *pool, binade_devptr block)
{
    binade_segment_info info = {};
    info.struct_size = sizeof info;
    EXPECT_TRUE(TRY(world, binade_segment_find, (pool, block, &info)));
    if (TRY(world, binade_segment_hold, (pool, block, 5 * kMiB))) {
        EXPECT_TRUE(
            TRY(world, binade_segment_release, (pool, block, 5 * kMiB)));
    }
}

void Added(void *user, const binade_segment_info *info)
{
    static_cast<segment_test::Ledger *>(user)->Add(info->id, info->address,
                                                   info->size_bytes);
}

void Releasing(void *user, const binade_segment_info *info)
{
    static_cast<segment_test::Ledger *>(user)->Release(info->id, info->address,
                                                       info->size_bytes);
}

bool Watch(World &world, binade_pool *pool, segment_test::Ledger &told,
           uint64_t *out_id)
{
    binade_segment_watcher watcher = {};
    watcher.struct_size = sizeof watcher;
    watcher.user = &told;
    watcher.added = Added;
    watcher.releasing = Releasing;
    return TRY(world, binade_segment_watch, (pool, &watcher, out_id));
}

// For a while.
void WatchAndLeave(World &world, binade_pool *pool)
{
    segment_test::Ledger told;
    uint64_t id = 0;
    if (Watch(world, pool, told, &id)) {
        EXPECT_TRUE(TRY(world, binade_segment_unwatch, (pool, id)));
        EXPECT_LT(0u, told.LiveBytes());
    }
}

// To this very process, through a socket.
void Send(World &world, binade_pool *pool, binade_devptr block)
{
    int ends[2];
    binade_ipc_handle handle;
    binade_devptr received = 0;
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    if (TRY(world, binade_ipc_ticket, (pool, block, &handle)) &&
        TRY(world, binade_ipc_send, (pool, block, ends[0])) &&
        TRY(world, binade_ipc_receive,
            (ends[1], nullptr, &handle, &received))) {
        EXPECT_EQ(block, received);
        EXPECT_EQ(BINADE_OK,
                  binade_ipc_close(received, BINADE_STREAM_DONE, nullptr));
    }
    EXPECT_EQ(0, close(ends[0]));
    EXPECT_EQ(0, close(ends[1]));
    (void)TRY(world, binade_ipc_release_exports, (pool, 0));
}

// What is paused and does not come back stays paused.
void PauseArena(World &world, binade_pool *pool)
{
    binade_private arena = 0;
    binade_devptr block = 0;
    binade_private_options options = {};
    options.struct_size = sizeof options;
    options.flags = BINADE_PRIVATE_PAUSABLE;
    if (!TRY(world, binade_private_create_with, (pool, &options, &arena)))
        return;
    if (TRY(world, binade_private_alloc,
            (arena, 3 * kMiB, world.first, &block))) {
        if (TRY(world, binade_private_pause,
                (arena, BINADE_PAUSE_KEEP_CONTENTS)))
            (void)TRY(world, binade_private_resume, (arena));
        (void)TRY(world, binade_free, (pool, block, world.first));
    }
    (void)TRY(world, binade_private_release, (arena));
}

void PauseTenant(World &world, binade_pool *pool)
{
    binade_tenant tenant = 0;
    binade_private arena = 0;
    binade_devptr block = 0;
    binade_tenant_options options = {};
    options.struct_size = sizeof options;
    options.flags = BINADE_TENANT_PAUSABLE;
    options.name = "paused";
    if (!TRY(world, binade_tenant_create_with, (pool, &options, &tenant)))
        return;
    EXPECT_TRUE(TRY(world, binade_tenant_private, (tenant, &arena)));
    if (TRY(world, binade_tenant_alloc,
            (tenant, 5 * kKiB, world.first, &block))) {
        if (TRY(world, binade_tenant_pause, (tenant, 0)))
            (void)TRY(world, binade_tenant_resume, (tenant));
        (void)TRY(world, binade_free, (pool, block, world.first));
    }
    (void)TRY(world, binade_tenant_destroy, (tenant));
}

} // namespace

void Mapped(World &world)
{
    binade_devptr block = 0;
    segment_test::Ledger told;
    uint64_t id = 0;
    binade_pool *pool = CreateMapped(world);
    if (!pool)
        return;
    (void)Watch(world, pool, told, &id);
    if (TRY(world, binade_alloc, (pool, 5 * kMiB, world.first, &block))) {
        (void)TRY(world, binade_pool_add_peer, (pool, kPeer));
        Hold(world, pool, block);
        WatchAndLeave(world, pool);
        Send(world, pool, block);
        (void)TRY(world, binade_free, (pool, block, world.first));
    }
    PauseArena(world, pool);
    PauseTenant(world, pool);
    (void)TRY(world, binade_pool_destroy, (pool, nullptr));
    EXPECT_EQ("", told.Complaint());
    EXPECT_EQ(0u, told.LiveBytes()) << "each that was added is released";
}

} // namespace fault_test

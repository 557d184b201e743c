// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fault/mapped_steps.h"

#include <sys/socket.h>
#include <unistd.h>

#include "moiety/segment.h"
#include "tests/segment/ledger.h"
#include "tests/support/tools/pools.h"

namespace fault_test
{

using namespace pool_test;

namespace
{

constexpr int kPeer = 1;

// A pool of its own, whose end takes all that a failure has left in it.
moiety_pool *CreateMapped(World &world)
{
    moiety_pool *pool = nullptr;
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_MAPPED | MOIETY_POOL_EXPORTABLE);
    options.wait_ms = MOIETY_WAIT_NONE;
    return TRY(world, moiety_pool_create, (&options, &pool)) ? pool : nullptr;
}

void Hold(World &world, moiety_pool *pool, moiety_devptr block)
{
    moiety_segment_info info = {};
    info.struct_size = sizeof info;
    EXPECT_TRUE(TRY(world, moiety_segment_find, (pool, block, &info)));
    if (TRY(world, moiety_segment_hold, (pool, block, 5 * kMiB))) {
        EXPECT_TRUE(TRY(world, moiety_segment_unhold, (pool, block, 5 * kMiB)));
    }
}

void Added(void *user, const moiety_segment_info *info)
{
    static_cast<segment_test::Ledger *>(user)->Add(info->id, info->address,
                                                   info->size_bytes);
}

void Releasing(void *user, const moiety_segment_info *info)
{
    static_cast<segment_test::Ledger *>(user)->Release(info->id, info->address,
                                                       info->size_bytes);
}

bool Watch(World &world, moiety_pool *pool, segment_test::Ledger &told,
           moiety_watch *out)
{
    moiety_segment_watcher watcher = {};
    watcher.struct_size = sizeof watcher;
    watcher.user = &told;
    watcher.added = Added;
    watcher.releasing = Releasing;
    return TRY(world, moiety_segment_watch, (pool, &watcher, out));
}

// For a while.
void WatchAndLeave(World &world, moiety_pool *pool)
{
    segment_test::Ledger told;
    moiety_watch watch = nullptr;
    if (Watch(world, pool, told, &watch)) {
        EXPECT_TRUE(TRY(world, moiety_segment_unwatch, (pool, watch)));
        EXPECT_LT(0u, told.LiveBytes());
    }
}

// To this very process, through a socket.
void Send(World &world, moiety_pool *pool, moiety_devptr block)
{
    int ends[2];
    moiety_ipc_handle handle;
    moiety_devptr received = 0;
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    if (TRY(world, moiety_ipc_ticket, (pool, block, &handle)) &&
        TRY(world, moiety_ipc_send, (pool, block, ends[0])) &&
        TRY(world, moiety_ipc_receive,
            (ends[1], nullptr, &handle, &received))) {
        EXPECT_EQ(block, received);
        EXPECT_OK(moiety_ipc_close(received, MOIETY_STREAM_DONE, nullptr));
    }
    EXPECT_EQ(0, close(ends[0]));
    EXPECT_EQ(0, close(ends[1]));
    (void)TRY(world, moiety_ipc_release_exports, (pool, 0));
}

// What is paused and does not come back stays paused.
void PauseArena(World &world, moiety_pool *pool)
{
    moiety_private arena = 0;
    moiety_devptr block = 0;
    moiety_private_options options = {};
    options.struct_size = sizeof options;
    options.flags = MOIETY_PRIVATE_PAUSABLE;
    if (!TRY(world, moiety_private_create, (pool, &options, &arena)))
        return;
    if (TRY_WAY(world, alloc_of_arena,
                (arena, 3 * kMiB, world.first, &block))) {
        if (TRY(world, moiety_private_pause,
                (arena, MOIETY_PAUSE_KEEP_CONTENTS)))
            (void)TRY(world, moiety_private_resume, (arena));
        (void)TRY(world, moiety_free, (pool, block, world.first));
    }
    (void)TRY(world, moiety_private_destroy, (arena));
}

void PauseTenant(World &world, moiety_pool *pool)
{
    moiety_tenant tenant = 0;
    moiety_private arena = 0;
    moiety_devptr block = 0;
    moiety_tenant_options options = {};
    options.struct_size = sizeof options;
    options.flags = MOIETY_TENANT_PAUSABLE;
    options.name = "paused";
    if (!TRY(world, moiety_tenant_create, (pool, &options, &tenant)))
        return;
    EXPECT_TRUE(TRY(world, moiety_tenant_private, (tenant, &arena)));
    if (TRY_WAY(world, alloc_for_tenant,
                (tenant, 5 * kKiB, world.first, &block))) {
        if (TRY(world, moiety_tenant_pause, (tenant, 0)))
            (void)TRY(world, moiety_tenant_resume, (tenant));
        (void)TRY(world, moiety_free, (pool, block, world.first));
    }
    (void)TRY(world, moiety_tenant_destroy, (tenant));
}

} // namespace

void Mapped(World &world)
{
    moiety_devptr block = 0;
    segment_test::Ledger told;
    moiety_watch watch = nullptr;
    moiety_pool *pool = CreateMapped(world);
    if (!pool)
        return;
    (void)Watch(world, pool, told, &watch);
    if (TRY(world, moiety_alloc, (pool, 5 * kMiB, world.first, &block))) {
        (void)TRY(world, moiety_pool_add_peer, (pool, kPeer));
        Hold(world, pool, block);
        WatchAndLeave(world, pool);
        Send(world, pool, block);
        (void)TRY(world, moiety_free, (pool, block, world.first));
    }
    PauseArena(world, pool);
    PauseTenant(world, pool);
    (void)TRY_TO_END(world, moiety_pool_destroy, (pool, nullptr));
    EXPECT_EQ("", told.Complaint());
    EXPECT_EQ(0u, told.LiveBytes()) << "each that was added is released";
}

} // namespace fault_test

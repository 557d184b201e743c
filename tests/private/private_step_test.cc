// SPDX-License-Identifier: Apache-2.0
//
// A call that stands still between two looks under the lock of its arena, while
// others change what it goes on with.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "moiety/private.h"
#include "moiety/stats.h"
#include "moiety/tenant.h"
#include "tests/support/tools/pools.h"

extern "C" {
#include "tests/progress/freeze.h"
#include "tests/support/tools/stage.h"
}

namespace
{

constexpr size_t kBytes = size_t{2} << 20;

class PrivateStep : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(stage_open());
        ASSERT_TRUE(stage_init(&stage_));
        moiety_pool_options options = driver_options();
        options.wait_ms = MOIETY_WAIT_NONE;
        set_kind(&options, Flags());
        ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool_));
        ASSERT_EQ(MOIETY_OK, create_arena(pool_, kBytes, &arena_));
    }

    void TearDown() override
    {
        const moiety_pool_stats stats = Stats();
        EXPECT_EQ(0u, stats.allocation_current);
        EXPECT_EQ(0u, stats.allocated_bytes_current);
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, nullptr));
        stage_fini(&stage_);
    }

    virtual uint32_t Flags() const
    {
        return 0;
    }

    moiety_pool_stats Stats() const
    {
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        EXPECT_EQ(MOIETY_OK, moiety_pool_get_stats(pool_, &stats));
        return stats;
    }

    moiety_stream Handle(unsigned index) const
    {
        return stage_.streams[index].handle;
    }

    moiety_status Take(unsigned index)
    {
        return alloc_of_arena(arena_, kBytes, Handle(index), &block_);
    }

    // Does the first in a thread that stands still at the step, and the second
    // meanwhile.
    static void Overtake(const char *step, const std::function<void()> &slow,
                         const std::function<void()> &fast)
    {
        std::thread thread([&] {
            (void)stage_enter();
            freeze_wish wish = {step, 1};
            freeze_follow(&wish);
            slow();
            freeze_follow(nullptr);
        });
        while (!freeze_is_on())
            std::this_thread::yield();
        fast();
        freeze_release();
        thread.join();
    }

    struct stage stage_ = {};
    moiety_pool *pool_ = nullptr;
    moiety_private arena_ = 0;
    moiety_devptr block_ = 0;
};

TEST_F(PrivateStep, AFreeIsOvertakenByTheRelease)
{
    ASSERT_EQ(MOIETY_OK, Take(0));
    Overtake(
        "private.freed",
        [&] { EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block_, Handle(0))); },
        [&] {
            EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
            // In the same place.
            EXPECT_EQ(MOIETY_OK, create_arena(pool_, 0, &arena_));
        });
    moiety_private_stats info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(MOIETY_OK, moiety_private_get_stats(arena_, &info));
    EXPECT_EQ(0u, info.live_count);
    EXPECT_EQ(0u, info.waiting_bytes);
    EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
}

// The event that was over is that of an earlier closing.
TEST_F(PrivateStep, ADrainIsOvertakenByTheNextClosing)
{
    ASSERT_EQ(MOIETY_OK, Take(0));
    ASSERT_EQ(MOIETY_OK, moiety_free(pool_, block_, Handle(0)));
    ASSERT_TRUE(stage_settle());
    uint64_t bytes = 0;
    Overtake(
        "private.over",
        [&] {
            // Nothing of the next closing becomes done.
            EXPECT_EQ(MOIETY_OK, moiety_private_trim(arena_, &bytes));
        },
        [&] {
            ASSERT_EQ(MOIETY_OK, Take(1));
            ASSERT_TRUE(stage_hold(&stage_, 1));
            ASSERT_EQ(MOIETY_OK, moiety_free(pool_, block_, Handle(1)));
            EXPECT_EQ(MOIETY_E_BUDGET, Take(0));
        });
    EXPECT_EQ(0u, bytes);
    EXPECT_EQ(MOIETY_E_BUDGET, Take(0));
    EXPECT_TRUE(stage_release(&stage_, 1));
    EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
}

TEST_F(PrivateStep, GrowingIsOvertakenByTheRelease)
{
    Overtake(
        "private.escalated", [&] { EXPECT_EQ(MOIETY_E_DESTROYED, Take(0)); },
        [&] { EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_)); });
}

// The memory is the pool's already, and another arena has taken it: one that is
// looked for first, so that it is found without the lock of the one that ends.
TEST_F(PrivateStep, TheReleaseIsOvertakenByTheNextOwner)
{
    moiety_private ending = 0;
    moiety_devptr before = 0;
    moiety_private_stats info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(MOIETY_OK, create_arena(pool_, kBytes, &ending));
    ASSERT_EQ(MOIETY_OK, alloc_of_arena(ending, kBytes, Handle(0), &before));
    // There is nothing else to take.
    std::vector<moiety_devptr> rest;
    moiety_devptr one = 0;
    ASSERT_EQ(MOIETY_OK,
              moiety_pool_set_limit(pool_, Stats().reserved_bytes_current));
    while (moiety_alloc(pool_, kBytes, Handle(0), &one) == MOIETY_OK)
        rest.push_back(one);
    ASSERT_EQ(MOIETY_OK, moiety_free(pool_, before, MOIETY_STREAM_DONE));
    Overtake(
        "private.disowning",
        [&] { EXPECT_EQ(MOIETY_OK, moiety_private_destroy(ending)); },
        [&] { ASSERT_EQ(MOIETY_OK, Take(1)); });
    EXPECT_EQ(before, block_);
    for (moiety_devptr block : rest)
        EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block, Handle(0)));
    EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block_, Handle(1)));
    EXPECT_EQ(MOIETY_OK, moiety_private_get_stats(arena_, &info));
    EXPECT_EQ(0u, info.live_count);
    EXPECT_EQ(kBytes, info.reserved_bytes);
    EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
}

class MappedPrivateStep : public PrivateStep
{
  protected:
    uint32_t Flags() const override
    {
        return KIND_MAPPED;
    }
};

// The arena now in its place has handles of its own; the one that grows has not,
// and takes what the pool has free.
TEST_F(MappedPrivateStep, GrowingIsOvertakenByAnArenaOfAnotherKind)
{
    moiety_private_options options = {};
    options.struct_size = sizeof options;
    options.flags = MOIETY_PRIVATE_FIXED;
    moiety_private next = 0;
    ASSERT_EQ(MOIETY_OK, Take(0));
    ASSERT_EQ(MOIETY_OK, moiety_free(pool_, block_, MOIETY_STREAM_DONE));
    ASSERT_EQ(MOIETY_OK, moiety_private_trim(arena_, nullptr));
    uint64_t reserved_bytes = Stats().reserved_bytes_current;
    ASSERT_LE(kBytes, reserved_bytes);
    Overtake(
        "private.growing", [&] { EXPECT_EQ(MOIETY_E_DESTROYED, Take(0)); },
        [&] {
            EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
            EXPECT_EQ(MOIETY_OK, moiety_private_create(pool_, &options, &next));
        });
    EXPECT_EQ(reserved_bytes, Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_OK, moiety_private_destroy(next));
}

// What was reserved for the growth is reserved no more: the limit has room for
// exactly one such block.
TEST_F(MappedPrivateStep, GrowingIsOvertakenByAPause)
{
    moiety_private_options options = {};
    moiety_private_stats info = {};
    options.struct_size = sizeof options;
    options.flags = MOIETY_PRIVATE_PAUSABLE;
    options.limit_bytes = kBytes;
    info.struct_size = sizeof info;
    ASSERT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
    ASSERT_EQ(MOIETY_OK, moiety_private_create(pool_, &options, &arena_));
    Overtake(
        "private.escalated", [&] { EXPECT_EQ(MOIETY_E_PAUSED, Take(0)); },
        [&] { EXPECT_EQ(MOIETY_OK, moiety_private_pause(arena_, 0)); });
    ASSERT_EQ(MOIETY_OK, moiety_private_resume(arena_));
    EXPECT_EQ(MOIETY_OK, moiety_private_get_stats(arena_, &info));
    EXPECT_EQ(0u, info.reserved_bytes);
    EXPECT_EQ(MOIETY_OK, Take(0));
    EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block_, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
}

// The block is an ordinary one by then, and its tenant has it no more.
TEST_F(MappedPrivateStep, AFreeOfATenantsIsOvertakenByTheRelease)
{
    moiety_tenant_options options = {};
    moiety_tenant_stats info = {};
    moiety_tenant tenant = 0;
    moiety_private arena = 0;
    options.struct_size = sizeof options;
    options.flags = MOIETY_TENANT_PAUSABLE;
    info.struct_size = sizeof info;
    ASSERT_EQ(MOIETY_OK, moiety_private_destroy(arena_));
    ASSERT_EQ(MOIETY_OK, moiety_tenant_create(pool_, &options, &tenant));
    ASSERT_EQ(MOIETY_OK, moiety_tenant_private(tenant, &arena));
    ASSERT_EQ(MOIETY_OK, alloc_for_tenant(tenant, kBytes, Handle(0), &block_));
    Overtake(
        "private.freed",
        [&] { EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block_, Handle(0))); },
        [&] { EXPECT_EQ(MOIETY_OK, moiety_private_destroy(arena)); });
    EXPECT_EQ(MOIETY_OK, moiety_tenant_get_stats(tenant, &info));
    EXPECT_EQ(0u, info.live_bytes);
    // Its arena is gone already.
    (void)!moiety_tenant_destroy(tenant);
}

} // namespace

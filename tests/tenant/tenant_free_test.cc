// SPDX-License-Identifier: Apache-2.0
//
// All the ways back of a tenant's block: whichever it takes, the tenant is
// released once, when the block is free, and not before.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/tenant/tenant_under_test.h"

namespace
{

using namespace pool_test;
using namespace tenant_test;

class TenantFree : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

const moiety_stream kLegacy = MOIETY_STREAM_LEGACY;

TEST_F(TenantFree, HasManyWays)
{
    Pool pool;
    Stream other;
    moiety_event event = pool_test::NewEvent();
    moiety_tenant tenant = NewTenant(pool, 0);
    const std::vector<std::function<moiety_status(moiety_devptr, size_t)>>
        ways = {
            [&](moiety_devptr block, size_t) {
                return moiety_free(pool, block, kLegacy);
            },
            [&](moiety_devptr block, size_t) {
                return moiety_free(pool, block, other);
            },
            [&](moiety_devptr block, size_t) {
                return moiety_free(pool, block, MOIETY_STREAM_ANY);
            },
            [&](moiety_devptr block, size_t) {
                return moiety_free(pool, block, MOIETY_STREAM_DONE);
            },
            [&](moiety_devptr block, size_t size_bytes) {
                return moiety_free_sized(pool, block, size_bytes, kLegacy);
            },
            [&](moiety_devptr block, size_t size_bytes) {
                return moiety_free_sized(pool, block, size_bytes, other);
            },
            [&](moiety_devptr block, size_t) {
                return moiety_free_batch(pool, &block, 1, kLegacy, nullptr);
            },
            [&](moiety_devptr block, size_t) {
                return moiety_free_on_event(pool, block, event);
            },
            [&](moiety_devptr block, size_t) {
                EXPECT_OK(moiety_record_use(pool, block, other));
                return moiety_free(pool, block, kLegacy);
            },
            [&](moiety_devptr block, size_t size_bytes) {
                EXPECT_OK(moiety_record_use(pool, block, other));
                return moiety_free_sized(pool, block, size_bytes, kLegacy);
            },
            [&](moiety_devptr block, size_t) {
                EXPECT_OK(moiety_record_use(pool, block, other));
                return moiety_free_on_event(pool, block, event);
            },
        };
    for (size_t size_bytes : {size_t{512}, 60 * kKiB, 3 * kMiB, 200 * kMiB}) {
        for (size_t i = 0; i < ways.size(); i++) {
            moiety_devptr block = Alloc(tenant, size_bytes);
            EXPECT_EQ(pool.UsableSize(block), Live(tenant));
            EXPECT_OK(ways[i](block, size_bytes)) << i;
            EXPECT_EQ(0u, Live(tenant)) << i;
        }
    }
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    EXPECT_OK(moiety_tenant_destroy(tenant));
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
    pool_test::DestroyEvent(event);
}

// With and without the tenant the pool records as many events.
TEST_F(TenantFree, CostsNoEvent)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    for (int i = 0; i < 1000; i++)
        pool.Free(Alloc(tenant, 4096));
    EXPECT_EQ(0u, pool.Stats().events_recorded);
    EXPECT_EQ(0u, pool.Stats().ages_closed);
}

// What was noted of it counts whoever frees it.
TEST_F(TenantFree, WaitsForRecordedUses)
{
    Pool pool;
    Stream user, freer;
    moiety_tenant tenant = NewTenant(pool, 0);
    moiety_devptr block = Alloc(tenant, 64 * kKiB, freer);
    user.Hold();
    ASSERT_OK(moiety_record_use(pool, block, user));
    pool.Free(block, freer);
    EXPECT_EQ(0u, Live(tenant));
    EXPECT_EQ(64 * kKiB, pool.Stats().retiring_bytes);
    user.Release();
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

TEST_F(TenantFree, HappensOnce)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    moiety_devptr kept = Alloc(tenant, 4096);
    moiety_devptr block = Alloc(tenant, 4096);
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kLegacy));
    EXPECT_EQ(4096u, Live(tenant));
    pool.Free(kept);
}

TEST_F(TenantFree, ThatIsRefusedChangesNothing)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    for (size_t size_bytes : {size_t{4096}, 3 * kMiB}) {
        moiety_devptr block = Alloc(tenant, size_bytes);
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_free_sized(pool, block, 9 * kMiB, kLegacy));
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(pool, block, 0, kLegacy));
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 512, kLegacy));
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free_on_event(pool, block, nullptr));
        EXPECT_EQ(size_bytes, Live(tenant));
        pool.Free(block);
        EXPECT_EQ(0u, Live(tenant));
    }
}

// The driver does not say whether the event is over: it is still the tenant's.
TEST_F(TenantFree, ThatFailsInTheDriverIsNone)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    moiety_devptr block = Alloc(tenant, 4096);
    moiety_event event = pool_test::NewEvent();
    pool_test::SetFaults("cuEventQuery:every=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_NE(MOIETY_OK, moiety_free_on_event(pool, block, event));
    EXPECT_EQ(4096u, Live(tenant));
    pool_test::SetFaults("");
    EXPECT_OK(moiety_free_on_event(pool, block, event));
    EXPECT_EQ(0u, Live(tenant));
    EXPECT_OK(moiety_tenant_destroy(tenant));
    pool_test::DestroyEvent(event);
}

TEST_F(TenantFree, OfAnExportedBlockCountsWhenItIsReleased)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    moiety_tenant tenant = NewTenant(pool, 0);
    moiety_devptr block = Alloc(tenant, 4096);
    moiety_ipc_handle handle;
    ASSERT_OK(moiety_ipc_export(pool, block, &handle));
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kLegacy));
    EXPECT_EQ(4096u, Live(tenant));
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_tenant_destroy(tenant));
    ASSERT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(0u, Live(tenant));
    // Released first and freed then is as good.
    block = Alloc(tenant, 4096);
    ASSERT_OK(moiety_ipc_export(pool, block, &handle));
    ASSERT_OK(moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(4096u, Live(tenant));
    pool.Free(block);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

// An exported block of nobody's in a pool that has tenants.
TEST_F(TenantFree, IsNotConfusedWithOthersNotes)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    Stream other;
    moiety_tenant tenant = NewTenant(pool, 5 * kMiB);
    moiety_ipc_handle handle;
    for (size_t size_bytes : {size_t{4096}, 3 * kMiB}) {
        // That a block was the tenant's once is nothing to it now.
        pool.Free(Alloc(tenant, size_bytes));
        moiety_devptr exported = pool.Alloc(size_bytes);
        moiety_devptr used = pool.Alloc(size_bytes);
        ASSERT_OK(moiety_ipc_export(pool, exported, &handle));
        ASSERT_OK(moiety_record_use(pool, used, other));
        pool.Free(exported);
        pool.Free(used);
        ASSERT_OK(moiety_ipc_release_exports(pool, 0));
        EXPECT_EQ(0u, Live(tenant));
        EXPECT_EQ(MOIETY_E_BUDGET,
                  tenant_test::StatusOfAlloc(pool, tenant, 6 * kMiB));
    }
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

// Where the block leaves by the way around the hit.
TEST_F(TenantFree, IsTheSameUnderACaptureGuard)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    pool.Free(Alloc(tenant, 4096));
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    moiety_devptr block = Alloc(tenant, 4096);
    EXPECT_EQ(4096u, Live(tenant));
    pool.Free(block);
    EXPECT_EQ(0u, Live(tenant));
    ASSERT_OK(moiety_capture_guard_end());
}

TEST_F(TenantFree, ByAThreadThatNeverAllocated)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 64 * kMiB);
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 1024; i++)
        blocks.push_back(Alloc(tenant, 64 * kKiB));
    EXPECT_EQ(MOIETY_E_BUDGET, tenant_test::StatusOfAlloc(pool, tenant, 1));
    std::thread([&] {
        for (moiety_devptr block : blocks)
            pool.Free(block);
    }).join();
    EXPECT_EQ(0u, Live(tenant));
    moiety_devptr all = Alloc(tenant, 64 * kMiB);
    pool.Free(all);
}

} // namespace

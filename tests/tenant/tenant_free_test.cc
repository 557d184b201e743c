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

using pool_test::Defaults;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;
using pool_test::Stream;
using tenant_test::Alloc;
using tenant_test::Live;
using tenant_test::NewTenant;

class TenantFree : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

const binade_stream kLegacy = BINADE_STREAM_LEGACY;

TEST_F(TenantFree, HasManyWays)
{
    Pool pool;
    Stream other;
    binade_event event = pool_test::NewEvent();
    binade_tenant tenant = NewTenant(pool, 0);
    const std::vector<std::function<binade_status(binade_devptr, size_t)>>
        ways = {
            [&](binade_devptr block, size_t) {
                return binade_free(pool, block, kLegacy);
            },
            [&](binade_devptr block, size_t) {
                return binade_free(pool, block, other);
            },
            [&](binade_devptr block, size_t) {
                return binade_free(pool, block, BINADE_STREAM_ANY);
            },
            [&](binade_devptr block, size_t) {
                return binade_free(pool, block, BINADE_STREAM_DONE);
            },
            [&](binade_devptr block, size_t size_bytes) {
                return binade_free_sized(pool, block, size_bytes, kLegacy);
            },
            [&](binade_devptr block, size_t size_bytes) {
                return binade_free_sized(pool, block, size_bytes, other);
            },
            [&](binade_devptr block, size_t) {
                return binade_free_batch(pool, &block, 1, kLegacy, nullptr);
            },
            [&](binade_devptr block, size_t) {
                return binade_free_after(pool, block, event);
            },
            [&](binade_devptr block, size_t) {
                EXPECT_EQ(BINADE_OK, binade_record_use(pool, block, other));
                return binade_free(pool, block, kLegacy);
            },
            [&](binade_devptr block, size_t size_bytes) {
                EXPECT_EQ(BINADE_OK, binade_record_use(pool, block, other));
                return binade_free_sized(pool, block, size_bytes, kLegacy);
            },
            [&](binade_devptr block, size_t) {
                EXPECT_EQ(BINADE_OK, binade_record_use(pool, block, other));
                return binade_free_after(pool, block, event);
            },
        };
    for (size_t size_bytes : {size_t{512}, 60 * kKiB, 3 * kMiB, 200 * kMiB}) {
        for (size_t i = 0; i < ways.size(); i++) {
            binade_devptr block = Alloc(tenant, size_bytes);
            EXPECT_EQ(pool.UsableSize(block), Live(tenant));
            EXPECT_EQ(BINADE_OK, ways[i](block, size_bytes)) << i;
            EXPECT_EQ(0u, Live(tenant)) << i;
        }
    }
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    EXPECT_EQ(BINADE_OK, binade_tenant_destroy(tenant));
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
    pool_test::DestroyEvent(event);
}

// With and without the tenant the pool records as many events.
TEST_F(TenantFree, CostsNoEvent)
{
    Pool pool;
    binade_tenant tenant = NewTenant(pool, 0);
    for (int i = 0; i < 1000; i++)
        pool.Free(Alloc(tenant, 4096));
    EXPECT_EQ(0u, pool.Stats().events_recorded);
    EXPECT_EQ(0u, pool.Stats().batches_retired);
}

// What was noted of it counts whoever frees it.
TEST_F(TenantFree, WaitsForRecordedUses)
{
    Pool pool;
    Stream user, freer;
    binade_tenant tenant = NewTenant(pool, 0);
    binade_devptr block = Alloc(tenant, 64 * kKiB, freer);
    user.Hold();
    ASSERT_EQ(BINADE_OK, binade_record_use(pool, block, user));
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
    binade_tenant tenant = NewTenant(pool, 0);
    binade_devptr kept = Alloc(tenant, 4096);
    binade_devptr block = Alloc(tenant, 4096);
    pool.Free(block);
    EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block, kLegacy));
    EXPECT_EQ(4096u, Live(tenant));
    pool.Free(kept);
}

TEST_F(TenantFree, ThatIsRefusedChangesNothing)
{
    Pool pool;
    binade_tenant tenant = NewTenant(pool, 0);
    for (size_t size_bytes : {size_t{4096}, 3 * kMiB}) {
        binade_devptr block = Alloc(tenant, size_bytes);
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_free_sized(pool, block, 9 * kMiB, kLegacy));
        EXPECT_EQ(BINADE_E_INVALID, binade_free_sized(pool, block, 0, kLegacy));
        EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block + 512, kLegacy));
        EXPECT_EQ(BINADE_E_INVALID, binade_free_after(pool, block, nullptr));
        EXPECT_EQ(size_bytes, Live(tenant));
        pool.Free(block);
        EXPECT_EQ(0u, Live(tenant));
    }
}

// The driver does not say whether the event is over: it is still the tenant's.
TEST_F(TenantFree, ThatFailsInTheDriverIsNone)
{
    Pool pool;
    binade_tenant tenant = NewTenant(pool, 0);
    binade_devptr block = Alloc(tenant, 4096);
    binade_event event = pool_test::NewEvent();
    pool_test::SetFaults("cuEventQuery:every=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_NE(BINADE_OK, binade_free_after(pool, block, event));
    EXPECT_EQ(4096u, Live(tenant));
    pool_test::SetFaults("");
    EXPECT_EQ(BINADE_OK, binade_free_after(pool, block, event));
    EXPECT_EQ(0u, Live(tenant));
    EXPECT_EQ(BINADE_OK, binade_tenant_destroy(tenant));
    pool_test::DestroyEvent(event);
}

TEST_F(TenantFree, OfAnExportedBlockCountsWhenItIsReleased)
{
    binade_pool_options options = Defaults();
    options.flags = BINADE_POOL_EXPORTABLE;
    Pool pool(options);
    binade_tenant tenant = NewTenant(pool, 0);
    binade_devptr block = Alloc(tenant, 4096);
    binade_ipc_handle handle;
    ASSERT_EQ(BINADE_OK, binade_ipc_export(pool, block, &handle));
    pool.Free(block);
    EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block, kLegacy));
    EXPECT_EQ(4096u, Live(tenant));
    EXPECT_EQ(BINADE_E_BUSY, binade_tenant_destroy(tenant));
    ASSERT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    EXPECT_EQ(0u, Live(tenant));
    // Released first and freed then is as good.
    block = Alloc(tenant, 4096);
    ASSERT_EQ(BINADE_OK, binade_ipc_export(pool, block, &handle));
    ASSERT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    EXPECT_EQ(4096u, Live(tenant));
    pool.Free(block);
    EXPECT_EQ(BINADE_OK, binade_tenant_destroy(tenant));
}

// An exported block of nobody's in a pool that has tenants.
TEST_F(TenantFree, IsNotConfusedWithOthersNotes)
{
    binade_pool_options options = Defaults();
    options.flags = BINADE_POOL_EXPORTABLE;
    Pool pool(options);
    Stream other;
    binade_tenant tenant = NewTenant(pool, 5 * kMiB);
    binade_ipc_handle handle;
    for (size_t size_bytes : {size_t{4096}, 3 * kMiB}) {
        // That a block was the tenant's once is nothing to it now.
        pool.Free(Alloc(tenant, size_bytes));
        binade_devptr exported = pool.Alloc(size_bytes);
        binade_devptr used = pool.Alloc(size_bytes);
        ASSERT_EQ(BINADE_OK, binade_ipc_export(pool, exported, &handle));
        ASSERT_EQ(BINADE_OK, binade_record_use(pool, used, other));
        pool.Free(exported);
        pool.Free(used);
        ASSERT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
        EXPECT_EQ(0u, Live(tenant));
        EXPECT_EQ(BINADE_E_BUDGET,
                  tenant_test::StatusOfAlloc(pool, tenant, 6 * kMiB));
    }
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

// Where the block leaves by the way around the hit.
TEST_F(TenantFree, IsTheSameUnderACaptureGuard)
{
    Pool pool;
    binade_tenant tenant = NewTenant(pool, 0);
    pool.Free(Alloc(tenant, 4096));
    ASSERT_EQ(BINADE_OK, binade_capture_guard_begin());
    binade_devptr block = Alloc(tenant, 4096);
    EXPECT_EQ(4096u, Live(tenant));
    pool.Free(block);
    EXPECT_EQ(0u, Live(tenant));
    ASSERT_EQ(BINADE_OK, binade_capture_guard_end());
}

TEST_F(TenantFree, ByAThreadThatNeverAllocated)
{
    Pool pool;
    binade_tenant tenant = NewTenant(pool, 64 * kMiB);
    std::vector<binade_devptr> blocks;
    for (int i = 0; i < 1024; i++)
        blocks.push_back(Alloc(tenant, 64 * kKiB));
    EXPECT_EQ(BINADE_E_BUDGET, tenant_test::StatusOfAlloc(pool, tenant, 1));
    std::thread([&] {
        for (binade_devptr block : blocks)
            pool.Free(block);
    }).join();
    EXPECT_EQ(0u, Live(tenant));
    binade_devptr all = Alloc(tenant, 64 * kMiB);
    pool.Free(all);
}

} // namespace

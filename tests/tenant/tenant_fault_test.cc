// SPDX-License-Identifier: Apache-2.0
//
// Each request for memory fails once, wherever a tenant's life makes one: what
// fails changes nothing, and the next call works.
#include <gtest/gtest.h>

#include "tests/support/tools/failing_memory.h"
#include "tests/support/tools/pools.h"
#include "tests/tenant/tenant_under_test.h"

namespace
{

using namespace pool_test;
using namespace tenant_test;

class TenantFault : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
        // What a process makes once is made.
        Pool pool;
        EXPECT_OK(moiety_tenant_destroy(NewTenant(pool, 0)));
    }
};

constexpr unsigned kMost = 1000;

void ExpectNoMemory(moiety_status status)
{
    EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status) << moiety_last_error_message();
}

TEST_F(TenantFault, NoMemoryForATenant)
{
    bool is_over = false;
    unsigned n = 1;
    for (; n < kMost && !is_over; n++) {
        Pool pool;
        moiety_tenant tenant = 0;
        failing_memory_arm(n);
        moiety_status status = create_tenant(pool, "", 4096, &tenant);
        is_over = failing_memory_disarm();
        if (status != MOIETY_OK) {
            ExpectNoMemory(status);
            EXPECT_FALSE(is_over);
            EXPECT_EQ(0u, tenant);
            tenant = NewTenant(pool, 4096);
        }
        pool.Free(Alloc(tenant, 4096));
        EXPECT_EQ(0u, Live(tenant));
    }
    // The words, and what leads to them, at least.
    EXPECT_GT(n, 3u);
    EXPECT_LT(n, kMost);
}

TEST_F(TenantFault, NoMemoryForAnAllocation)
{
    bool is_over = false;
    unsigned n = 1;
    for (; n < kMost && !is_over; n++) {
        Pool pool;
        Stream stream;
        moiety_tenant tenant = NewTenant(pool, 4096);
        moiety_devptr block = 0;
        failing_memory_arm(n);
        moiety_status status = alloc_for_tenant(tenant, 4096, stream, &block);
        is_over = failing_memory_disarm();
        if (status != MOIETY_OK) {
            ExpectNoMemory(status);
            EXPECT_EQ(0u, Live(tenant));
            block = Alloc(tenant, 4096, stream);
        }
        EXPECT_EQ(4096u, Live(tenant));
        pool.Free(block, stream);
        EXPECT_OK(moiety_tenant_destroy(tenant));
    }
    EXPECT_GT(n, 2u);
    EXPECT_LT(n, kMost);
}

TEST_F(TenantFault, NoMemoryForAFree)
{
    for (bool has_use : {false, true}) {
        bool is_over = false;
        unsigned n = 1;
        unsigned refused = 0;
        for (; n < kMost && !is_over; n++) {
            Pool pool;
            Stream stream, user;
            moiety_tenant tenant = NewTenant(pool, 0);
            moiety_devptr block = Alloc(tenant, 160 * pool_test::kMiB);
            if (has_use) {
                EXPECT_OK(moiety_record_use(pool, block, user));
            }
            failing_memory_arm(n);
            moiety_status status = moiety_free(pool, block, stream);
            is_over = failing_memory_disarm();
            if (status != MOIETY_OK) {
                refused++;
                ExpectNoMemory(status);
                EXPECT_EQ(160 * pool_test::kMiB, Live(tenant));
                pool.Free(block, stream);
            }
            EXPECT_EQ(0u, Live(tenant));
            EXPECT_OK(moiety_tenant_destroy(tenant));
            uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
            EXPECT_EQ(reserved_bytes, pool.TrimAll());
        }
        EXPECT_GT(refused, 0u);
        EXPECT_LT(n, kMost);
    }
}

} // namespace

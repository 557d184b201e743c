// SPDX-License-Identifier: Apache-2.0
//
// Tenants: what they are charged, when they are refused, and what a handle that
// is none is told.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tools/pools.h"
#include "tests/tenant/tenant_under_test.h"

namespace
{

using namespace pool_test;
using namespace tenant_test;

class Tenants : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

// Bytes asked for, and what that counts.
const std::vector<std::pair<size_t, uint64_t>> kCharges = {
    {1, 512},
    {513, 1024},
    {100000, 106496},
    {kMiB, kMiB},
    {kMiB + 1, kMiB + 512},
    {200 * kMiB, 200 * kMiB},
};

// In all pools alike, whatever they put around a block.
TEST_F(Tenants, AreChargedByTheTable)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    uint64_t live_bytes = 0;
    std::vector<moiety_devptr> blocks;
    for (const auto &charge : kCharges) {
        blocks.push_back(Alloc(tenant, charge.first));
        live_bytes += charge.second;
        EXPECT_EQ(live_bytes, Live(tenant));
    }
    for (size_t i = 0; i < blocks.size(); i++) {
        pool.Free(blocks[i]);
        live_bytes -= kCharges[i].second;
        EXPECT_EQ(live_bytes, Live(tenant));
    }
    EXPECT_EQ(blocks.size(), Info(tenant).allocation_count);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

TEST_F(Tenants, AreChargedWhatTheirBlocksHold)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    for (const auto &charge : kCharges) {
        moiety_devptr block = Alloc(tenant, charge.first);
        EXPECT_EQ(pool.UsableSize(block), Live(tenant));
        pool.Free(block);
    }
}

// Also where longer runs that would do for others are cached.
TEST_F(Tenants, AreChargedBySizeAlone)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 256 * kMiB; // so that caches keep 8 MiB
    Pool pool(options);
    moiety_tenant tenant = NewTenant(pool, 0);
    for (uint64_t bytes : {8 * kMiB, 160 * kMiB}) {
        pool.Free(pool.Alloc(bytes));
        moiety_devptr block = Alloc(tenant, bytes - 64 * kKiB);
        EXPECT_EQ(bytes - 64 * kKiB, Live(tenant));
        EXPECT_EQ(bytes - 64 * kKiB, pool.UsableSize(block));
        pool.Free(block);
        // One that is as long as it should be is taken from a cache.
        EXPECT_EQ(block, Alloc(tenant, bytes - 64 * kKiB));
        pool.Free(block);
    }
}

TEST_F(Tenants, AreRefusedAboveTheirBudgetAndNotBelow)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 10 * 64 * kKiB, "of ten");
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 10; i++)
        blocks.push_back(Alloc(tenant, 64 * kKiB));
    EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 1));
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("'of ten'"));
    EXPECT_EQ(1u, Info(tenant).refusal_count);
    // What is freed fits again, and not more than that.
    pool.Free(blocks.back());
    EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 64 * kKiB + 1));
    blocks.back() = Alloc(tenant, 64 * kKiB);
    EXPECT_EQ(10 * 64 * kKiB, Live(tenant));
    for (moiety_devptr block : blocks)
        pool.Free(block);
    EXPECT_EQ(10 * 64 * kKiB, Info(tenant).peak_bytes);
}

// A budget need not be a whole number of what blocks count.
TEST_F(Tenants, AreRefusedWhatIsOneByteAboveTheirBudget)
{
    Pool pool;
    for (const auto &charge : kCharges) {
        moiety_tenant tenant = NewTenant(pool, charge.second - 1);
        EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, charge.first));
        EXPECT_EQ(MOIETY_OK, moiety_tenant_destroy(tenant));
    }
}

// With a budget for which threads draw credit.
TEST_F(Tenants, CanUseAllOfALargeBudgetInBlocksOfAnySize)
{
    Pool pool;
    for (size_t size_bytes : {size_t{512}, size_t{4096}, size_t{64} * kKiB}) {
        uint64_t count = 32 * kMiB / size_bytes / (size_bytes == 512 ? 16 : 1);
        moiety_tenant tenant = NewTenant(pool, count * size_bytes);
        std::vector<moiety_devptr> blocks;
        while (blocks.size() < count)
            blocks.push_back(Alloc(tenant, size_bytes));
        EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 1));
        EXPECT_EQ(count * size_bytes, Live(tenant));
        EXPECT_EQ(count * size_bytes, Info(tenant).peak_bytes);
        for (moiety_devptr block : blocks)
            pool.Free(block);
        EXPECT_EQ(0u, Live(tenant));
        EXPECT_OK(moiety_tenant_destroy(tenant));
    }
}

TEST_F(Tenants, AreRefusedAtOnceAndNothingIsTried)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 64 * kKiB);
    moiety_devptr block = Alloc(tenant, 64 * kKiB);
    moiety_pool_stats before = pool.Stats();
    uint64_t calls = pool_test::Calls();
    EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 900 * kMiB));
    EXPECT_EQ(calls, pool_test::Calls());
    moiety_pool_stats after = pool.Stats();
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    pool.Free(block);
}

TEST_F(Tenants, AreNotChargedWhatTheyDidNotGet)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 64 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_tenant tenant = NewTenant(pool, 0);
    moiety_devptr all = pool.Alloc(64 * kMiB);
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, StatusOfAlloc(pool, tenant, 4096));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, StatusOfAlloc(pool, tenant, 65 * kMiB));
    EXPECT_EQ(MOIETY_E_TOO_LARGE, StatusOfAlloc(pool, tenant, SIZE_MAX));
    EXPECT_EQ(
        MOIETY_E_WOULD_BLOCK,
        alloc_for_tenant_no_wait(tenant, 4096, MOIETY_STREAM_LEGACY, &none));
    EXPECT_EQ(0u, Live(tenant));
    EXPECT_EQ(0u, Info(tenant).allocation_count);
    EXPECT_EQ(0u, Info(tenant).refusal_count);
    pool.Free(all);
}

TEST_F(Tenants, KeepWhatIsAboveALoweredBudget)
{
    Pool pool;
    for (uint64_t unit : {kKiB, kMiB}) {
        moiety_tenant tenant = NewTenant(pool, 0);
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < 8; i++)
            blocks.push_back(Alloc(tenant, unit));
        ASSERT_OK(moiety_tenant_set_budget(tenant, 6 * unit));
        EXPECT_EQ(8 * unit, Live(tenant));
        EXPECT_EQ(6 * unit, Info(tenant).budget_bytes);
        // Not below it before three are gone.
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, unit));
            pool.Free(blocks.back());
            blocks.pop_back();
        }
        EXPECT_OK(StatusOfAlloc(pool, tenant, unit));
        EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 2 * unit));
        ASSERT_OK(moiety_tenant_set_budget(tenant, 7 * unit));
        EXPECT_OK(StatusOfAlloc(pool, tenant, 2 * unit));
        ASSERT_OK(moiety_tenant_set_budget(tenant, 0));
        EXPECT_OK(StatusOfAlloc(pool, tenant, 999 * unit));
        EXPECT_EQ(0u, Info(tenant).budget_bytes);
        for (moiety_devptr block : blocks)
            pool.Free(block);
        EXPECT_OK(moiety_tenant_destroy(tenant));
    }
}

// In blocks for which there would be credit.
TEST_F(Tenants, GetNoCreditAboveALoweredBudget)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < 2048)
        blocks.push_back(Alloc(tenant, 4 * kKiB));
    ASSERT_OK(moiety_tenant_set_budget(tenant, 4 * kMiB));
    while (blocks.size() > 1024) {
        pool.Free(blocks.back());
        blocks.pop_back();
        EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 4 * kKiB));
    }
    EXPECT_EQ(4 * kMiB, Live(tenant));
    EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, tenant, 4 * kKiB));
    pool.Free(blocks.back());
    blocks.back() = Alloc(tenant, 4 * kKiB);
    for (moiety_devptr block : blocks)
        pool.Free(block);
    EXPECT_EQ(0u, Live(tenant));
}

TEST_F(Tenants, HaveBudgetsOfTheirOwn)
{
    Pool pool;
    moiety_tenant first = NewTenant(pool, 4 * kKiB, "first");
    moiety_tenant second = NewTenant(pool, 8 * kKiB, "second");
    moiety_devptr one = Alloc(first, 4 * kKiB);
    EXPECT_EQ(MOIETY_E_BUDGET, StatusOfAlloc(pool, first, 4 * kKiB));
    EXPECT_OK(StatusOfAlloc(pool, second, 4 * kKiB));
    // One's block is another's next.
    pool.Free(one);
    EXPECT_EQ(one, Alloc(second, 4 * kKiB));
    EXPECT_EQ(0u, Live(first));
    EXPECT_EQ(4 * kKiB, Live(second));
    pool.Free(one);
    // And nobody's after that.
    EXPECT_EQ(one, pool.Alloc(4 * kKiB));
    pool.Free(one);
    EXPECT_EQ(0u, Live(second));
    EXPECT_STREQ("first", Info(first).name);
    EXPECT_STREQ("second", Info(second).name);
}

TEST_F(Tenants, GetAlignedBlocksAndNothing)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, kMiB);
    moiety_devptr block = 1;
    ASSERT_EQ(MOIETY_OK,
              alloc_for_tenant(tenant, 0, MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(0u, block);
    ASSERT_OK(alloc_for_tenant_aligned(tenant, 700, 64 * kKiB,
                                       MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(0u, block % (64 * kKiB));
    EXPECT_EQ(1024u, Live(tenant));
    pool.Free(block);
    ASSERT_OK(
        alloc_for_tenant_no_wait(tenant, 700, MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(1024u, Live(tenant));
    pool.Free(block);
    EXPECT_EQ(2u, Info(tenant).allocation_count);
    for (size_t alignment : {size_t{3}, size_t{4} * kMiB})
        EXPECT_EQ(MOIETY_E_INVALID,
                  alloc_for_tenant_aligned(tenant, 700, alignment,
                                           MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(0u, Live(tenant));
}

TEST_F(Tenants, AreBusyWhileTheyHaveBlocks)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 64 * kMiB);
    moiety_devptr block = Alloc(tenant, 4096);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_tenant_destroy(tenant));
    EXPECT_EQ(4096u, Live(tenant));
    EXPECT_EQ(MOIETY_OK, StatusOfAlloc(pool, tenant, 4096));
    pool.Free(block);
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

void ExpectToBeRefused(moiety_tenant tenant, moiety_status status)
{
    moiety_devptr block = 7;
    moiety_tenant_stats info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(status,
              alloc_for_tenant(tenant, 9, MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(status, alloc_for_tenant_no_wait(tenant, 9, MOIETY_STREAM_LEGACY,
                                               &block));
    EXPECT_EQ(status, alloc_for_tenant_aligned(tenant, 9, 1,
                                               MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(7u, block);
    EXPECT_EQ(status, moiety_tenant_set_budget(tenant, 1));
    EXPECT_EQ(status, moiety_tenant_get_stats(tenant, &info));
}

TEST_F(Tenants, AreRecognisedWhenTheyAreGone)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    ASSERT_EQ(MOIETY_OK, moiety_tenant_destroy(tenant));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_tenant_destroy(tenant));
    ExpectToBeRefused(tenant, MOIETY_E_DESTROYED);
    // Whoever has its place now is another.
    moiety_tenant next = NewTenant(pool, 0);
    EXPECT_NE(tenant, next);
    ExpectToBeRefused(tenant, MOIETY_E_DESTROYED);
    EXPECT_OK(StatusOfAlloc(pool, next, 9));
}

TEST_F(Tenants, ThatNeverWereAreRecognised)
{
    EXPECT_EQ(MOIETY_OK, moiety_tenant_destroy(nullptr));
    ExpectToBeRefused(nullptr, MOIETY_E_INVALID);
    for (uintptr_t number : {uintptr_t{1}, uintptr_t{MOIETY_TENANTS_MAX + 1},
                             uintptr_t{0xffff}, UINTPTR_MAX}) {
        auto made_up = reinterpret_cast<moiety_tenant>(number);
        EXPECT_EQ(MOIETY_E_INVALID, moiety_tenant_destroy(made_up));
        ExpectToBeRefused(made_up, MOIETY_E_INVALID);
    }
}

TEST_F(Tenants, EndWithTheirPool)
{
    moiety_tenant tenant;
    {
        Pool pool;
        tenant = NewTenant(pool, 0);
        Alloc(tenant, 4096);
        EXPECT_EQ(1u, pool.End().block_count);
    }
    ExpectToBeRefused(tenant, MOIETY_E_DESTROYED);
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_tenant_destroy(tenant));
}

TEST_F(Tenants, OfAPoolThatIsBusyStay)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 0);
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_pool_destroy(pool, nullptr));
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_end());
    EXPECT_EQ(MOIETY_OK, StatusOfAlloc(pool, tenant, 9));
}

TEST_F(Tenants, NeedGoodArguments)
{
    Pool pool;
    auto tenant = reinterpret_cast<moiety_tenant>(7);
    std::string longest(MOIETY_TENANT_NAME_BYTES - 1, 'x');
    EXPECT_EQ(MOIETY_E_INVALID, create_tenant(pool, "", 0, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, create_tenant(nullptr, "", 0, &tenant));
    EXPECT_EQ(MOIETY_E_INVALID,
              create_tenant(pool, (longest + "x").c_str(), 0, &tenant));
    EXPECT_EQ(MOIETY_E_INVALID,
              create_tenant(pool, "", UINT64_C(1) << 62, &tenant));
    EXPECT_EQ(reinterpret_cast<moiety_tenant>(7), tenant);
    ASSERT_OK(create_tenant(pool, nullptr, (UINT64_C(1) << 62) - 1, &tenant));
    EXPECT_STREQ("", Info(tenant).name);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_tenant_set_budget(tenant, UINT64_C(1) << 62));
    EXPECT_EQ(MOIETY_E_INVALID,
              alloc_for_tenant(tenant, 9, MOIETY_STREAM_LEGACY, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_tenant_get_stats(tenant, nullptr));
    moiety_tenant_stats info = {};
    EXPECT_EQ(MOIETY_E_INVALID, moiety_tenant_get_stats(tenant, &info));
    EXPECT_EQ(longest, Info(NewTenant(pool, 0, longest.c_str())).name);
    EXPECT_EQ(0u, Live(tenant));
}

TEST_F(Tenants, AreSoManyAtMost)
{
    Pool pool;
    std::vector<moiety_tenant> tenants;
    moiety_tenant tenant = 0;
    while (tenants.size() <= MOIETY_TENANTS_MAX &&
           create_tenant(pool, "", 0, &tenant) == MOIETY_OK)
        tenants.push_back(tenant);
    EXPECT_EQ(MOIETY_TENANTS_MAX, tenants.size());
    EXPECT_EQ(MOIETY_E_NO_ROOM, create_tenant(pool, "", 0, &tenant));
    // The last one can be told from the first.
    moiety_devptr block = Alloc(tenants.back(), 9);
    EXPECT_EQ(0u, Live(tenants.front()));
    EXPECT_EQ(512u, Live(tenants.back()));
    pool.Free(block);
    EXPECT_OK(moiety_tenant_destroy(tenants.front()));
    EXPECT_OK(create_tenant(pool, "", 0, &tenant));
}

TEST_F(Tenants, AndArenasHaveDefaults)
{
    Pool pool;
    moiety_tenant tenant = 0;
    moiety_private arena = 0;
    ASSERT_EQ(MOIETY_OK, moiety_tenant_create(pool, nullptr, &tenant));
    moiety_tenant_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_OK(moiety_tenant_get_stats(tenant, &stats));
    EXPECT_EQ(0u, stats.budget_bytes);
    EXPECT_STREQ("", stats.name);
    EXPECT_OK(moiety_tenant_destroy(tenant));
    ASSERT_OK(moiety_private_create(pool, nullptr, &arena));
    EXPECT_OK(moiety_private_destroy(arena));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_tenant_create(pool, nullptr, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_create(pool, nullptr, nullptr));
    moiety_tenant_options odd = MOIETY_TENANT_OPTIONS_INIT;
    odd.struct_size = 4;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_tenant_create(pool, &odd, &tenant));
    moiety_private_options unknown = MOIETY_PRIVATE_OPTIONS_INIT;
    unknown.flags = 4;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_private_create(pool, &unknown, &arena));
}

} // namespace

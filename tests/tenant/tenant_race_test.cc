// SPDX-License-Identifier: Apache-2.0
//
// Threads of one tenant: the budget holds at every moment, credit of threads
// that sleep is not lost, and none is made up.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/tools/pools.h"
#include "tests/tenant/tenant_under_test.h"

namespace
{

using namespace pool_test;
using namespace tenant_test;

class TenantRace : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

constexpr size_t kBlockBytes = 4 * kKiB;

// Threads that drew credit, gave all blocks back, and sleep with the credit.
class Sleepers
{
  public:
    Sleepers(Pool &pool, moiety_tenant tenant, int count)
    {
        std::shared_future<void> woken = wake_.get_future().share();
        for (int i = 0; i < count; i++) {
            std::promise<void> drawn;
            std::future<void> is_drawn = drawn.get_future();
            threads_.emplace_back(Sleep, std::ref(pool), tenant,
                                  std::move(drawn), woken);
            is_drawn.wait();
        }
    }
    ~Sleepers()
    {
        wake_.set_value();
        for (std::thread &thread : threads_)
            thread.join();
    }

  private:
    static void Sleep(Pool &pool, moiety_tenant tenant,
                      std::promise<void> drawn, std::shared_future<void> woken)
    {
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < 64; i++)
            blocks.push_back(Alloc(tenant, kBlockBytes));
        for (moiety_devptr block : blocks)
            pool.Free(block);
        drawn.set_value();
        woken.wait();
    }

    std::promise<void> wake_;
    std::vector<std::thread> threads_;
};

TEST_F(TenantRace, CreditOfThreadsThatSleepIsWithdrawn)
{
    Pool pool;
    constexpr uint64_t kBlocks = 4096;
    moiety_tenant tenant = NewTenant(pool, kBlocks * kBlockBytes);
    Sleepers sleepers(pool, tenant, 40); // more than there are stripes
    // Some credit is out, or this test shows nothing.
    EXPECT_EQ(0u, Live(tenant));
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < kBlocks)
        blocks.push_back(Alloc(tenant, kBlockBytes));
    EXPECT_EQ(MOIETY_E_BUDGET, tenant_test::StatusOfAlloc(pool, tenant, 1));
    EXPECT_EQ(kBlocks * kBlockBytes, Live(tenant));
    for (moiety_devptr block : blocks)
        pool.Free(block);
    EXPECT_EQ(0u, Live(tenant));
}

TEST_F(TenantRace, ALoweredBudgetHoldsForCreditToo)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 16 * kMiB);
    moiety_devptr block = Alloc(tenant, kBlockBytes);
    Sleepers sleepers(pool, tenant, 4);
    ASSERT_OK(moiety_tenant_set_budget(tenant, kBlockBytes));
    EXPECT_EQ(MOIETY_E_BUDGET, tenant_test::StatusOfAlloc(pool, tenant, 1));
    pool.Free(block);
    EXPECT_OK(tenant_test::StatusOfAlloc(pool, tenant, kBlockBytes));
    EXPECT_EQ(kBlockBytes, Info(tenant).budget_bytes);
}

TEST_F(TenantRace, ThreadsThatSleepDoNotKeepATenantBusy)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 16 * kMiB);
    Sleepers sleepers(pool, tenant, 4);
    EXPECT_EQ(MOIETY_OK, moiety_tenant_destroy(tenant));
}

// What the threads know that the tenant has: added after an allocation, taken
// off before a free, so never more than it really has.
struct Ledger {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> most_bytes{0};
    std::atomic<uint64_t> refusals{0};

    void Add(uint64_t more)
    {
        uint64_t now = bytes.fetch_add(more) + more;
        uint64_t seen = most_bytes.load();
        while (seen < now && !most_bytes.compare_exchange_weak(seen, now))
            continue;
    }
};

// Holds up to half of what would be its share twice over, so that all together
// want more than there is.
void Work(Pool &pool, moiety_tenant tenant, Ledger &ledger, unsigned seed)
{
    struct Block {
        moiety_devptr address;
        uint64_t bytes;
    };
    std::vector<Block> held;
    unsigned state = seed;
    for (int i = 0; i < 2000; i++) {
        state = state * 1103515245 + 12345;
        unsigned random = state >> 16;
        if (random % 2 || held.empty()) {
            size_t bytes = size_t{512} << random / 2 % 12;
            moiety_devptr address = 0;
            moiety_status status =
                alloc_for_tenant(tenant, bytes, MOIETY_STREAM_LEGACY, &address);
            if (status == MOIETY_OK) {
                ledger.Add(bytes);
                held.push_back({address, bytes});
            } else {
                EXPECT_EQ(MOIETY_E_BUDGET, status);
                ledger.refusals++;
            }
        } else {
            std::swap(held[random % held.size()], held.back());
            ledger.bytes -= held.back().bytes;
            pool.Free(held.back().address);
            held.pop_back();
        }
    }
    for (const Block &block : held) {
        ledger.bytes -= block.bytes;
        pool.Free(block.address);
    }
}

class Budget : public TenantRace, public ::testing::WithParamInterface<uint64_t>
{
};

TEST_P(Budget, HoldsWhileThreadsAllocateAndFree)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, GetParam());
    Ledger ledger;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++)
        threads.emplace_back(
            [&, i] { Work(pool, tenant, ledger, 77 * i + 1); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LE(ledger.most_bytes, GetParam());
    EXPECT_EQ(ledger.refusals, Info(tenant).refusal_count);
    EXPECT_LE(Info(tenant).peak_bytes, GetParam());
    EXPECT_GE(Info(tenant).peak_bytes, ledger.most_bytes);
    EXPECT_EQ(0u, Live(tenant));
    // Not a byte was lost.
    pool.Free(Alloc(tenant, GetParam()));
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Budget,
                         ::testing::Values(kMiB, 4 * kMiB, 32 * kMiB));

// While others come and go, in blocks that they free at once: what fits then is
// never refused, as nobody is near the budget.
TEST_F(TenantRace, NothingIsRefusedFarFromTheBudget)
{
    Pool pool;
    moiety_tenant tenant = NewTenant(pool, 64 * kMiB);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int j = 0; j < 5000; j++)
                pool.Free(Alloc(tenant, 64 * kKiB));
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(20000u, Info(tenant).allocation_count);
    EXPECT_EQ(0u, Info(tenant).refusal_count);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of the driver, of the host's memory and of the source fails
// once in a life that visits all that a pool does. Whatever the calls then
// answer: no block is lost or given out twice, the next calls work, and at the
// end everything is back where it came from.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/pool/api/pool_life.h"
#include "tests/pool/inventory.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

using pool_test::Life;
using segment_test::FakeSource;

constexpr unsigned kTooMany = 5000; // calls that no life below makes

class PoolFault : public pool_test::StandinTest
{
  protected:
    // For every n: the n-th call of a life fails, or of its end.
    void ExpectDriverFaultsAreSurvived(const char *code, bool at_the_end)
    {
        unsigned n = 0;
        while (!HasFailure() && n < kTooMany) {
            SCOPED_TRACE("call " + std::to_string(++n));
            uint64_t calls =
                at_the_end ? EndBadly(n, code) : LiveBadly(n, code);
            inventory_.ExpectUnchanged();
            if (n > calls)
                break;
        }
        EXPECT_LT(n, kTooMany);
        std::printf("%u calls, each failed once\n", n - 1);
    }

    // These return how many calls there were.
    uint64_t LiveBadly(unsigned n, const char *code)
    {
        Life life(nullptr);
        Arm(n, code);
        life.Run();
        uint64_t calls = Disarm();
        life.ExpectHealth();
        EXPECT_OK(life.End());
        return calls;
    }

    uint64_t EndBadly(unsigned n, const char *code)
    {
        Life life(nullptr);
        life.Run();
        Arm(n, code);
        (void)life.End();
        return Disarm();
    }

    void Arm(unsigned n, const char *code)
    {
        calls_before_ = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) + ":code=" + code);
    }

    uint64_t Disarm()
    {
        pool_test::SetFaults("");
        return pool_test::Calls() - calls_before_;
    }

    pool_test::Inventory inventory_;

  private:
    uint64_t calls_before_ = 0;
};

TEST_F(PoolFault, EveryCallOfTheDriver)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_UNKNOWN", false);
}

TEST_F(PoolFault, EveryCallOfTheDriverByExhaustion)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_OUT_OF_MEMORY", false);
}

TEST_F(PoolFault, EveryCallOfTheDriverAtTheEnd)
{
    ExpectDriverFaultsAreSurvived("CUDA_ERROR_UNKNOWN", true);
}

TEST_F(PoolFault, EveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        {
            Life life(nullptr);
            failing_memory_arm(n);
            life.Run();
            is_over = failing_memory_disarm();
            if (is_over) {
                EXPECT_EQ(0u, life.failed_count());
            }
            life.ExpectHealth();
            EXPECT_OK(life.End());
        }
        inventory_.ExpectUnchanged();
    }
    EXPECT_LT(n, kTooMany);
    std::printf("%u allocations, each failed once\n", n - 1);
}

// So many that a thread's tables of caches and of routes, and those of recorded uses,
// grow.
TEST_F(PoolFault, EveryAllocationOfHostMemoryOfManyStreamsAndUses)
{
    std::vector<pool_test::Stream> streams(40);
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        pool_test::Pool pool;
        std::vector<moiety_devptr> blocks, kept;
        failing_memory_arm(n);
        for (size_t i = 0; i < 100; i++) {
            moiety_devptr block = 0;
            if (moiety_alloc(pool, 512, streams[i % 40], &block) != MOIETY_OK)
                continue;
            moiety_status used =
                moiety_record_use(pool, block, streams[(i + 1) % 40]);
            EXPECT_TRUE(used == MOIETY_OK || used == MOIETY_E_NO_HOST_MEMORY);
            blocks.push_back(block);
        }
        for (size_t i = 0; i < blocks.size(); i++)
            if (moiety_free(pool, blocks[i], streams[i % 40]) != MOIETY_OK)
                kept.push_back(blocks[i]);
        is_over = failing_memory_disarm();
        EXPECT_TRUE(!is_over || (blocks.size() == 100 && kept.empty()));
        for (moiety_devptr block : kept)
            pool.Free(block, MOIETY_STREAM_ANY);
        for (int i = 0; i < 3; i++)
            pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        EXPECT_EQ(0u, pool.Stats().double_frees_found);
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GT(n, 100u);
    std::printf("%u allocations, each failed once\n", n - 1);
}

// And says that it was the host's memory: the message before is another one.
TEST_F(PoolFault, CreationWithoutHostMemorySaysSo)
{
    unsigned n = 0;
    for (bool is_over = false; !is_over && n < kTooMany && !HasFailure();) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        moiety_pool_options options = pool_test::Defaults();
        moiety_pool *pool = nullptr;
        EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_create(nullptr, nullptr));
        const std::string before = moiety_last_error_message();
        failing_memory_arm(n);
        moiety_status status = moiety_pool_create(&options, &pool);
        is_over = failing_memory_disarm();
        if (status == MOIETY_OK) {
            EXPECT_OK(moiety_pool_destroy(pool, nullptr));
            continue;
        }
        EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
        EXPECT_NE(before, moiety_last_error_message());
        EXPECT_STRNE("", moiety_last_error_message());
    }
    EXPECT_GT(n, 10u);
}

// A free needs host memory only for a stream that the pool does not know yet: without
// it the block waits among what was freed with ANY.
TEST_F(PoolFault, AFreeOnAStreamLosesNothingForWantOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        moiety_pool_options options = pool_test::Defaults();
        options.thread_cache_bytes = MOIETY_BYTES_NONE;
        pool_test::Pool pool(options);
        pool_test::Stream stream;
        moiety_devptr block = pool.Alloc(5 * pool_test::kMiB + 512);
        failing_memory_arm(n);
        moiety_status status = moiety_free(pool, block, stream);
        is_over = failing_memory_disarm();
        if (status != MOIETY_OK)
            pool.Free(block, stream);
        EXPECT_EQ(0u, pool.Stats().allocation_current);
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    }
    EXPECT_GT(n, 2u) << "nothing was asked for";
}

TEST_F(PoolFault, GrowthWithoutHostMemoryChangesNothing)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        pool_test::Pool pool;
        pool.Free(pool.Alloc(512), MOIETY_STREAM_DONE);
        uint64_t reserved = pool.Stats().reserved_bytes_current;
        moiety_devptr block = 0;
        failing_memory_arm(n);
        moiety_status status = moiety_alloc(pool, 600 * pool_test::kMiB,
                                            MOIETY_STREAM_LEGACY, &block);
        is_over = failing_memory_disarm();
        if (status != MOIETY_OK) {
            EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY, status);
            EXPECT_EQ(reserved, pool.Stats().reserved_bytes_current);
            block = pool.Alloc(600 * pool_test::kMiB);
        }
        pool.Free(block, MOIETY_STREAM_ANY);
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    }
    // Of the segment, and of what says which parts of it are free.
    EXPECT_GT(n, 3u);
}

// `failing` counts down to the call that fails.
void FailEachCallOnce(unsigned FakeSource::*failing)
{
    unsigned n = 0, left;
    do {
        SCOPED_TRACE("call " + std::to_string(n + 1));
        FakeSource source;
        moiety_source table = source.Table();
        Life life(&table);
        source.*failing = ++n;
        life.Run();
        left = source.*failing;
        source.*failing = 0;
        life.ExpectHealth();
        EXPECT_OK(life.End());
        EXPECT_TRUE(source.Live().empty());
        EXPECT_EQ("", source.Complaint());
    } while (!left && n < kTooMany);
    EXPECT_GT(n, 3u);
}

TEST_F(PoolFault, EveryReserveOfTheSource)
{
    FailEachCallOnce(&FakeSource::failing_reserve);
}

TEST_F(PoolFault, EveryReleaseOfTheSource)
{
    FailEachCallOnce(&FakeSource::failing_release);
}

} // namespace

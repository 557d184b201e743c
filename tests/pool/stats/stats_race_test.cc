// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a pool, read while threads work: of slightly different moments,
// but never more freed than given out, and nothing that wrapped around.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class StatsRace : public StandinTest
{
  protected:
    // Threads that repeat what they are to do until the end.
    class Crew
    {
      public:
        ~Crew()
        {
            is_over_ = true;
            for (std::thread &thread : threads_)
                thread.join();
        }
        void Add(std::function<void()> turn)
        {
            threads_.emplace_back([this, turn] {
                while (!is_over_)
                    turn();
            });
        }

      private:
        std::atomic<bool> is_over_{false};
        std::vector<std::thread> threads_;
    };

    // One thread allocates, another frees, so that what is in use is the
    // difference of two threads' counters. The one that frees is the pool's
    // elder and so is read last, when the other's number is old.
    struct HandOver {
        std::atomic<moiety_devptr> block{0};
        std::atomic<bool> is_awaited{false};

        void Give(moiety_pool *pool, size_t size_bytes, moiety_stream stream)
        {
            moiety_devptr fresh = 0;
            if (!is_awaited || block != 0)
                return std::this_thread::yield();
            if (moiety_alloc(pool, size_bytes, stream, &fresh) == MOIETY_OK)
                block = fresh;
        }
        void Take(moiety_pool *pool, moiety_stream stream)
        {
            moiety_devptr taken = block.exchange(0);
            if (!is_awaited) {
                EXPECT_OK(moiety_alloc(pool, 512, stream, &taken));
                is_awaited = true;
            }
            if (taken == 0)
                return std::this_thread::yield();
            EXPECT_OK(moiety_free(pool, taken, stream));
        }
    };

    static void ExpectSane(const moiety_pool_stats &stats)
    {
        EXPECT_LE(stats.allocation_freed, stats.allocation_allocated);
        EXPECT_EQ(stats.allocation_current,
                  stats.allocation_allocated - stats.allocation_freed);
        EXPECT_LE(stats.allocated_bytes_freed, stats.allocated_bytes_allocated);
        EXPECT_EQ(stats.allocated_bytes_current,
                  stats.allocated_bytes_allocated -
                      stats.allocated_bytes_freed);
        EXPECT_LE(stats.requested_bytes_allocated,
                  stats.allocated_bytes_allocated);
        EXPECT_LE(stats.reserved_bytes_current, stats.reserved_bytes_peak);
        EXPECT_LE(stats.cache_hits, stats.allocation_allocated);
        uint64_t value = 0;
        for (uint32_t i = 0;; i++) {
            const char *key = moiety_pool_stats_entry(&stats, i, &value);
            if (!key)
                break;
            EXPECT_LT(value, UINT64_C(1) << 63) << key;
        }
    }

    static void Watch(Pool &pool, unsigned snapshots)
    {
        moiety_pool_stats before = pool.Stats();
        for (unsigned i = 0; i < snapshots && !HasFailure(); i++) {
            moiety_pool_stats now = pool.Stats();
            ExpectSane(now);
            EXPECT_GE(now.allocation_allocated, before.allocation_allocated);
            EXPECT_GE(now.allocation_freed, before.allocation_freed);
            EXPECT_GE(now.reserved_bytes_peak, before.reserved_bytes_peak);
            before = now;
        }
    }
};

TEST_F(StatsRace, OfBlocksThatGoFromThreadToThread)
{
    Pool pool;
    Stream stream;
    HandOver small, large;
    {
        Crew crew;
        crew.Add([&] { small.Give(pool, 512, stream); });
        crew.Add([&] { small.Take(pool, stream); });
        crew.Add([&] { large.Give(pool, 3 * kMiB, stream); });
        crew.Add([&] { large.Take(pool, stream); });
        Watch(pool, 6000);
    }
    for (HandOver *left : {&small, &large})
        pool.Free(left->block, stream);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(StatsRace, OfBlocksThatRetireAndThreadsThatEnd)
{
    Pool pool;
    Stream stream;
    HandOver shared;
    {
        Crew crew;
        crew.Add([&] { shared.Give(pool, 64 * kKiB, MOIETY_STREAM_ANY); });
        crew.Add([&] { shared.Take(pool, MOIETY_STREAM_ANY); });
        crew.Add([&] {
            std::thread([&] {
                std::vector<moiety_devptr> blocks(100);
                for (moiety_devptr &block : blocks)
                    block = pool.Alloc(20 * kKiB, stream);
                for (moiety_devptr block : blocks)
                    pool.Free(block, stream);
            }).join();
        });
        crew.Add([&] { pool.Trim(); });
        Watch(pool, 3000);
    }
    pool.Free(shared.block, MOIETY_STREAM_ANY);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

// All that counts what was done, and none that tells what is. Bytes of blocks are
// made of two counters of a cache, and may be a block's waste too many for a moment.
TEST_F(StatsRace, OfWhatWasDoneNeverGoBack)
{
    const std::set<std::string> what_is = {
        "allocation.all.current",
        "allocated_bytes.all.current",
        "segment.all.current",
        "reserved_bytes.all.current",
        "cached_bytes",
        "retiring_bytes",
        "free_bytes",
        "longest_run_bytes",
        "threads",
        "streams",
        "cache_bound_bytes",
        "unreleased_bytes",
        "allocated_bytes.all.allocated",
        "allocated_bytes.all.freed",
        "requested_bytes.all.allocated",
    };
    Pool pool;
    {
        Crew crew;
        for (unsigned seed : {1u, 2u, 3u})
            crew.Add([&pool, random = std::minstd_rand(seed),
                      blocks = std::vector<moiety_devptr>(64)]() mutable {
                for (moiety_devptr &block : blocks) {
                    size_t bytes = 1 + random() % 100000;
                    if (random() % 2) {
                        pool.Free(block, MOIETY_STREAM_LEGACY);
                        block = pool.Alloc(bytes, MOIETY_STREAM_LEGACY);
                    } else if (block) {
                        (void)!moiety_resize(pool, block, bytes,
                                             MOIETY_STREAM_LEGACY);
                    }
                }
            });
        uint64_t most[100] = {}, value = 0;
        for (unsigned i = 0; i < 20000 && !HasFailure(); i++) {
            moiety_pool_stats now = pool.Stats();
            const char *key;
            for (uint32_t k = 0;
                 (key = moiety_pool_stats_entry(&now, k, &value)); k++) {
                if (value < most[k] && !what_is.count(key)) {
                    ADD_FAILURE() << key << " " << most[k] << " " << value;
                }
                most[k] = value;
            }
        }
    }
    EXPECT_OK(moiety_free_all(pool, MOIETY_STREAM_LEGACY, nullptr));
    moiety_pool_stats last = pool.Stats();
    EXPECT_EQ(last.allocation_allocated, last.cache_hits + last.cache_misses);
}

TEST_F(StatsRace, OfATenantKeepThePeakAboveWhatIsLive)
{
    Pool pool;
    Stream stream;
    moiety_tenant tenant = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "t", 64 * kMiB, &tenant));
    {
        Crew crew;
        for (size_t size_bytes : {size_t{512}, 3 * kMiB})
            crew.Add([&, size_bytes] {
                moiety_devptr block = 0;
                if (alloc_for_tenant(tenant, size_bytes, stream, &block) ==
                    MOIETY_OK)
                    pool.Free(block, stream);
            });
        for (unsigned i = 0; i < 5000 && !HasFailure(); i++) {
            moiety_tenant_stats info = {};
            info.struct_size = sizeof(info);
            ASSERT_OK(moiety_tenant_get_stats(tenant, &info));
            EXPECT_LE(info.live_bytes, info.peak_bytes);
            EXPECT_LE(info.peak_bytes, 64 * kMiB);
        }
    }
    EXPECT_OK(moiety_tenant_destroy(tenant));
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// The numbers of a pool: exact when nothing is under way.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

using Stats = StandinTest;

TEST_F(Stats, NeedAPoolAndAPlace)
{
    Pool pool;
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_get_stats(nullptr, &stats));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_get_stats(pool, nullptr));
}

constexpr uint32_t kFirstVersionBytes = 328;
static_assert(offsetof(moiety_pool_stats, cache_bound_bytes) ==
                  kFirstVersionBytes,
              "moved");

TEST_F(Stats, RefuseAStructOfTheWrongSizeAndLeaveIt)
{
    Pool pool;
    moiety_pool_stats stats, before;
    std::memset(&stats, 0x5a, sizeof(stats));
    for (uint32_t bytes : {0u, 4u, kFirstVersionBytes - 1}) {
        stats.struct_size = bytes;
        before = stats;
        EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_get_stats(pool, &stats));
        EXPECT_EQ(0, std::memcmp(&before, &stats, sizeof(stats)));
    }
}

TEST_F(Stats, GiveAnEarlierVersionWhatItKnows)
{
    Pool pool;
    moiety_pool_stats stats;
    std::memset(&stats, 0x5a, sizeof(stats));
    stats.struct_size = kFirstVersionBytes;
    ASSERT_OK(moiety_pool_get_stats(pool, &stats));
    EXPECT_EQ(kFirstVersionBytes, stats.struct_size);
    EXPECT_EQ(0u, stats.oom_steps[MOIETY_OOM_LAST_LOOK]);
    EXPECT_EQ(UINT64_C(0x5a5a5a5a5a5a5a5a), stats.cache_bound_bytes);
}

TEST_F(Stats, WriteNothingPastWhatTheyKnow)
{
    Pool pool;
    struct {
        moiety_pool_stats known;
        unsigned char later[64];
    } larger;
    std::memset(&larger, 0x5a, sizeof(larger));
    larger.known.struct_size = sizeof(larger);
    ASSERT_OK(moiety_pool_get_stats(pool, &larger.known));
    EXPECT_EQ(sizeof(larger.known), larger.known.struct_size);
    for (unsigned char byte : larger.later)
        EXPECT_EQ(0x5a, byte);
}

TEST_F(Stats, OfAFreshPoolAreZero)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 10 * kMiB;
    Pool pool(options);
    moiety_pool_stats stats = pool.Stats();
    uint64_t value = 0;
    for (uint32_t i = 0;; i++) {
        const char *key = moiety_pool_stats_entry(&stats, i, &value);
        if (!key)
            break;
        if (std::strcmp(key, "limit_bytes") == 0)
            value -= 10 * kMiB;
        if (std::strcmp(key, "cache_bound_bytes") == 0)
            value -= 64 * kMiB;
        // Who asks may have caches by that.
        if (std::strcmp(key, "threads") != 0) {
            EXPECT_EQ(0u, value) << key;
        }
    }
}

TEST_F(Stats, FollowABlock)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(1000);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(1u, stats.allocation_current);
    EXPECT_EQ(1u, stats.allocation_allocated);
    EXPECT_EQ(0u, stats.allocation_freed);
    EXPECT_EQ(1024u, stats.allocated_bytes_current);
    EXPECT_EQ(1024u, stats.allocated_bytes_allocated);
    EXPECT_EQ(0u, stats.allocated_bytes_freed);
    EXPECT_EQ(1000u, stats.requested_bytes_allocated);
    pool.Free(block);
    stats = pool.Stats();
    EXPECT_EQ(0u, stats.allocation_current);
    EXPECT_EQ(1u, stats.allocation_freed);
    EXPECT_EQ(0u, stats.allocated_bytes_current);
    EXPECT_EQ(1024u, stats.allocated_bytes_freed);
    EXPECT_EQ(1000u, stats.requested_bytes_allocated);
}

TEST_F(Stats, KeepThePeakOfWhatWasReserved)
{
    Pool pool;
    pool.Free(pool.Alloc(100 * kMiB), MOIETY_STREAM_DONE);
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_GE(reserved_bytes, 100 * kMiB);
    EXPECT_EQ(reserved_bytes, pool.Stats().reserved_bytes_peak);
    EXPECT_EQ(reserved_bytes, pool.Trim());
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(reserved_bytes, pool.Stats().reserved_bytes_peak);
    EXPECT_EQ(1u, pool.Stats().segment_allocated);
    EXPECT_EQ(1u, pool.Stats().segment_freed);
    EXPECT_EQ(0u, pool.Stats().segment_current);
}

TEST_F(Stats, CountHitsAndMisses)
{
    Pool pool;
    pool.Free(pool.Alloc(4096));
    moiety_pool_stats before = pool.Stats();
    for (int i = 0; i < 10; i++)
        pool.Free(pool.Alloc(4096));
    moiety_pool_stats after = pool.Stats();
    EXPECT_EQ(before.cache_hits + 10, after.cache_hits);
    EXPECT_EQ(before.cache_misses, after.cache_misses);
    EXPECT_EQ(11u, after.cache_hits + after.cache_misses);
}

TEST_F(Stats, TellTheLongestRun)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 8 * kMiB;
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    moiety_devptr first = pool.Alloc(2 * kMiB), second = pool.Alloc(2 * kMiB);
    EXPECT_EQ(4 * kMiB, pool.Stats().longest_run_bytes);
    pool.Free(first, MOIETY_STREAM_DONE);
    EXPECT_EQ(4 * kMiB, pool.Stats().longest_run_bytes);
    pool.Free(second, MOIETY_STREAM_DONE);
    EXPECT_EQ(8 * kMiB, pool.Stats().longest_run_bytes);
}

TEST_F(Stats, TellStreamsAndThreads)
{
    Pool pool;
    pool_test::Stream first, second;
    EXPECT_EQ(0u, pool.Stats().streams);
    pool.Free(pool.Alloc(512, first), first);
    uint64_t one = pool.Stats().streams;
    pool.Free(pool.Alloc(512, second), second);
    EXPECT_EQ(one + 1, pool.Stats().streams);
    EXPECT_EQ(1u, pool.Stats().threads);
}

// A thread's own stream ends with the thread.
TEST_F(Stats, TellNoStreamsOfThreadsThatEnded)
{
    Pool pool;
    for (int i = 0; i < 8; i++) {
        std::thread([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            pool.Free(pool.Alloc(512, MOIETY_STREAM_PER_THREAD),
                      MOIETY_STREAM_PER_THREAD);
        }).join();
    }
    EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
    EXPECT_EQ(0u, pool.Stats().streams);
}

// What the program knows of its own calls.
struct Ledger {
    uint64_t alloc_count = 0;
    uint64_t free_count = 0;
    uint64_t requested_bytes = 0;
    uint64_t allocated_bytes = 0;
    uint64_t freed_bytes = 0;

    void Add(const Ledger &other)
    {
        alloc_count += other.alloc_count;
        free_count += other.free_count;
        requested_bytes += other.requested_bytes;
        allocated_bytes += other.allocated_bytes;
        freed_bytes += other.freed_bytes;
    }
};

// Several threads, whose blocks any of them frees.
class Crowd
{
  public:
    Crowd(moiety_pool *pool, uint64_t seed) : pool_(pool), seed_(seed) {}

    Ledger Run(unsigned thread_count, unsigned operation_count)
    {
        std::vector<Ledger> ledgers(thread_count);
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < thread_count; i++)
            threads.emplace_back(
                [&, i] { Work(seed_ + i, operation_count, &ledgers[i]); });
        Ledger sum;
        for (unsigned i = 0; i < thread_count; i++) {
            threads[i].join();
            sum.Add(ledgers[i]);
        }
        return sum;
    }

    Ledger FreeAll()
    {
        Ledger ledger;
        while (!live_.empty())
            FreeOne(MOIETY_STREAM_ANY, &ledger);
        return ledger;
    }

  private:
    void Work(uint64_t seed, unsigned operation_count, Ledger *ledger)
    {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        std::mt19937_64 random(seed);
        pool_test::Stream own;
        const moiety_stream streams[] = {MOIETY_STREAM_LEGACY,
                                         MOIETY_STREAM_ANY, MOIETY_STREAM_DONE,
                                         MOIETY_STREAM_PER_THREAD, own};
        for (unsigned i = 0; i < operation_count; i++) {
            moiety_stream stream = streams[random() % 5];
            if (random() % 2)
                AllocOne(1 + random() % (size_t{1} << (4 + random() % 19)),
                         stream, ledger);
            else
                FreeOne(stream, ledger);
        }
        EXPECT_OK(moiety_pool_retire_stream(pool_, own));
    }

    void AllocOne(size_t size_bytes, moiety_stream stream, Ledger *ledger)
    {
        moiety_devptr block = 0;
        size_t usable_bytes = 0;
        EXPECT_OK(moiety_alloc(pool_, size_bytes, stream, &block));
        EXPECT_OK(moiety_usable_size(pool_, block, &usable_bytes));
        ledger->alloc_count++;
        ledger->requested_bytes += size_bytes;
        ledger->allocated_bytes += usable_bytes;
        std::lock_guard<std::mutex> guard(lock_);
        live_.push_back(block);
    }

    void FreeOne(moiety_stream stream, Ledger *ledger)
    {
        moiety_devptr block = 0;
        size_t usable_bytes = 0;
        {
            std::lock_guard<std::mutex> guard(lock_);
            if (live_.empty())
                return;
            block = live_.back();
            live_.pop_back();
        }
        EXPECT_OK(moiety_usable_size(pool_, block, &usable_bytes));
        EXPECT_OK(moiety_free(pool_, block, stream));
        ledger->free_count++;
        ledger->freed_bytes += usable_bytes;
    }

    moiety_pool *pool_;
    uint64_t seed_;
    std::mutex lock_;
    std::vector<moiety_devptr> live_;
};

void ExpectExact(const moiety_pool_stats &stats, const Ledger &ledger)
{
    EXPECT_EQ(ledger.alloc_count, stats.allocation_allocated);
    EXPECT_EQ(ledger.free_count, stats.allocation_freed);
    EXPECT_EQ(ledger.alloc_count - ledger.free_count, stats.allocation_current);
    EXPECT_EQ(ledger.requested_bytes, stats.requested_bytes_allocated);
    EXPECT_EQ(ledger.allocated_bytes, stats.allocated_bytes_allocated);
    EXPECT_EQ(ledger.freed_bytes, stats.allocated_bytes_freed);
    EXPECT_EQ(ledger.allocated_bytes - ledger.freed_bytes,
              stats.allocated_bytes_current);
    EXPECT_EQ(ledger.alloc_count, stats.cache_hits + stats.cache_misses);
    EXPECT_EQ(stats.reserved_bytes_current,
              stats.allocated_bytes_current + stats.cached_bytes +
                  stats.retiring_bytes + stats.free_bytes);
    EXPECT_EQ(stats.segment_allocated - stats.segment_freed,
              stats.segment_current);
}

TEST_F(Stats, AreExactAtRestAfterAnyOperations)
{
    uint64_t seed = pool_test::Seed(4);
    for (uint64_t round = 0; round < 5; round++) {
        Pool pool;
        Crowd crowd(pool, seed + 100 * round);
        Ledger ledger = crowd.Run(4, 2000);
        ExpectExact(pool.Stats(), ledger);
        ledger.Add(crowd.FreeAll());
        ExpectExact(pool.Stats(), ledger);
        pool.TrimAll();
        ExpectExact(pool.Stats(), ledger);
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        EXPECT_EQ(0u, pool.Stats().double_frees_found);
    }
}

TEST_F(Stats, AllocationsThatFailAreNeitherHitsNorMisses)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 2 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_devptr all = pool.Alloc(2 * kMiB), block = 0;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
                  moiety_alloc(pool, kMiB, MOIETY_STREAM_ANY, &block));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(pool, kMiB, MOIETY_STREAM_ANY, &block));
    EXPECT_EQ(0u, pool.Stats().cache_hits);
    EXPECT_EQ(1u, pool.Stats().cache_misses);
    pool.Free(all);
}

} // namespace

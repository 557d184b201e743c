// SPDX-License-Identifier: Apache-2.0
//
// A thread's cache keeps the last few runs of a stream, and no others
// (docs/adr/0036-last-runs.md).
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::kMiB;
using pool_test::Pool;

const moiety_stream kStream = MOIETY_STREAM_LEGACY;

// A thread's caches may hold a quarter of it, before the pool has grown.
constexpr uint64_t kReserved = 256 * kMiB;

moiety_pool_options OfKind(uint32_t flags)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = flags | MOIETY_POOL_NOTE_STREAMS;
    options.limit_bytes = kReserved;
    return options;
}

// A pool that has reserved all that it may, and its streams' memory is their own.
class LastRuns : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void TearDown() override
    {
        pool.End();
    }

    LastRuns() : pool(OfKind(GetParam()))
    {
        pool.Free(pool.Alloc(kReserved, kStream), kStream);
    }

    moiety_devptr Cached(uint64_t bytes, moiety_stream stream = kStream)
    {
        moiety_devptr address = 0;
        uint64_t hits = pool.Stats().cache_hits;
        address = pool.Alloc(bytes, stream);
        return pool.Stats().cache_hits > hits ? address : 0;
    }

    // Of 2 MiB, and each longer than the one before by so many bytes.
    std::vector<moiety_devptr> FreeRuns(uint64_t count, uint64_t more_bytes)
    {
        std::vector<moiety_devptr> runs;
        for (uint64_t i = 0; i < count; i++)
            runs.push_back(pool.Alloc(2 * kMiB + i * more_bytes, kStream));
        for (moiety_devptr run : runs)
            pool.Free(run, kStream);
        return runs;
    }

    Pool pool;
};

TEST_P(LastRuns, ServeTheirLengthAgain)
{
    moiety_devptr first = pool.Alloc(3 * kMiB, kStream);
    moiety_devptr second = pool.Alloc(5 * kMiB, kStream);
    pool.Free(first, kStream);
    pool.Free(second, kStream);
    EXPECT_EQ(8 * kMiB, pool.Stats().cached_bytes);
    EXPECT_EQ(first, Cached(3 * kMiB));
    EXPECT_EQ(second, Cached(5 * kMiB));
    EXPECT_EQ(0u, pool.Stats().cached_bytes);
    EXPECT_EQ(0u, Cached(3 * kMiB));
}

TEST_P(LastRuns, ServeNoOtherLengthOfTheirClass)
{
    pool.Free(pool.Alloc(4 * kMiB, kStream), kStream);
    EXPECT_EQ(0u, Cached(4 * kMiB - 64 * 1024));
    EXPECT_EQ(4 * kMiB, pool.Stats().cached_bytes);
}

TEST_P(LastRuns, AreFourAndTheOldestLeaves)
{
    std::vector<moiety_devptr> runs = FreeRuns(6, kMiB);
    EXPECT_EQ((4 + 5 + 6 + 7) * kMiB, pool.Stats().cached_bytes);
    EXPECT_EQ(runs[2], Cached(4 * kMiB));
    EXPECT_EQ(0u, Cached(2 * kMiB));
    EXPECT_EQ(0u, Cached(3 * kMiB));
    pool.Free(pool.Alloc(9 * kMiB, kStream), kStream);
    EXPECT_EQ((5 + 6 + 7 + 9) * kMiB, pool.Stats().cached_bytes);
}

// Of one length too: the newest is served, the oldest leaves.
TEST_P(LastRuns, OfOneLengthAreFourAsWell)
{
    std::vector<moiety_devptr> runs = FreeRuns(6, 0);
    EXPECT_EQ(8 * kMiB, pool.Stats().cached_bytes);
    for (size_t i = 6; i-- > 2;)
        EXPECT_EQ(runs[i], Cached(2 * kMiB));
    EXPECT_EQ(0u, Cached(2 * kMiB));
}

// Half of what a thread's caches may hold, together, and one run a quarter.
TEST_P(LastRuns, AreNoLongerThanTheirPartOfTheCaches)
{
    pool.Free(pool.Alloc(17 * kMiB, kStream), kStream);
    EXPECT_EQ(0u, pool.Stats().cached_bytes);
    moiety_devptr first = pool.Alloc(12 * kMiB, kStream);
    moiety_devptr second = pool.Alloc(12 * kMiB, kStream);
    moiety_devptr third = pool.Alloc(12 * kMiB, kStream);
    pool.Free(first, kStream);
    pool.Free(second, kStream);
    pool.Free(third, kStream);
    EXPECT_EQ(24 * kMiB, pool.Stats().cached_bytes);
    EXPECT_EQ(third, Cached(12 * kMiB));
    EXPECT_EQ(second, Cached(12 * kMiB));
}

TEST_P(LastRuns, AreOfEachStream)
{
    pool_test::Stream other;
    moiety_devptr mine = pool.Alloc(3 * kMiB, kStream);
    moiety_devptr its = pool.Alloc(3 * kMiB, other);
    pool.Free(mine, kStream);
    pool.Free(its, other);
    EXPECT_EQ(its, Cached(3 * kMiB, other));
    EXPECT_EQ(mine, Cached(3 * kMiB));
    EXPECT_EQ(MOIETY_OK, moiety_stream_retire(pool, other));
}

// All of the memory can be had at once: runs that are kept are in nobody's way.
TEST_P(LastRuns, LeaveWhereMemoryIsShort)
{
    FreeRuns(4, kMiB);
    EXPECT_EQ(14 * kMiB, pool.Stats().cached_bytes);
    moiety_devptr all = pool.Alloc(kReserved, kStream);
    EXPECT_NE(0u, all);
    EXPECT_EQ(0u, pool.Stats().cached_bytes);
    EXPECT_EQ(kReserved, pool.Stats().reserved_bytes_current);
}

// And those of a thread that ended.
TEST_P(LastRuns, OfAThreadThatEndedLeaveToo)
{
    std::thread([this] {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        pool.Free(pool.Alloc(7 * kMiB, kStream), kStream);
    }).join();
    EXPECT_EQ(7 * kMiB, pool.Stats().cached_bytes);
    EXPECT_NE(0u, pool.Alloc(kReserved, kStream));
}

TEST_P(LastRuns, FreedTwiceAreRefused)
{
    moiety_devptr run = pool.Alloc(3 * kMiB, kStream);
    pool.Free(run, kStream);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, run, kStream));
    EXPECT_EQ(3 * kMiB, pool.Stats().cached_bytes);
}

// A hit makes no call of the driver and is no miss.
TEST_P(LastRuns, ServeWhoAsksForWhatIsCached)
{
    moiety_devptr run = pool.Alloc(3 * kMiB, kStream), again = 0;
    pool.Free(run, kStream);
    uint64_t calls_before = pool_test::Calls();
    uint64_t misses_before = pool.Stats().cache_misses;
    ASSERT_EQ(MOIETY_OK, moiety_alloc_cached(pool, 3 * kMiB, kStream, &again));
    EXPECT_EQ(run, again);
    EXPECT_EQ(calls_before, pool_test::Calls());
    EXPECT_EQ(misses_before, pool.Stats().cache_misses);
}

INSTANTIATE_TEST_SUITE_P(Pools, LastRuns,
                         ::testing::Values(0u, uint32_t{MOIETY_POOL_MAPPED}),
                         [](const ::testing::TestParamInfo<uint32_t> &each) {
                             return each.param ? "Mapped" : "Driver";
                         });

} // namespace

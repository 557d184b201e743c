// SPDX-License-Identifier: Apache-2.0
//
// Frees of what is free. What lies in a cache is not seen at once; it is counted
// when it leaves, and whatever a program does wrong, no sum runs over.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;
using pool_test::Stream;

const size_t kSizes[] = {512, 20 * kKiB, 100 * kKiB, 700 * kKiB, 3 * kMiB};

class WrongFree : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    static moiety_status FreeByAnotherThread(Pool &pool, moiety_devptr block,
                                             moiety_stream stream)
    {
        moiety_status status = MOIETY_E_BUSY;
        std::thread([&] { status = moiety_free(pool, block, stream); }).join();
        return status;
    }
};

// Each statistic, whatever its name.
void ExpectSane(const moiety_stats &stats, const char *when)
{
    const size_t first = offsetof(moiety_stats, allocation_current);
    for (size_t at = first; at + 8 <= sizeof(stats); at += 8) {
        uint64_t value;
        memcpy(&value, reinterpret_cast<const char *>(&stats) + at, 8);
        ASSERT_LT(value, UINT64_C(1) << 50) << "at " << at << " " << when;
    }
    ASSERT_LE(stats.allocation_freed, stats.allocation_allocated) << when;
}

TEST_F(WrongFree, IsSeenHoweverLateByWhichThreadAndOnWhichStream)
{
    Pool pool;
    Stream stream, other;
    pool_test::SetCurrent(pool_test::PrimaryContext());
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        moiety_devptr kept = pool.Alloc(size_bytes, stream);
        pool.Free(block, stream);
        pool.Trim(UINT64_MAX); // out of the caches, into the heaps
        for (int round = 0; round < 2; round++) {
            for (moiety_stream on :
                 {moiety_stream(stream), moiety_stream(other),
                  MOIETY_STREAM_ANY, MOIETY_STREAM_DONE}) {
                EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, on));
                EXPECT_EQ(MOIETY_E_INVALID,
                          FreeByAnotherThread(pool, block, on));
                EXPECT_EQ(MOIETY_E_INVALID,
                          moiety_free_sized(pool, block, size_bytes, on));
            }
            // The second time it is merged with all that is around it.
            pool_test::Synchronize();
            pool.Trim(UINT64_MAX);
        }
        pool.Free(kept, stream);
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(10u, pool.Stats().allocation_freed);
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

TEST_F(WrongFree, OfWhatACacheHoldsIsCountedWhenItLeaves)
{
    for (size_t size_bytes : {size_t{512}, 20 * kKiB, 100 * kKiB}) {
        moiety_pool_options options = pool_test::Defaults();
        options.first_segment_bytes = size_t{128} << 20;
        Pool pool(options);
        Stream stream;
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        moiety_devptr between = pool.Alloc(size_bytes, stream);
        pool.Free(block, stream);
        pool.Free(between, stream);
        // The magazine does not look below its top.
        EXPECT_EQ(MOIETY_OK, moiety_free(pool, block, stream)) << size_bytes;
        EXPECT_EQ(0u, pool.Stats().double_frees_found);
        pool.TrimAll();
        EXPECT_EQ(1u, pool.Stats().double_frees_found) << size_bytes;
        // It is free once only.
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        ExpectSane(pool.Stats(), "after the trim");
    }
}

TEST_F(WrongFree, ByTwoThreadsIsCountedWhenItLeaves)
{
    Pool pool;
    Stream stream;
    pool_test::SetCurrent(pool_test::PrimaryContext());
    moiety_devptr block = pool.Alloc(4096, stream);
    pool.Free(block, stream);
    EXPECT_EQ(MOIETY_OK, FreeByAnotherThread(pool, block, stream));
    pool.TrimAll();
    EXPECT_EQ(1u, pool.Stats().double_frees_found);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    ExpectSane(pool.Stats(), "after the trim");
}

// Right and wrong ones of all sizes, so that memory is served twice and comes back
// in other lengths than it went.
TEST_F(WrongFree, LeavesEveryStatisticSane)
{
    for (unsigned seed = 1; seed <= 8; seed++) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Pool pool;
        Stream streams[2];
        std::vector<moiety_devptr> freed;
        bool is_odd = false;
        for (int turn = 0; turn < 2000; turn++) {
            const moiety_stream stream = streams[random() % 2];
            moiety_devptr block = 0;
            if (random() % 2 || freed.empty()) {
                size_t size_bytes =
                    random() % (random() % 4 ? 400 * kKiB : 4 * kMiB) + 1;
                block = pool.Alloc(size_bytes, stream);
                freed.push_back(block);
            } else {
                block = freed[random() % freed.size()];
            }
            // A right one is refused where a wrong one came before it.
            moiety_status status = moiety_free(pool, block, stream);
            is_odd |= status != MOIETY_OK && status != MOIETY_E_INVALID &&
                      status != MOIETY_E_FOREIGN;
            if (random() % 200 == 0)
                pool.Trim(UINT64_MAX);
            ExpectSane(pool.Stats(), "in between");
            if (HasFatalFailure())
                return;
        }
        EXPECT_FALSE(is_odd);
        EXPECT_GT(pool.Stats().double_frees_found, 0u);
        pool.End();
    }
}

} // namespace

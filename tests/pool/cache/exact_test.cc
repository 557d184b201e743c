// SPDX-License-Identifier: Apache-2.0
//
// How long blocks are: as long as was asked for, in units of 512 bytes, unless a
// longer one was cached; and how much of a limit they fill.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class Exact : public StandinTest
{
  protected:
    static moiety_pool_options Limited(uint64_t limit_bytes)
    {
        moiety_pool_options options = Defaults();
        options.limit_bytes = limit_bytes;
        options.wait_ms = MOIETY_WAIT_NONE;
        return options;
    }

    // A block of so many bytes in the thread's cache.
    static moiety_devptr Cache(Pool &pool, size_t size_bytes)
    {
        moiety_devptr block = pool.Alloc(size_bytes);
        pool.Free(block);
        return block;
    }

    // How many percent of a limit of 1 GiB are live when no block more fits.
    static double Filled(size_t size_bytes)
    {
        Pool pool(Limited(kGiB));
        std::vector<moiety_devptr> blocks;
        moiety_devptr block;
        while (moiety_alloc(pool, size_bytes, kStream, &block) == MOIETY_OK)
            blocks.push_back(block);
        for (moiety_devptr each : blocks)
            pool.Free(each);
        return 100.0 * static_cast<double>(blocks.size()) /
               static_cast<double>(kGiB / size_bytes);
    }

    moiety_devptr address = 77;
};

TEST_F(Exact, BlocksHoldTheirSizeRoundedTo512Bytes)
{
    for (size_t size_bytes :
         {33 * kKiB / 2, 17 * kKiB, 32 * kKiB, 33 * kKiB, 100 * kKiB,
          699 * kKiB + 512, kMiB, kMiB + 512, 5 * kMiB + 512, 200 * kMiB}) {
        Pool pool(Defaults());
        moiety_devptr block = pool.Alloc(size_bytes);
        moiety_devptr shorter = pool.Alloc(size_bytes - 511);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        EXPECT_EQ(size_bytes, pool.UsableSize(shorter));
        pool.Free(block);
        pool.Free(shorter);
    }
}

TEST_F(Exact, ACachedBlockServesWhatIsShorterWithinItsBucket)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 256 * kMiB;
    Pool pool(options);
    for (size_t size_bytes : {36 * kKiB, 288 * kKiB}) {
        moiety_devptr cached = Cache(pool, size_bytes);
        moiety_devptr block = pool.Alloc(size_bytes - size_bytes / 16);
        EXPECT_EQ(cached, block);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        pool.Free(block);
    }
}

TEST_F(Exact, ACachedBlockServesNothingThatIsLonger)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 256 * kMiB;
    Pool pool(options);
    for (size_t size_bytes : {36 * kKiB, 288 * kKiB}) {
        moiety_devptr cached = Cache(pool, size_bytes - 512);
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_NE(cached, block);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        pool.Free(block);
    }
}

// What a hit does not see, the slow way finds.
TEST_F(Exact, AHitTakesTheBlockOnTopIfItIsLongEnough)
{
    Pool pool(Defaults());
    // Both lengths have the same class.
    const size_t kLonger = 71 * kKiB, kShorter = 66 * kKiB;
    moiety_devptr longer = pool.Alloc(kLonger);
    moiety_devptr shorter = pool.Alloc(kShorter);
    pool.Free(shorter);
    pool.Free(longer);
    ASSERT_OK(alloc_no_call(pool, kShorter, kStream, &address));
    EXPECT_EQ(longer, address);
    pool.Free(address);
    moiety_devptr taken = pool.Alloc(kLonger);
    EXPECT_EQ(longer, taken);
    ASSERT_OK(alloc_no_call(pool, 72 * kKiB, kStream, &address));
    EXPECT_NE(shorter, address);
    pool.Free(address);
    pool.Free(taken);
}

TEST_F(Exact, AllLengthsAreExactWhileMemoryIsShort)
{
    Pool pool(Limited(4 * kMiB));
    std::vector<moiety_devptr> blocks;
    while (moiety_alloc(pool, kMiB, kStream, &address) == MOIETY_OK)
        blocks.push_back(address);
    pool.Free(blocks.back());
    blocks.pop_back();
    for (size_t size_bytes : {66 * kKiB, 67 * kKiB, 68 * kKiB}) {
        blocks.push_back(pool.Alloc(size_bytes));
        EXPECT_EQ(size_bytes, pool.UsableSize(blocks.back()));
    }
    for (moiety_devptr block : blocks)
        pool.Free(block);
}

TEST_F(Exact, AnAlignedRequestTakesNoCachedRunThatIsNot)
{
    Pool pool(Defaults());
    moiety_devptr first = pool.Alloc(512);
    for (size_t size_bytes : {100 * kKiB, 3 * kMiB}) {
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < 4; i++)
            blocks.push_back(pool.Alloc(size_bytes));
        for (moiety_devptr block : blocks)
            pool.Free(block);
        ASSERT_OK(alloc_aligned(pool, size_bytes, 2 * kMiB, kStream, &address));
        EXPECT_EQ(0u, address % (2 * kMiB));
        EXPECT_EQ(size_bytes, pool.UsableSize(address));
        pool.Free(address);
    }
    pool.Free(first);
}

TEST_F(Exact, ASizedFreeMaySayWhatTheBucketHolds)
{
    Pool pool(Defaults());
    moiety_devptr block = pool.Alloc(72 * kKiB);
    for (size_t size_bytes : {72 * kKiB + 1, 64 * kKiB, 32 * kKiB, 2 * kMiB})
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_free_sized(pool, block, size_bytes, kStream));
    EXPECT_OK(moiety_free_sized(pool, block, 64 * kKiB + 1, kStream));
}

TEST_F(Exact, StatsCountWhatRunsHold)
{
    Pool pool(Defaults());
    uint64_t bytes = 0;
    std::vector<moiety_devptr> blocks;
    for (size_t size_bytes :
         {33 * kKiB + 1, 100 * kKiB, 100 * kKiB, 2 * kMiB}) {
        blocks.push_back(pool.Alloc(size_bytes));
        bytes += pool.UsableSize(blocks.back());
        EXPECT_EQ(bytes, pool.Stats().allocated_bytes_current);
    }
    for (moiety_devptr block : blocks)
        pool.Free(block);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(0u, stats.allocated_bytes_current);
    EXPECT_EQ(stats.reserved_bytes_current,
              stats.cached_bytes + stats.retiring_bytes + stats.free_bytes);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(Exact, BlocksOfOneSizeLieSideBySide)
{
    Pool pool(Limited(8 * kMiB));
    std::vector<moiety_devptr> blocks;
    while (moiety_alloc(pool, 100 * kKiB, kStream, &address) == MOIETY_OK)
        blocks.push_back(address);
    EXPECT_EQ(8 * kMiB / (100 * kKiB), blocks.size());
    for (moiety_devptr block : blocks)
        pool.Free(block);
    pool.Free(pool.Alloc(8 * kMiB));
}

TEST_F(Exact, LargeSizesFillALimit)
{
    for (size_t size_bytes :
         {33 * kKiB, 100 * kKiB, 257 * kKiB, 520 * kKiB, 700 * kKiB, 900 * kKiB,
          kMiB + 512, 2 * kMiB + 512, 8 * kMiB, 33 * kMiB, 100 * kMiB})
        EXPECT_LE(99.0, Filled(size_bytes)) << size_bytes;
}

TEST_F(Exact, SmallSizesFillALimit)
{
    for (size_t size_bytes : {17 * 512, 33 * 512, 34 * 512, 47 * 512})
        EXPECT_LE(97.0, Filled(size_bytes)) << size_bytes;
}

// Blocks that are shorter than their note says would overlap.
TEST_F(Exact, BlocksOfManyLengthsDoNotOverlap)
{
    Pool pool(Limited(256 * kMiB));
    std::mt19937_64 random(pool_test::Seed(3));
    pool_test::Ranges ranges;
    std::vector<moiety_devptr> live;
    for (int i = 0; i < 20000; i++) {
        size_t size_bytes = 8 * kKiB + random() % (300 * kKiB);
        if (live.size() < 400 && random() % 2) {
            moiety_devptr block = pool.Alloc(size_bytes);
            ASSERT_LE(size_bytes, pool.UsableSize(block));
            ASSERT_TRUE(ranges.Add(block, size_bytes));
            live.push_back(block);
        } else if (!live.empty()) {
            std::swap(live[random() % live.size()], live.back());
            ranges.Remove(live.back());
            pool.Free(live.back());
            live.pop_back();
        }
    }
    for (moiety_devptr block : live)
        pool.Free(block);
    pool.Free(pool.Alloc(64 * kMiB));
}

} // namespace

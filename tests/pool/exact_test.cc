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

namespace
{

using pool_test::Defaults;
using pool_test::kGiB;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;

const binade_stream kStream = BINADE_STREAM_LEGACY;

class Exact : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    static binade_pool_options WithMaps(uint64_t limit_bytes = 0)
    {
        binade_pool_options options = Defaults();
        options.flags |= BINADE_POOL_STREAM_MAPS;
        options.limit_bytes = limit_bytes;
        options.wait_ms = 0;
        return options;
    }

    // A block of so many bytes in the thread's cache.
    static binade_devptr Cache(Pool &pool, size_t size_bytes)
    {
        binade_devptr block = pool.Alloc(size_bytes);
        pool.Free(block);
        return block;
    }

    // How many percent of a limit of 1 GiB are live when no block more fits.
    static double Filled(size_t size_bytes)
    {
        Pool pool(WithMaps(kGiB));
        std::vector<binade_devptr> blocks;
        binade_devptr block;
        while (binade_alloc(pool, size_bytes, kStream, &block) == BINADE_OK)
            blocks.push_back(block);
        for (binade_devptr each : blocks)
            pool.Free(each);
        return 100.0 * static_cast<double>(blocks.size()) /
               static_cast<double>(kGiB / size_bytes);
    }

    binade_devptr address = 77;
};

TEST_F(Exact, BlocksHoldTheirSizeRoundedTo512Bytes)
{
    Pool pool(WithMaps());
    for (size_t size_bytes :
         {33 * kKiB / 2, 17 * kKiB, 32 * kKiB, 33 * kKiB, 100 * kKiB,
          699 * kKiB + 512, kMiB, kMiB + 512, 5 * kMiB + 512, 200 * kMiB}) {
        binade_devptr block = pool.Alloc(size_bytes);
        binade_devptr shorter = pool.Alloc(size_bytes - 511);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        EXPECT_EQ(size_bytes, pool.UsableSize(shorter));
        pool.Free(block);
        pool.Free(shorter);
    }
}

TEST_F(Exact, ACachedRunServesWhatIsShorterWithinItsBucket)
{
    Pool pool(WithMaps());
    for (size_t size_bytes : {36 * kKiB, 576 * kKiB, 3 * kMiB}) {
        binade_devptr cached = Cache(pool, size_bytes);
        binade_devptr block = pool.Alloc(size_bytes - size_bytes / 16);
        EXPECT_EQ(cached, block);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        pool.Free(block);
    }
}

TEST_F(Exact, ACachedRunServesNothingThatIsLonger)
{
    Pool pool(WithMaps());
    for (size_t size_bytes : {36 * kKiB, 576 * kKiB, 3 * kMiB, 9 * kMiB}) {
        binade_devptr cached = Cache(pool, size_bytes - 512);
        binade_devptr block = pool.Alloc(size_bytes);
        EXPECT_NE(cached, block);
        EXPECT_EQ(size_bytes, pool.UsableSize(block));
        pool.Free(block);
    }
}

TEST_F(Exact, UnderALimitACachedRunFitsWithin128th)
{
    Pool pool(WithMaps(kGiB));
    binade_devptr cached = Cache(pool, kMiB);
    binade_devptr shorter = pool.Alloc(kMiB - 16 * 512);
    EXPECT_NE(cached, shorter);
    EXPECT_EQ(kMiB - 16 * 512, pool.UsableSize(shorter));
    binade_devptr fitting = pool.Alloc(kMiB - 15 * 512);
    EXPECT_EQ(cached, fitting);
    pool.Free(shorter);
    pool.Free(fitting);
}

TEST_F(Exact, TheSameHoldsForRunsThatNoHitServes)
{
    Pool pool(WithMaps(kGiB));
    binade_devptr cached = Cache(pool, 4 * kMiB);
    binade_devptr shorter = pool.Alloc(4 * kMiB - 64 * 512);
    EXPECT_NE(cached, shorter);
    binade_devptr fitting = pool.Alloc(4 * kMiB - 63 * 512);
    EXPECT_EQ(cached, fitting);
    pool.Free(shorter);
    pool.Free(fitting);
}

TEST_F(Exact, AHitLooksAtTheNewestFour)
{
    Pool pool(WithMaps());
    // Both lengths have the same bucket.
    const size_t kLonger = 72 * kKiB, kShorter = 66 * kKiB;
    binade_devptr longer = pool.Alloc(kLonger);
    // Some may come out of what a miss has carved beside the first.
    std::vector<binade_devptr> shorter, others;
    while (shorter.size() < 4) {
        binade_devptr block = pool.Alloc(kShorter);
        bool is_longer = pool.UsableSize(block) == kLonger;
        (is_longer ? others : shorter).push_back(block);
    }
    pool.Free(longer);
    for (int i = 0; i < 3; i++)
        pool.Free(shorter[i]);
    ASSERT_EQ(BINADE_OK, binade_alloc_cached(pool, kLonger, kStream, &address));
    EXPECT_EQ(longer, address);
    for (int i = 0; i < 3; i++)
        shorter[i] = pool.Alloc(kShorter);
    pool.Free(longer);
    for (binade_devptr block : shorter)
        pool.Free(block);
    EXPECT_EQ(BINADE_E_BUSY,
              binade_alloc_cached(pool, kLonger, kStream, &address));
    for (binade_devptr block : others)
        pool.Free(block);
}

TEST_F(Exact, AnAlignedRequestTakesNoCachedRunThatIsNot)
{
    Pool pool(WithMaps());
    binade_devptr first = pool.Alloc(512);
    for (size_t size_bytes : {100 * kKiB, 3 * kMiB}) {
        std::vector<binade_devptr> blocks;
        for (int i = 0; i < 4; i++)
            blocks.push_back(pool.Alloc(size_bytes));
        for (binade_devptr block : blocks)
            pool.Free(block);
        ASSERT_EQ(BINADE_OK, binade_alloc_aligned(pool, size_bytes, 2 * kMiB,
                                                  kStream, &address));
        EXPECT_EQ(0u, address % (2 * kMiB));
        EXPECT_EQ(size_bytes, pool.UsableSize(address));
        pool.Free(address);
    }
    pool.Free(first);
}

TEST_F(Exact, ASizedFreeMaySayWhatTheBucketHolds)
{
    Pool pool(WithMaps());
    binade_devptr block = pool.Alloc(72 * kKiB);
    for (size_t size_bytes : {72 * kKiB + 1, 64 * kKiB, 32 * kKiB, 2 * kMiB})
        EXPECT_EQ(BINADE_E_INVALID,
                  binade_free_sized(pool, block, size_bytes, kStream));
    EXPECT_EQ(BINADE_OK,
              binade_free_sized(pool, block, 64 * kKiB + 1, kStream));
}

TEST_F(Exact, StatsCountWhatRunsHold)
{
    Pool pool(WithMaps());
    uint64_t bytes = 0;
    std::vector<binade_devptr> blocks;
    for (size_t size_bytes :
         {33 * kKiB + 1, 100 * kKiB, 100 * kKiB, 2 * kMiB}) {
        blocks.push_back(pool.Alloc(size_bytes));
        bytes += pool.UsableSize(blocks.back());
        EXPECT_EQ(bytes, pool.Stats().allocated_bytes_current);
    }
    uint64_t cached_bytes = pool.Stats().cached_bytes;
    for (binade_devptr block : blocks)
        pool.Free(block);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    EXPECT_EQ(cached_bytes + bytes, pool.Stats().cached_bytes);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(Exact, BlocksOfOneSizeLieSideBySide)
{
    Pool pool(WithMaps(8 * kMiB));
    std::vector<binade_devptr> blocks;
    while (binade_alloc(pool, 100 * kKiB, kStream, &address) == BINADE_OK)
        blocks.push_back(address);
    EXPECT_EQ(8 * kMiB / (100 * kKiB), blocks.size());
    for (binade_devptr block : blocks)
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
    for (size_t size_bytes : {17 * 512, 33 * 512, 34 * 512, 48 * 512})
        EXPECT_LE(97.0, Filled(size_bytes)) << size_bytes;
}

// Blocks that are shorter than their note says would overlap.
TEST_F(Exact, BlocksOfManyLengthsDoNotOverlap)
{
    Pool pool(WithMaps(256 * kMiB));
    std::mt19937_64 random(pool_test::Seed(3));
    pool_test::Ranges ranges;
    std::vector<binade_devptr> live;
    for (int i = 0; i < 20000; i++) {
        size_t size_bytes = 8 * kKiB + random() % (300 * kKiB);
        if (live.size() < 400 && random() % 2) {
            binade_devptr block = pool.Alloc(size_bytes);
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
    for (binade_devptr block : live)
        pool.Free(block);
    pool.Free(pool.Alloc(64 * kMiB));
}

} // namespace

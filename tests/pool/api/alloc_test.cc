// SPDX-License-Identifier: Apache-2.0
//
// Allocations: their sizes, alignments and statuses, and that no two blocks
// share a byte.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class Alloc : public StandinTest
{
  protected:
    moiety_devptr address = 77;
};

TEST_F(Alloc, OfNothingIsTheNullAddress)
{
    Pool pool;
    EXPECT_OK(moiety_alloc(pool, 0, kStream, &address));
    EXPECT_EQ(0u, address);
    address = 77;
    EXPECT_OK(alloc_no_wait(pool, 0, kStream, &address));
    EXPECT_EQ(0u, address);
    address = 77;
    EXPECT_OK(alloc_aligned(pool, 0, 4096, kStream, &address));
    EXPECT_EQ(0u, address);
    EXPECT_EQ(0u, pool.Stats().allocation_allocated);
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(Alloc, OfABatchOfNothingGivesNullAddresses)
{
    Pool pool;
    std::vector<moiety_devptr> all(3, 77);
    EXPECT_OK(moiety_alloc_batch(pool, 0, kStream, 3, all.data()));
    EXPECT_EQ(std::vector<moiety_devptr>(3, 0), all);
}

TEST_F(Alloc, WithoutAPoolIsInvalid)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(nullptr, 512, kStream, &address));
    EXPECT_EQ(MOIETY_E_INVALID, alloc_no_wait(nullptr, 512, kStream, &address));
    EXPECT_EQ(MOIETY_E_INVALID,
              alloc_aligned(nullptr, 512, 512, kStream, &address));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_batch(nullptr, 512, kStream, 1, &address));
    EXPECT_EQ(77u, address);
}

TEST_F(Alloc, WithoutAPlaceForTheAddressIsInvalid)
{
    Pool pool;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pool, 512, kStream, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pool, 0, kStream, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, alloc_no_wait(pool, 512, kStream, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              alloc_aligned(pool, 512, 512, kStream, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_alloc_batch(pool, 512, kStream, 1, nullptr));
}

TEST_F(Alloc, BeyondTheLimitIsTooLarge)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 64 * kMiB;
    Pool pool(options);
    for (size_t size_bytes :
         {64 * kMiB + 1, 65 * kMiB, 2048 * kGiB, size_t{1} << 47, SIZE_MAX / 2,
          SIZE_MAX - 511, SIZE_MAX - 1, SIZE_MAX}) {
        EXPECT_EQ(MOIETY_E_TOO_LARGE,
                  moiety_alloc(pool, size_bytes, kStream, &address))
            << size_bytes;
        EXPECT_EQ(MOIETY_E_TOO_LARGE,
                  alloc_no_wait(pool, size_bytes, kStream, &address));
        EXPECT_EQ(MOIETY_E_TOO_LARGE,
                  alloc_aligned(pool, size_bytes, 4096, kStream, &address));
        EXPECT_EQ(MOIETY_E_TOO_LARGE,
                  moiety_alloc_batch(pool, size_bytes, kStream, 1, &address));
    }
    EXPECT_EQ(77u, address);
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("67108864"))
        << moiety_last_error_message();
    EXPECT_OK(moiety_alloc(pool, 64 * kMiB, kStream, &address));
    pool.Free(address);
}

TEST_F(Alloc, BeyondWhatAnyPoolHoldsIsTooLarge)
{
    for (uint32_t flags :
         {uint32_t{0}, uint32_t{KIND_MAPPED}, uint32_t{KIND_CHECKED},
          uint32_t{KIND_PASS_THROUGH}}) {
        moiety_pool_options options = Defaults();
        set_kind(&options, flags);
        Pool pool(options);
        for (size_t size_bytes : {1024 * kGiB + 1, size_t{1} << 47,
                                  SIZE_MAX - 2 * kMiB, SIZE_MAX}) {
            EXPECT_EQ(MOIETY_E_TOO_LARGE,
                      moiety_alloc(pool, size_bytes, kStream, &address))
                << size_bytes;
            EXPECT_EQ(
                MOIETY_E_TOO_LARGE,
                alloc_aligned(pool, size_bytes, 2 * kMiB, kStream, &address));
            EXPECT_EQ(MOIETY_E_TOO_LARGE,
                      alloc_zeroed(pool, size_bytes, kStream, &address));
        }
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    }
    EXPECT_EQ(77u, address);
}

TEST_F(Alloc, IsAlignedTo512Bytes)
{
    Pool pool;
    for (size_t size_bytes = 1; size_bytes < 20 * kMiB;
         size_bytes += 1 + size_bytes / 3) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_EQ(0u, block % 512) << size_bytes;
        pool.Free(block);
    }
}

TEST_F(Alloc, IsAlignedAsAsked)
{
    Pool pool;
    for (size_t alignment = 1; alignment <= 2 * kMiB; alignment *= 2) {
        std::vector<moiety_devptr> blocks;
        for (size_t size_bytes :
             {size_t{1}, 3 * kKiB, 100 * kKiB, kMiB, 3 * kMiB}) {
            moiety_devptr block = 0;
            ASSERT_OK(
                alloc_aligned(pool, size_bytes, alignment, kStream, &block));
            EXPECT_EQ(0u, block % alignment) << size_bytes;
            EXPECT_EQ(0u, block % 512) << size_bytes;
            EXPECT_GE(pool.UsableSize(block), size_bytes);
            blocks.push_back(block);
        }
        for (moiety_devptr block : blocks)
            pool.Free(block);
    }
}

TEST_F(Alloc, OfAnOddAlignmentIsInvalid)
{
    Pool pool;
    for (size_t alignment : {size_t{3}, size_t{513}, 3 * kKiB, 4 * kMiB, kGiB,
                             size_t{1} << 63, SIZE_MAX}) {
        EXPECT_EQ(MOIETY_E_INVALID,
                  alloc_aligned(pool, 512, alignment, kStream, &address))
            << alignment;
    }
    EXPECT_EQ(77u, address);
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("alignment"));
}

TEST_F(Alloc, IsRoundedUpByAnEighthAtMost)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes =
        MOIETY_BYTES_NONE; // no larger block that will do
    Pool pool(options);
    for (size_t size_bytes = 1; size_bytes <= kMiB;
         size_bytes += 1 + size_bytes / 50) {
        moiety_devptr block = pool.Alloc(size_bytes);
        size_t usable_bytes = pool.UsableSize(block);
        EXPECT_GE(usable_bytes, size_bytes);
        EXPECT_LE(usable_bytes, size_bytes + size_bytes / 8 + 512)
            << size_bytes;
        pool.Free(block);
    }
}

TEST_F(Alloc, OfARunIsRoundedUpBy32KiBAtMost)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    for (size_t size_bytes = kMiB + 1; size_bytes <= 40 * kMiB;
         size_bytes += 1 + size_bytes / 20) {
        moiety_devptr block = pool.Alloc(size_bytes);
        size_t usable_bytes = pool.UsableSize(block);
        EXPECT_GE(usable_bytes, size_bytes);
        EXPECT_LT(usable_bytes, size_bytes + 32 * kKiB) << size_bytes;
        pool.Free(block);
    }
}

TEST_F(Alloc, OutOfACacheIsRoundedUpByAnEighthAtMost)
{
    Pool pool;
    std::mt19937_64 random(pool_test::Seed(1));
    std::vector<moiety_devptr> live(50, 0);
    for (int i = 0; i < 3000; i++) {
        moiety_devptr &block = live[random() % live.size()];
        if (block)
            pool.Free(block);
        size_t size_bytes = 1 + random() % (4 * kMiB);
        block = pool.Alloc(size_bytes);
        size_t usable_bytes = pool.UsableSize(block);
        ASSERT_GE(usable_bytes, size_bytes);
        ASSERT_LE(usable_bytes, size_bytes + size_bytes / 8 + 512)
            << size_bytes;
    }
    for (moiety_devptr block : live)
        pool.Free(block);
}

TEST_F(Alloc, MayUseItsBlockUpToTheLastByte)
{
    Pool pool;
    for (size_t size_bytes :
         {size_t{1}, size_t{513}, 40 * kKiB, kMiB, 5 * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes);
        size_t usable_bytes = pool.UsableSize(block);
        pool_test::Fill(block, usable_bytes, 0xb10cb10c);
        EXPECT_TRUE(pool_test::Holds(block, usable_bytes, 0xb10cb10c));
        pool.Free(block);
    }
}

TEST_F(Alloc, NeverGivesAByteTwice)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    struct Block {
        moiety_devptr address;
        size_t usable_bytes;
        uint32_t word;
    };
    std::mt19937_64 random(pool_test::Seed(2));
    std::vector<Block> live;
    Ranges ranges;
    const moiety_stream streams[] = {MOIETY_STREAM_LEGACY, MOIETY_STREAM_ANY,
                                     MOIETY_STREAM_PER_THREAD,
                                     MOIETY_STREAM_DONE};
    for (uint32_t i = 1; i <= 6000; i++) {
        bool is_alloc = live.size() < 10 || (live.size() < 200 && random() % 2);
        moiety_stream stream = streams[random() % 4];
        if (is_alloc) {
            unsigned order = 4 + static_cast<unsigned>(random() % 18);
            size_t size_bytes = 1 + random() % (size_t{1} << order);
            Block block = {pool.Alloc(size_bytes, stream), 0, i};
            block.usable_bytes = pool.UsableSize(block.address);
            ASSERT_TRUE(ranges.Add(block.address, block.usable_bytes))
                << "operation " << i;
            pool_test::Fill(block.address, 512, block.word);
            live.push_back(block);
        } else {
            size_t index = random() % live.size();
            Block block = live[index];
            ASSERT_TRUE(pool_test::Holds(block.address, 512, block.word));
            ranges.Remove(block.address);
            pool.Free(block.address, stream);
            live[index] = live.back();
            live.pop_back();
        }
    }
    for (const Block &block : live)
        pool.Free(block.address);
}

TEST_F(Alloc, OfABatchGivesAsManyBlocks)
{
    Pool pool;
    for (size_t size_bytes : {size_t{512}, 20 * kKiB, kMiB, 3 * kMiB}) {
        std::vector<moiety_devptr> all(100, 0);
        Ranges ranges;
        ASSERT_OK(moiety_alloc_batch(pool, size_bytes, kStream, all.size(),
                                     all.data()));
        for (moiety_devptr block : all)
            EXPECT_TRUE(ranges.Add(block, pool.UsableSize(block)));
        for (moiety_devptr block : all)
            pool.Free(block);
    }
}

TEST_F(Alloc, OfABatchGivesAllOrNone)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 8 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    for (size_t size_bytes : {size_t{512}, 64 * kKiB, kMiB, 2 * kMiB}) {
        size_t count = 8 * kMiB / size_bytes;
        std::vector<moiety_devptr> all(count, 0);
        moiety_devptr other = pool.Alloc(512);
        EXPECT_EQ(
            MOIETY_E_NO_DEVICE_MEMORY,
            moiety_alloc_batch(pool, size_bytes, kStream, count, all.data()))
            << size_bytes;
        EXPECT_EQ(1u, pool.Stats().allocation_current);
        EXPECT_EQ(512u, pool.Stats().allocated_bytes_current);
        pool.Free(other);
    }
    pool.Free(pool.Alloc(8 * kMiB));
}

// `address` has room for one: a batch that began would write past it.
TEST_F(Alloc, OfABatchRefusesWhatNoLimitHoldsBeforeItTakesABlock)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 8 * kMiB;
    Pool limited(options);
    Pool unlimited;
    struct {
        size_t size_bytes, count;
    } const wishes[] = {
        {512, SIZE_MAX},
        {1, 8 * kMiB / 512 + 1},
        {513, 8 * kMiB / 1024 + 1},
        {8 * kMiB, 2},
        {8 * kMiB - 511, 2},
        {4096, SIZE_MAX / 4096 + 2}, // the product overflows to a page
        {size_t{1} << 20, size_t{1} << 44},
        {SIZE_MAX, 2},
        {SIZE_MAX, SIZE_MAX},
    };
    for (const auto &wish : wishes) {
        EXPECT_EQ(MOIETY_E_TOO_LARGE,
                  moiety_alloc_batch(limited, wish.size_bytes, kStream,
                                     wish.count, &address))
            << wish.size_bytes << " bytes, " << wish.count << " blocks";
        EXPECT_EQ(77u, address);
    }
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_alloc_batch(unlimited, 512, kStream, SIZE_MAX, &address));
    EXPECT_EQ(77u, address);
    EXPECT_EQ(0u, limited.Stats().reserved_bytes_current);
    EXPECT_EQ(0u, unlimited.Stats().reserved_bytes_current);
}

TEST_F(Alloc, OfABatchOfNothingRefusesWhatNoArrayHolds)
{
    Pool pool;
    for (size_t count : {SIZE_MAX, SIZE_MAX / 8, SIZE_MAX / 16 + 1}) {
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_alloc_batch(pool, 0, kStream, count, &address));
        EXPECT_EQ(77u, address);
    }
}

TEST_F(Alloc, OfABatchThatFillsTheLimitIsServed)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 8 * kMiB;
    options.first_segment_bytes = 8 * kMiB;
    Pool pool(options);
    std::vector<moiety_devptr> all(8, 0);
    ASSERT_OK(moiety_alloc_batch(pool, kMiB, kStream, all.size(), all.data()));
    for (moiety_devptr block : all)
        pool.Free(block);
}

TEST_F(Alloc, OfABatchOfNoneDoesNothing)
{
    Pool pool;
    EXPECT_OK(moiety_alloc_batch(pool, 512, kStream, 0, &address));
    EXPECT_EQ(77u, address);
    EXPECT_EQ(0u, pool.Stats().allocation_allocated);
}

TEST_F(Alloc, ThatTriesTakesWhatIsThereAndGrows)
{
    Pool pool;
    ASSERT_OK(alloc_no_wait(pool, 4096, kStream, &address));
    pool.Free(address);
    ASSERT_OK(alloc_no_wait(pool, 5 * kMiB, kStream, &address));
    pool.Free(address);
}

// A wait would never end, and neither would this test.
TEST_F(Alloc, ThatTriesNeverWaitsForTheDevice)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 4 * kMiB;
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    pool_test::Stream held;
    moiety_devptr block = pool.Alloc(4 * kMiB, held);
    held.Hold();
    pool.Free(block, held);
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(pool, kMiB, kStream, &address));
    EXPECT_EQ(77u, address);
    held.Release();
    pool.Free(pool.Alloc(kMiB));
}

} // namespace

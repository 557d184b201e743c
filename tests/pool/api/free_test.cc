// SPDX-License-Identifier: Apache-2.0
//
// Frees: what is refused, and that what is refused stays as it was.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// One of each kind: a small block, a class of its own word level, a run.
const size_t kSizes[] = {512, 3 * kKiB, 200 * kKiB, kMiB, 5 * kMiB};

using Free = StandinTest;

TEST_F(Free, OfTheNullAddressDoesNothing)
{
    Pool pool;
    EXPECT_OK(moiety_free(pool, 0, kStream));
    EXPECT_OK(moiety_free_sized(pool, 0, 0, kStream));
    EXPECT_OK(moiety_free_sized(pool, 0, 4096, kStream));
    EXPECT_EQ(0u, pool.Stats().allocation_freed);
}

TEST_F(Free, WithoutAPoolIsInvalid)
{
    moiety_devptr address = 512;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(nullptr, address, kStream));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free_sized(nullptr, address, 512, kStream));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free_batch(nullptr, &address, 1, kStream, nullptr));
}

TEST_F(Free, OnAnyStreamTakesTheBlock)
{
    Pool pool;
    pool_test::Stream created;
    const moiety_stream streams[] = {
        nullptr,           MOIETY_STREAM_LEGACY, MOIETY_STREAM_PER_THREAD,
        MOIETY_STREAM_ANY, MOIETY_STREAM_DONE,   created};
    for (moiety_stream stream : streams)
        for (size_t size_bytes : kSizes)
            pool.Free(pool.Alloc(size_bytes, stream), stream);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(Free, InsideABlockIsInvalid)
{
    Pool pool;
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes);
        size_t usable_bytes = pool.UsableSize(block);
        for (uint64_t offset :
             {uint64_t{1}, uint64_t{256}, uint64_t{511}, uint64_t{512},
              uint64_t{32} * kKiB, 2 * kMiB, usable_bytes - 1}) {
            if (offset >= usable_bytes)
                continue;
            EXPECT_EQ(MOIETY_E_INVALID,
                      moiety_free(pool, block + offset, kStream))
                << size_bytes << " + " << offset;
            EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(pool, block + offset,
                                                          size_bytes, kStream))
                << size_bytes << " + " << offset;
        }
        EXPECT_EQ(1u, pool.Stats().allocation_current);
        pool.Free(block);
    }
}

TEST_F(Free, OfMemoryThatWasNeverGivenOutIsInvalid)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(3 * kMiB);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 20 * kMiB, kStream))
        << "the segment has 32 MiB";
    pool.Free(block);
}

TEST_F(Free, OfAnotherPoolsBlockIsForeign)
{
    Pool pool, other;
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = other.Alloc(size_bytes);
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool, block, kStream));
        EXPECT_EQ(MOIETY_E_FOREIGN,
                  moiety_free_sized(pool, block, size_bytes, kStream));
        other.Free(block);
    }
}

TEST_F(Free, OfAnAddressThatIsNobodysIsForeign)
{
    Pool pool;
    pool.Free(pool.Alloc(512));
    for (moiety_devptr address :
         {moiety_devptr{1}, moiety_devptr{512}, moiety_devptr{0x1234567},
          moiety_devptr{1} << 48, moiety_devptr{1} << 49, ~moiety_devptr{511},
          ~moiety_devptr{0}}) {
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool, address, kStream))
            << address;
    }
}

TEST_F(Free, TwiceInARowIsRefused)
{
    Pool pool;
    for (size_t size_bytes : kSizes) {
        // Of a large one, which no cache has, only that it is free is known.
        const moiety_status refusal =
            size_bytes < 200 * kKiB ? MOIETY_E_DOUBLE_FREE : MOIETY_E_INVALID;
        for (moiety_stream stream :
             {MOIETY_STREAM_LEGACY, MOIETY_STREAM_ANY, MOIETY_STREAM_DONE}) {
            moiety_devptr block = pool.Alloc(size_bytes);
            pool.Free(block, stream);
            EXPECT_EQ(refusal, moiety_free(pool, block, stream)) << size_bytes;
            EXPECT_EQ(refusal,
                      moiety_free_sized(pool, block, size_bytes, stream))
                << size_bytes;
        }
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(15u, pool.Stats().allocation_freed);
}

TEST_F(Free, TwiceIsInvalidWhenTheBlockHasLeftTheCaches)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes);
        moiety_devptr between = pool.Alloc(size_bytes);
        pool.Free(block, MOIETY_STREAM_DONE);
        pool.Free(between, MOIETY_STREAM_DONE);
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, kStream))
            << size_bytes;
    }
}

TEST_F(Free, AfterItsMemoryWentBackIsForeign)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(4096);
    pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(32 * kMiB, pool.Trim());
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool, block, kStream));
}

TEST_F(Free, OfTheWrongSizeIsInvalid)
{
    Pool pool;
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes);
        for (size_t wrong_bytes :
             {size_t{0}, size_t{1}, size_bytes / 2, 2 * size_bytes,
              size_bytes + 100 * kKiB, 64 * kMiB, SIZE_MAX}) {
            // A block of 512 bytes has the size of one of 1 byte.
            if (size_bytes == 512 && wrong_bytes > 0 && wrong_bytes <= 512)
                continue;
            EXPECT_EQ(MOIETY_E_INVALID,
                      moiety_free_sized(pool, block, wrong_bytes, kStream))
                << wrong_bytes << " for " << size_bytes;
        }
        EXPECT_EQ(1u, pool.Stats().allocation_current);
        EXPECT_OK(moiety_free_sized(pool, block, size_bytes, kStream));
    }
}

// Also of a block that was cut for a stronger alignment, or that a cached run
// which is a bit longer serves.
TEST_F(Free, OfTheSizeThatWasAskedForIsAccepted)
{
    Pool pool;
    for (size_t size_bytes = 1; size_bytes < 9 * kMiB;
         size_bytes += 1 + size_bytes / 9) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_OK(moiety_free_sized(pool, block, size_bytes, kStream))
            << size_bytes << ": " << moiety_last_error_message();
        ASSERT_OK(alloc_aligned(pool, size_bytes, 64 * kKiB, kStream, &block));
        EXPECT_OK(moiety_free_sized(pool, block, size_bytes, kStream))
            << size_bytes << ": " << moiety_last_error_message();
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(Free, OfABatchMayContainNull)
{
    Pool pool;
    std::vector<moiety_devptr> all = {pool.Alloc(512), 0, pool.Alloc(kMiB), 0};
    size_t freed_count = 77;
    EXPECT_OK(
        moiety_free_batch(pool, all.data(), all.size(), kStream, &freed_count));
    EXPECT_EQ(4u, freed_count);
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(Free, OfAnEmptyBatchDoesNothing)
{
    Pool pool;
    size_t freed_count = 77;
    EXPECT_OK(moiety_free_batch(pool, nullptr, 0, kStream, &freed_count));
    EXPECT_EQ(0u, freed_count);
}

TEST_F(Free, OfABatchWithoutAddressesIsInvalid)
{
    Pool pool;
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free_batch(pool, nullptr, 1, kStream, nullptr));
}

TEST_F(Free, OfABatchEndsAtTheFirstThatIsRefused)
{
    Pool pool;
    std::vector<moiety_devptr> all = {pool.Alloc(512), pool.Alloc(4096), 512,
                                      pool.Alloc(kMiB)};
    size_t freed_count = 77;
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free_batch(pool, all.data(), all.size(),
                                                  kStream, &freed_count));
    EXPECT_EQ(2u, freed_count);
    EXPECT_EQ(1u, pool.Stats().allocation_current);
    pool.Free(all[3]);
}

TEST_F(Free, OfABatchTakesBlocksOfAllSizes)
{
    Pool pool;
    std::vector<moiety_devptr> all;
    for (int i = 0; i < 60; i++)
        for (size_t size_bytes : kSizes)
            all.push_back(pool.Alloc(size_bytes));
    EXPECT_OK(
        moiety_free_batch(pool, all.data(), all.size(), kStream, nullptr));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

class UsableSize : public Free
{
  protected:
    size_t size_bytes_ = 77;
};

TEST_F(UsableSize, NeedsAPoolAndAPlace)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(512);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_usable_size(nullptr, block, &size_bytes_));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_usable_size(pool, block, nullptr));
    EXPECT_EQ(77u, size_bytes_);
    pool.Free(block);
}

TEST_F(UsableSize, InsideABlockIsInvalid)
{
    Pool pool;
    for (size_t block_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(block_bytes);
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_usable_size(pool, block + 1, &size_bytes_));
        if (block_bytes > 512) {
            EXPECT_EQ(MOIETY_E_INVALID,
                      moiety_usable_size(pool, block + 512, &size_bytes_));
        }
        pool.Free(block);
    }
    EXPECT_EQ(77u, size_bytes_);
}

TEST_F(UsableSize, OfWhatIsFreeIsInvalid)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    for (size_t block_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(block_bytes);
        pool.Free(block, MOIETY_STREAM_DONE);
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_usable_size(pool, block, &size_bytes_));
    }
    EXPECT_EQ(77u, size_bytes_);
}

TEST_F(UsableSize, OfAnothersMemoryIsForeign)
{
    Pool pool, other;
    moiety_devptr block = other.Alloc(512);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_usable_size(pool, block, &size_bytes_));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_usable_size(pool, 512, &size_bytes_));
    EXPECT_EQ(77u, size_bytes_);
    other.Free(block);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Blocks above 128 MiB, which no cache keeps: freed in every way, they come
// back to whoever may have them.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/pool/stream_names.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr size_t kHugeBytes = 192 * kMiB;

class HugeBlocks : public StandinTestWith<moiety_stream>
{
  protected:
};

using HugeBlocksOfAStream = StandinTest;

// Room for one of them and no second.
moiety_pool_options ForOne()
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = kHugeBytes + 64 * kMiB;
    return options;
}

void ExpectWholeAtTheEnd(Pool &pool)
{
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
    uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

TEST_P(HugeBlocks, ServeTheSameAgain)
{
    Pool pool(ForOne());
    for (uint64_t i = 0; i < 20; i++) {
        moiety_devptr block = pool.Alloc(kHugeBytes - i * kMiB, GetParam());
        moiety_devptr small = pool.Alloc(64 * kKiB, GetParam());
        pool_test::Fill(block + kHugeBytes - 32 * kMiB, 4 * kKiB, 7);
        EXPECT_TRUE(
            pool_test::Holds(block + kHugeBytes - 32 * kMiB, 4 * kKiB, 7));
        pool.Free(block, GetParam());
        pool.Free(small, GetParam());
    }
    ExpectWholeAtTheEnd(pool);
}

// Room for one only, and the stream is not done with it: it need not be.
TEST_F(HugeBlocksOfAStream, ServeItAtOnce)
{
    Pool pool(ForOne());
    Stream stream;
    stream.Hold();
    moiety_devptr first = pool.Alloc(kHugeBytes, stream);
    pool.Free(first, stream);
    moiety_devptr again = 0;
    EXPECT_OK(alloc_no_wait(pool, kHugeBytes - kMiB, stream, &again));
    EXPECT_EQ(first, again);
    pool.Free(again, stream);
    EXPECT_EQ(0u, pool.Stats().events_recorded);
    stream.Release();
    ExpectWholeAtTheEnd(pool);
}

TEST_P(HugeBlocks, ServeAnotherStreamInTheEnd)
{
    Pool pool(ForOne());
    Stream other;
    for (int i = 0; i < 20; i++) {
        pool.Free(pool.Alloc(kHugeBytes, GetParam()), GetParam());
        pool.Free(pool.Alloc(kHugeBytes, other), other);
    }
    ExpectWholeAtTheEnd(pool);
}

TEST_P(HugeBlocks, AreCutUpForSmallOnes)
{
    Pool pool(ForOne());
    pool.Free(pool.Alloc(kHugeBytes, GetParam()), GetParam());
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 128; i++)
        blocks.push_back(pool.Alloc(kMiB, GetParam()));
    for (moiety_devptr block : blocks)
        pool.Free(block, GetParam());
    pool.Free(pool.Alloc(kHugeBytes, GetParam()), GetParam());
    ExpectWholeAtTheEnd(pool);
}

INSTANTIATE_TEST_SUITE_P(Streams, HugeBlocks, pool_test::GivenStreams(),
                         pool_test::NameOfStream);

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// A miss looks for small blocks three times, and each look wants room in a magazine.
// With caches that are nearly full one look takes its room from another's magazine;
// no look may put a block where nobody looks any more.
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr int kRounds = 50;
constexpr size_t kBlocks = 300;
constexpr size_t kMostBytes = 32 * kKiB;

class GatheredBlocks : public ::testing::TestWithParam<uint32_t>
{
};

// All memory is the stream's own, and none of it done: each miss looks first for
// pages that have small blocks, then in what is done, and then in the rest. Blocks
// are freed as done, so that the stream's magazines are left as misses filled them.
TEST_P(GatheredBlocks, AreNotLostBetweenMagazinesThatTakeRoomFromEachOther)
{
    pool_test::UseStandin();
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, GetParam());
    options.limit_bytes = 64 * kMiB;
    options.thread_cache_bytes = 256 * kKiB;
    pool_test::Pool pool(options);
    std::mt19937_64 random(pool_test::Seed(1));
    for (int round = 0; round < kRounds; round++) {
        pool_test::Stream stream;
        std::vector<moiety_devptr> blocks;
        stream.Hold();
        pool.Free(pool.Alloc(32 * kMiB, stream), stream);
        for (size_t i = 0; i < kBlocks; i++)
            blocks.push_back(pool.Alloc(1 + random() % kMostBytes, stream));
        stream.Release();
        pool_test::Synchronize();
        for (moiety_devptr block : blocks)
            pool.Free(block, MOIETY_STREAM_DONE);
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    }
    EXPECT_EQ(0u, pool.End().block_count);
}

INSTANTIATE_TEST_SUITE_P(Pools, GatheredBlocks,
                         ::testing::Values(0u, uint32_t{KIND_MAPPED}),
                         [](const ::testing::TestParamInfo<uint32_t> &each) {
                             return each.param ? "Mapped" : "Driver";
                         });

} // namespace

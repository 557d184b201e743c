// SPDX-License-Identifier: Apache-2.0
//
// Mapped memory at its limit: what is too little for a request is not kept, or
// the pool would find it free and give it back again and again.
#include <gtest/gtest.h>

#include <string>

#include "tests/pool/oom/oom_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class MappedOom : public oom_test::OomTest
{
  protected:
    void TearDown() override
    {
        pool_test::SetFaults("");
    }

    static moiety_pool_options Mapped(uint64_t limit_bytes = 0)
    {
        moiety_pool_options options = Defaults();
        set_kind(&options, KIND_MAPPED);
        options.first_segment_bytes = 2 * kMiB;
        options.limit_bytes = limit_bytes;
        options.wait_ms = MOIETY_WAIT_NONE;
        return options;
    }

    static void ExpectSegmentsAddUp(const moiety_pool_stats &stats)
    {
        EXPECT_EQ(stats.segment_allocated,
                  stats.segment_current + stats.segment_freed);
    }
};

TEST_F(MappedOom, IsExactAndCreatesNothingBeyondTheLimit)
{
    Pool pool(Mapped(32 * kMiB));
    const moiety_devptr block = pool.Alloc(20 * kMiB);
    const uint64_t created = pool_test::Calls("cuMemCreate");
    const moiety_oom_report report = Fail(pool, 16 * kMiB);
    EXPECT_TRUE(report.is_exact);
    EXPECT_STREQ(report.source_name, "cuMemMap");
    EXPECT_EQ(pool.Stats().reserved_bytes_current, 20 * kMiB);
    EXPECT_EQ(pool_test::Calls("cuMemCreate"), created);
    const moiety_devptr fits = pool.Alloc(12 * kMiB);
    ExpectSegmentsAddUp(pool.Stats());
    pool.Free(block);
    pool.Free(fits);
}

// As another program would need what is left while that is refused.
TEST_F(MappedOom, TakesNothingOfADeviceThatHasTooLittle)
{
    Pool others(Mapped());
    Pool pool(Mapped());
    const size_t most = pool.Stats().limit_bytes;
    const moiety_devptr taken = others.Alloc(most / 2 + 2 * kMiB);
    const uint64_t created = pool_test::Calls("cuMemCreate");
    Fail(pool, most / 2);
    EXPECT_EQ(pool_test::Calls("cuMemCreate"), created);
    EXPECT_EQ(pool.Stats().reserved_bytes_current, 0u);
    others.Free(taken);
    others.TrimAll();
    pool.Free(pool.Alloc(most / 2));
}

// Before the driver is asked, which would be in vain.
TEST_F(MappedOom, AsksOtherPoolsWhereTheDeviceHasTooLittle)
{
    Pool rich, pool(Mapped());
    const size_t most = rich.Stats().limit_bytes;
    rich.Free(rich.Alloc(most - 64 * kMiB), MOIETY_STREAM_DONE);
    pool.Free(pool.Alloc(200 * kMiB));
    EXPECT_EQ(pool.Stats().others_asked, 1u);
    EXPECT_EQ(pool.Stats().ooms, 0u);
}

TEST_F(MappedOom, GrowsWhereTheDeviceDoesNotTellWhatItHas)
{
    Pool pool(Mapped());
    const uint64_t looks = pool_test::Calls("cuMemGetInfo_v2");
    pool_test::SetFaults("cuMemGetInfo_v2:every=1:code=CUDA_ERROR_UNKNOWN");
    const moiety_devptr block = pool.Alloc(100 * kMiB);
    pool_test::SetFaults("");
    EXPECT_LT(looks, pool_test::Calls("cuMemGetInfo_v2"));
    pool.Free(block);
}

TEST_F(MappedOom, KeepsNothingWhereTheDriverHasTooLittle)
{
    Pool pool(Mapped());
    const moiety_devptr block = pool.Alloc(2 * kMiB);
    // What is halved succeeds, down to a last page that cannot be halved.
    pool_test::SetFaults("cuMemCreate:every=2:code=CUDA_ERROR_OUT_OF_MEMORY");
    Fail(pool, 100 * kMiB);
    pool_test::SetFaults("");
    EXPECT_EQ(pool.Stats().reserved_bytes_current, 2 * kMiB);
    EXPECT_EQ(pool.Stats().segment_current, 1u);
    ExpectSegmentsAddUp(pool.Stats());
    pool.Free(block);
}

TEST_F(MappedOom, CountsAPieceOnceHoweverOftenItMoves)
{
    Pool pool(Mapped(72 * kMiB));
    const moiety_devptr first = pool.Alloc(32 * kMiB);
    const moiety_devptr before = pool.Alloc(2 * kMiB);
    const moiety_devptr second = pool.Alloc(32 * kMiB);
    const moiety_devptr behind = pool.Alloc(2 * kMiB);
    pool.Free(first);
    pool.Free(second);
    const moiety_devptr large = pool.Alloc(64 * kMiB);
    const moiety_pool_stats stats = pool.Stats();
    EXPECT_GT(stats.mapped_moves, 0u);
    ExpectSegmentsAddUp(stats);
    for (moiety_devptr block : {before, behind, large})
        pool.Free(block);
}

} // namespace

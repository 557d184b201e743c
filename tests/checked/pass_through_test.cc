// SPDX-License-Identifier: Apache-2.0
//
// Pools that pass each block through to the source.
#include <cstdlib>
#include <string>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/checked/checked_under_test.h"
#include "tests/segment/fake_source.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace checked_test;

using namespace pool_test;
using segment_test::FakeSource;

moiety_pool_options Passing(const moiety_source *source = nullptr)
{
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_PASS_THROUGH);
    options.source = source;
    return options;
}

using PassThrough = Checked;

TEST_F(PassThrough, MakesEachBlockAnAllocationOfTheDriver)
{
    Pool pool(Passing());
    int64_t before = Live("allocations");
    std::vector<moiety_devptr> blocks;
    for (size_t size_bytes : {size_t{1}, size_t{700}, kMiB, 5 * kMiB}) {
        blocks.push_back(pool.Alloc(size_bytes));
        EXPECT_EQ(size_bytes, pool.UsableSize(blocks.back()));
        CUdeviceptr base = 0;
        size_t found_bytes = 0;
        EXPECT_EQ(
            CUDA_SUCCESS,
            (pool_test::Get<CUresult(CUdeviceptr *, size_t *, CUdeviceptr)>(
                "cuMemGetAddressRange_v2")(&base, &found_bytes,
                                           blocks.back())));
        EXPECT_EQ(blocks.back(), base);
        EXPECT_EQ(size_bytes, found_bytes);
    }
    EXPECT_EQ(before + 4, Live("allocations"));
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_EQ(before, Live("allocations"));
}

TEST_F(PassThrough, GivesABlockBackWhenItsStreamIsDone)
{
    Pool pool(Passing());
    Stream stream;
    int64_t before = Live("allocations");
    moiety_devptr block = pool.Alloc(4096, stream);
    stream.Hold();
    pool.Free(block, stream);
    (void)pool.Trim();
    EXPECT_EQ(before + 1, Live("allocations"));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(4096u, pool.Stats().retiring_bytes);
    stream.Release();
    pool_test::Synchronize();
    EXPECT_EQ(4096u, pool.Trim());
    EXPECT_EQ(before, Live("allocations"));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_F(PassThrough, WaitsForAllThatUseABlock)
{
    Pool pool(Passing());
    Stream stream, user;
    int64_t before = Live("allocations");
    moiety_devptr block = pool.Alloc(4096, stream);
    user.Hold();
    EXPECT_OK(moiety_record_use(pool, block, user));
    pool.Free(block, stream);
    moiety_devptr other = pool.Alloc(4096, stream);
    pool.Free(other, MOIETY_STREAM_ANY);
    (void)pool.Trim();
    EXPECT_EQ(before + 2, Live("allocations"));
    user.Release();
    pool_test::Synchronize();
    (void)pool.Trim();
    EXPECT_EQ(before, Live("allocations"));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    EXPECT_OK(moiety_pool_retire_stream(pool, user));
}

TEST_F(PassThrough, RefusesWhatIsNoBlock)
{
    Pool pool(Passing());
    moiety_devptr block = pool.Alloc(4096);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block + 512, kStream));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free(pool, 512, kStream));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_sized(pool, block, 4095, kStream));
    pool.Free(block);
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_check(pool, nullptr));
}

TEST_F(PassThrough, KeepsToTheLimit)
{
    moiety_pool_options options = Passing();
    options.limit_bytes = 4 * kMiB;
    Pool pool(options);
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_alloc(pool, 4 * kMiB + 1, kStream, &none));
    moiety_devptr first = pool.Alloc(3 * kMiB);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 2 * kMiB, kStream, &none));
    EXPECT_TRUE(MessageHas("above the pool's limit"));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(pool, 2 * kMiB, kStream, &none));
    pool.Free(first);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(3 * kMiB, stats.reserved_bytes_peak);
    // It waits for the work of what was freed.
    pool.Free(pool.Alloc(2 * kMiB));
    EXPECT_EQ(2u, pool.Stats().segment_allocated);
}

TEST_F(PassThrough, CountsBlocksAsSegments)
{
    Pool pool(Passing());
    moiety_devptr block = pool.Alloc(700);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(1u, stats.segment_current);
    EXPECT_EQ(700u, stats.reserved_bytes_current);
    EXPECT_EQ(700u, stats.allocated_bytes_current);
    EXPECT_EQ(1u, stats.allocation_current);
    pool.Free(block, MOIETY_STREAM_DONE);
    stats = pool.Stats();
    EXPECT_EQ(0u, stats.segment_current);
    EXPECT_EQ(1u, stats.segment_freed);
    EXPECT_EQ(0u, stats.reserved_bytes_current);
}

TEST_F(PassThrough, NamesAndReleasesWhatWasNotFreed)
{
    int64_t before = Live("allocations");
    Pool pool(Passing());
    moiety_devptr block = pool.Alloc(700);
    moiety_leaks leaks = pool.End();
    EXPECT_EQ(1u, leaks.block_count);
    EXPECT_EQ(700u, leaks.bytes);
    EXPECT_EQ(block, leaks.addresses[0]);
    EXPECT_EQ(before, Live("allocations"));
}

TEST_F(PassThrough, AlignsAsAnyPool)
{
    Pool pool(Passing());
    std::vector<moiety_devptr> blocks;
    for (size_t alignment_bytes = 1; alignment_bytes <= 2 * kMiB;
         alignment_bytes *= 2) {
        moiety_devptr block = 0;
        ASSERT_OK(alloc_aligned(pool, 100, alignment_bytes, kStream, &block));
        EXPECT_EQ(0u, block % alignment_bytes);
        EXPECT_EQ(0u, block % 512);
        blocks.push_back(block);
        blocks.push_back(pool.Alloc(kMiB + alignment_bytes));
        EXPECT_EQ(0u, blocks.back() % (2 * kMiB));
    }
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
    (void)pool.Trim();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

// What such a source may be asked for is moiety/source.h's.
TEST_F(PassThrough, AsksAProgramsSourceForWhatItMayBeAskedFor)
{
    FakeSource source;
    moiety_source table = source.Table();
    {
        Pool pool(Passing(&table));
        moiety_devptr block = pool.Alloc(700);
        EXPECT_EQ(std::vector<uint64_t>{2 * kMiB}, source.Asked());
        EXPECT_EQ(1u, source.Live().size());
        pool.Free(block, MOIETY_STREAM_DONE);
        EXPECT_TRUE(source.Live().empty());
    }
    EXPECT_EQ("", source.Complaint());
}

TEST_F(PassThrough, AlignsMisalignedMemoryOfASource)
{
    FakeSource source;
    source.misaligned_bytes = 64 * kKiB;
    moiety_source table = source.Table();
    {
        Pool pool(Passing(&table));
        moiety_devptr block = pool.Alloc(2 * kMiB);
        EXPECT_EQ(0u, block % (2 * kMiB));
        pool.Free(block, MOIETY_STREAM_DONE);
        (void)pool.Trim();
        EXPECT_TRUE(source.Live().empty());
    }
    EXPECT_EQ("", source.Complaint());
}

TEST_F(PassThrough, KeepsWhatTheSourceDoesNotTakeBack)
{
    FakeSource source;
    moiety_source table = source.Table();
    {
        Pool pool(Passing(&table));
        source.failing_release = 1;
        pool.Free(pool.Alloc(700), MOIETY_STREAM_DONE);
        EXPECT_EQ(2 * kMiB, pool.Stats().reserved_bytes_current);
        (void)pool.Trim();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    }
    EXPECT_TRUE(source.Live().empty());
    EXPECT_EQ("", source.Complaint());
}

TEST_F(PassThrough, MayBeChecked)
{
    moiety_pool_options options = Passing();
    set_kind(&options, KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET);
    int64_t before = Live("allocations");
    Pool pool(options);
    moiety_devptr block = pool.Alloc(700);
    EXPECT_EQ(before + 1, Live("allocations"));
    pool_test::Fill(block + 700, 4, 0);
    pool.Free(block);
    pool_test::Synchronize();
    EXPECT_EQ(1u, Check(pool).writes_out_of_bounds);
    EXPECT_EQ(before, Live("allocations"));
}

TEST_F(PassThrough, IsSetByTheEnvironmentAlone)
{
    setenv("MOIETY_CONF", "pass_through:1", 1);
    Pool pool;
    unsetenv("MOIETY_CONF");
    int64_t before = Live("allocations");
    moiety_devptr block = pool.Alloc(100);
    EXPECT_EQ(before + 1, Live("allocations"));
    pool.Free(block);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Events that cannot be recorded: what waits for them keeps waiting, and is
// had when they can be.
#include <gtest/gtest.h>

#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;
using pool_test::Stream;

class RecordFault : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        options = Defaults();
        options.limit_bytes = 8 * kMiB;
        options.wait_ms = 0;
    }

    void TearDown() override
    {
        pool_test::SetFaults("");
    }

    // Queues work that uses the block, and holds it back.
    static void Use(moiety_devptr block, Stream &stream)
    {
        stream.Hold();
        EXPECT_EQ(
            0,
            pool_test::Get<int(moiety_devptr, unsigned, size_t, moiety_stream)>(
                "cuMemsetD32Async")(block, 1, 128, stream));
    }

    moiety_pool_options options;
    moiety_devptr address = 77;
};

TEST_F(RecordFault, KeepsWhatAStreamFreedFromOthers)
{
    Pool pool(options);
    Stream held, other;
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 128; i++)
        blocks.push_back(pool.Alloc(64 * kKiB, held));
    Use(blocks[0], held);
    pool_test::SetFaults("cuEventRecord:every=1:code=CUDA_ERROR_UNKNOWN");
    for (moiety_devptr block : blocks)
        pool.Free(block, held);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 64 * kKiB, other, &address));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 8 * kMiB, other, &address));
    pool_test::SetFaults("");
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 8 * kMiB, other, &address));
    held.Release();
    EXPECT_EQ(8 * kMiB, pool.TrimAll());
}

TEST_F(RecordFault, KeepsWhatAnyStreamMayUseFromAll)
{
    Pool pool(options);
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, held);
    Use(block, held);
    pool_test::SetFaults("cuCtxRecordEvent:every=1:code=CUDA_ERROR_UNKNOWN");
    pool.Free(block, MOIETY_STREAM_ANY);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kMiB, held, &address));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kMiB, other, &address));
    pool_test::SetFaults("");
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kMiB, other, &address));
    held.Release();
    EXPECT_EQ(8 * kMiB, pool.TrimAll());
}

// It waits for an event of the context, which comes later.
TEST_F(RecordFault, OnAStreamIsNoneOfABlockWithUses)
{
    Pool pool(options);
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, other);
    ASSERT_EQ(MOIETY_OK, moiety_record_use(pool, block, held));
    Use(block, held);
    pool_test::SetFaults("cuEventRecord:every=1:code=CUDA_ERROR_UNKNOWN");
    pool.Free(block, other);
    pool_test::SetFaults("");
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kMiB, other, &address))
        << "the other stream's use was forgotten";
    held.Release();
    EXPECT_EQ(8 * kMiB, pool.TrimAll());
}

// An event that says an error says nothing of the work.
TEST_F(RecordFault, OfTheQueryKeepsTheMemory)
{
    Pool pool(options);
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, held);
    Use(block, held);
    pool.Free(block, held);
    pool_test::SetFaults("cuEventQuery:every=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kMiB, other, &address));
    pool_test::SetFaults("");
    held.Release();
    EXPECT_EQ(8 * kMiB, pool.TrimAll());
}

} // namespace

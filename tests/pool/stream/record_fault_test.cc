// SPDX-License-Identifier: Apache-2.0
//
// Events that cannot be recorded: what waits for them keeps waiting, and is
// had when they can be.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

class RecordFault : public StandinTest
{
  protected:
    void SetUp() override
    {
        options = Defaults();
        options.limit_bytes = 8 * kMiB;
        options.wait_ms = MOIETY_WAIT_NONE;
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
    ASSERT_OK(moiety_record_use(pool, block, held));
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

bool Says(const char *words)
{
    return std::string(moiety_last_error_message()).find(words) !=
           std::string::npos;
}

// In the driver's words, and not as a capture that is not there.
TEST_F(RecordFault, IsNamedByASynchronisation)
{
    Pool pool(options);
    pool.Free(pool.Alloc(kMiB), MOIETY_STREAM_ANY);
    pool_test::SetFaults("cuCtxRecordEvent:every=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_TIMEOUT, moiety_pool_synchronize(pool, 60000));
    EXPECT_TRUE(Says("no event could be recorded: cuCtxRecordEvent: "
                     "CUDA_ERROR_UNKNOWN"))
        << moiety_last_error_message();
    pool_test::SetFaults("");
    EXPECT_OK(moiety_pool_synchronize(pool, 60000));
}

// Of a blocking stream, which nobody has told of: it is seen beforehand.
TEST_F(RecordFault, BecauseOfACaptureIsNamed)
{
    Pool pool(options);
    moiety_stream stream = nullptr;
    void *graph = nullptr;
    const moiety_devptr block = pool.Alloc(7 * kMiB, MOIETY_STREAM_ANY);
    ASSERT_EQ(0, pool_test::Get<int(moiety_stream *, unsigned)>(
                     "cuStreamCreate")(&stream, 0));
    ASSERT_EQ(0, pool_test::Get<int(moiety_stream, int)>(
                     "cuStreamBeginCapture_v2")(stream, 2));
    pool.Free(block, MOIETY_STREAM_ANY);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 6 * kMiB, MOIETY_STREAM_ANY, &address));
    EXPECT_TRUE(Says("none is recorded while a blocking stream captures"))
        << moiety_last_error_message();
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_pool_synchronize(pool, 60000));
    EXPECT_TRUE(Says("no event can be recorded: a graph is captured"))
        << moiety_last_error_message();
    EXPECT_EQ(0, pool_test::Get<int(moiety_stream, void **)>(
                     "cuStreamEndCapture")(stream, &graph));
    EXPECT_EQ(0, pool_test::Get<int(void *)>("cuGraphDestroy")(graph));
    EXPECT_EQ(0,
              pool_test::Get<int(moiety_stream)>("cuStreamDestroy_v2")(stream));
    EXPECT_OK(moiety_pool_synchronize(pool, 60000));
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Streams that are not what the program takes them for, and graphs that
// capture.
#include <memory>
#include <string>

#include "pool/driver/cuda_abi.h"
#include "tests/checked/captured_graph.h"
#include "tests/checked/checked_under_test.h"

namespace
{

using namespace checked_test;

using CheckedStream = Checked;
using pool_test::Get;

binade_stream Create()
{
    CUstream stream = nullptr;
    EXPECT_EQ(CUDA_SUCCESS,
              Get<CUresult(CUstream *, unsigned)>("cuStreamCreate")(
                  &stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

void Destroy(binade_stream stream)
{
    EXPECT_EQ(CUDA_SUCCESS,
              Get<CUresult(CUstream)>("cuStreamDestroy_v2")(stream));
}

TEST_F(CheckedStream, ThatWasDestroyedIsNamed)
{
    Pool pool(Quiet());
    binade_stream stream = Create();
    binade_devptr block = pool.Alloc(100, stream);
    Destroy(stream);
    EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block, stream));
    EXPECT_TRUE(MessageHas("was destroyed without binade_stream_retire()"));
    EXPECT_EQ(BINADE_E_INVALID, binade_record_use(pool, block, stream));
    binade_devptr none = 0;
    EXPECT_EQ(BINADE_E_INVALID, binade_alloc(pool, 100, stream, &none));
    EXPECT_EQ(3u, Check(pool).dead_streams);
    EXPECT_EQ(1u, Check(pool).live_blocks);
    pool.Free(block, BINADE_STREAM_ANY);
}

// The stand-in gives a freed handle out again, as a driver does.
TEST_F(CheckedStream, OfWhichTheHandleIsAnotherStreamsIsNamed)
{
    Pool pool(Quiet());
    binade_stream stream = Create();
    pool.Free(pool.Alloc(100, stream), stream);
    Destroy(stream);
    binade_stream second = Create();
    if (second != stream)
        GTEST_SKIP() << "the driver gives out another handle";
    binade_devptr none = 0;
    EXPECT_EQ(BINADE_E_INVALID, binade_alloc(pool, 100, second, &none));
    EXPECT_TRUE(MessageHas("its handle is another stream's now"));
    // The remedy, though late: the handle is new to the pool.
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, second));
    pool.Free(pool.Alloc(100, second), second);
    EXPECT_EQ(1u, Findings(Check(pool)));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, second));
    Destroy(second);
}

TEST_F(CheckedStream, ThatWasRetiredMayComeAgain)
{
    Pool pool(Quiet());
    for (int i = 0; i < 20; i++) {
        binade_stream stream = Create();
        pool.Free(pool.Alloc(100, stream), stream);
        EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
        Destroy(stream);
    }
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(pool)));
}

TEST_F(CheckedStream, OfAContextThatThePoolDoesNotKnowIsNamed)
{
    binade_context other = pool_test::NewContext();
    Pool pool(Quiet());
    pool_test::SetCurrent(other);
    {
        auto stream = std::make_unique<Stream>();
        pool_test::SetCurrent(pool_test::PrimaryContext());
        binade_devptr block = 0;
        EXPECT_EQ(BINADE_E_INVALID, binade_alloc(pool, 100, *stream, &block));
        EXPECT_TRUE(MessageHas("a context that the pool does not know"));
        block = pool.Alloc(100);
        EXPECT_EQ(BINADE_E_INVALID, binade_free(pool, block, *stream));
        EXPECT_EQ(2u, Check(pool).foreign_streams);
        EXPECT_EQ(BINADE_OK, binade_pool_add_context(pool, other));
        EXPECT_EQ(BINADE_OK, binade_free(pool, block, *stream))
            << binade_last_error_message();
        EXPECT_EQ(2u, Findings(Check(pool)));
        EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, *stream));
    }
    EXPECT_EQ(0u, pool.End().block_count);
    pool_test::DestroyContext(other);
}

TEST_F(CheckedStream, ThatIsBusyWhenABlockIsFreedAsDoneIsCounted)
{
    Pool pool(Quiet());
    Stream stream;
    binade_devptr block = pool.Alloc(100, stream);
    binade_devptr other = pool.Alloc(100, stream);
    pool.Free(pool.Alloc(100, stream), BINADE_STREAM_DONE);
    EXPECT_EQ(0u, Check(pool).busy_when_done);
    stream.Hold();
    // Not of the block, which gets its pattern at once.
    Set(other, 1, 100, stream);
    pool.Free(block, BINADE_STREAM_DONE);
    stream.Release();
    pool.Free(other, stream);
    binade_checked_counts counts = Check(pool);
    EXPECT_EQ(1u, counts.busy_when_done);
    pool_test::Synchronize();
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
}

using CheckedCapture = Checked;

TEST_F(CheckedCapture, GetsNothingOfThePools)
{
    Pool pool(Quiet());
    Stream capturing, other;
    binade_devptr before = pool.Alloc(100, other);
    binade_devptr block = pool.Alloc(100, capturing), none = 0;
    ASSERT_EQ(BINADE_OK, binade_capture_guard_begin());
    CapturedGraph graph(capturing);
    EXPECT_EQ(BINADE_E_CAPTURING, binade_alloc(pool, 100, capturing, &none));
    EXPECT_EQ(BINADE_E_BUSY, binade_free(pool, block, capturing));
    pool.Free(before, other);
    pool.Free(pool.Alloc(100, other), BINADE_STREAM_ANY);
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_EQ(0u, graph.End());
    ASSERT_EQ(BINADE_OK, binade_capture_guard_end());
    pool.Free(block, capturing);
    pool_test::Synchronize();
    binade_checked_counts counts = Check(pool);
    EXPECT_EQ(0u, Findings(counts));
    EXPECT_EQ(0u, counts.held_blocks);
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, capturing));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, other));
}

TEST_F(CheckedCapture, IsSeenWithoutAGuardToo)
{
    Pool pool(Quiet());
    Stream capturing;
    CapturedGraph graph(capturing);
    binade_devptr block = pool.Alloc(100, capturing);
    EXPECT_EQ(BINADE_E_BUSY, binade_free(pool, block, capturing));
    EXPECT_EQ(0u, graph.End());
    pool.Free(block, capturing);
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, capturing));
}

} // namespace

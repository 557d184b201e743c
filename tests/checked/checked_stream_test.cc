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

moiety_stream Create()
{
    CUstream stream = nullptr;
    EXPECT_EQ(CUDA_SUCCESS,
              Get<CUresult(CUstream *, unsigned)>("cuStreamCreate")(
                  &stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

void Destroy(moiety_stream stream)
{
    EXPECT_EQ(CUDA_SUCCESS,
              Get<CUresult(CUstream)>("cuStreamDestroy_v2")(stream));
}

TEST_F(CheckedStream, ThatWasDestroyedIsNamed)
{
    Pool pool(Quiet());
    moiety_stream stream = Create();
    moiety_devptr block = pool.Alloc(100, stream);
    Destroy(stream);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, stream));
    EXPECT_TRUE(
        MessageHas("was destroyed without moiety_pool_retire_stream()"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_record_use(pool, block, stream));
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pool, 100, stream, &none));
    EXPECT_EQ(3u, Check(pool).dead_streams);
    EXPECT_EQ(1u, Check(pool).live_blocks);
    pool.Free(block, MOIETY_STREAM_ANY);
}

// The stand-in gives a freed handle out again, as a driver does.
TEST_F(CheckedStream, OfWhichTheHandleIsAnotherStreamsIsNamed)
{
    Pool pool(Quiet());
    moiety_stream stream = Create();
    pool.Free(pool.Alloc(100, stream), stream);
    Destroy(stream);
    moiety_stream second = Create();
    if (second != stream)
        GTEST_SKIP() << "the driver gives out another handle";
    moiety_devptr none = 0;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pool, 100, second, &none));
    EXPECT_TRUE(MessageHas("its handle is another stream's now"));
    // The remedy, though late: the handle is new to the pool.
    EXPECT_OK(moiety_pool_retire_stream(pool, second));
    pool.Free(pool.Alloc(100, second), second);
    EXPECT_EQ(1u, Findings(Check(pool)));
    EXPECT_OK(moiety_pool_retire_stream(pool, second));
    Destroy(second);
}

TEST_F(CheckedStream, ThatWasRetiredMayComeAgain)
{
    Pool pool(Quiet());
    for (int i = 0; i < 20; i++) {
        moiety_stream stream = Create();
        pool.Free(pool.Alloc(100, stream), stream);
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
        Destroy(stream);
    }
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(pool)));
}

TEST_F(CheckedStream, OfAContextThatThePoolDoesNotKnowIsNamed)
{
    moiety_context other = pool_test::NewContext();
    Pool pool(Quiet());
    pool_test::SetCurrent(other);
    {
        auto stream = std::make_unique<Stream>();
        pool_test::SetCurrent(pool_test::PrimaryContext());
        moiety_devptr block = 0;
        EXPECT_EQ(MOIETY_E_INVALID, moiety_alloc(pool, 100, *stream, &block));
        EXPECT_TRUE(MessageHas("a context that the pool does not know"));
        block = pool.Alloc(100);
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, *stream));
        EXPECT_EQ(2u, Check(pool).foreign_streams);
        EXPECT_OK(moiety_pool_add_context(pool, other));
        EXPECT_OK(moiety_free(pool, block, *stream));
        EXPECT_EQ(2u, Findings(Check(pool)));
        EXPECT_OK(moiety_pool_retire_stream(pool, *stream));
    }
    EXPECT_EQ(0u, pool.End().block_count);
    pool_test::DestroyContext(other);
}

TEST_F(CheckedStream, ThatIsBusyWhenABlockIsFreedAsDoneIsCounted)
{
    Pool pool(Quiet());
    Stream stream;
    moiety_devptr block = pool.Alloc(100, stream);
    moiety_devptr other = pool.Alloc(100, stream);
    pool.Free(pool.Alloc(100, stream), MOIETY_STREAM_DONE);
    EXPECT_EQ(0u, Check(pool).busy_when_done);
    stream.Hold();
    // Not of the block, which gets its pattern at once.
    Set(other, 1, 100, stream);
    pool.Free(block, MOIETY_STREAM_DONE);
    stream.Release();
    pool.Free(other, stream);
    moiety_checked_counts counts = Check(pool);
    EXPECT_EQ(1u, counts.busy_when_done);
    pool_test::Synchronize();
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

using CheckedCapture = Checked;

TEST_F(CheckedCapture, GetsNothingOfThePools)
{
    Pool pool(Quiet());
    Stream capturing, other;
    moiety_devptr before = pool.Alloc(100, other);
    moiety_devptr block = pool.Alloc(100, capturing), none = 0;
    ASSERT_OK(moiety_capture_guard_begin());
    CapturedGraph graph(capturing);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_alloc(pool, 100, capturing, &none));
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_free(pool, block, capturing));
    pool.Free(before, other);
    pool.Free(pool.Alloc(100, other), MOIETY_STREAM_ANY);
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_EQ(0u, graph.End());
    ASSERT_OK(moiety_capture_guard_end());
    pool.Free(block, capturing);
    pool_test::Synchronize();
    moiety_checked_counts counts = Check(pool);
    EXPECT_EQ(0u, Findings(counts));
    EXPECT_EQ(0u, counts.held_blocks);
    EXPECT_OK(moiety_pool_retire_stream(pool, capturing));
    EXPECT_OK(moiety_pool_retire_stream(pool, other));
}

TEST_F(CheckedCapture, IsSeenWithoutAGuardToo)
{
    Pool pool(Quiet());
    Stream capturing;
    CapturedGraph graph(capturing);
    moiety_devptr block = pool.Alloc(100, capturing);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_free(pool, block, capturing));
    EXPECT_EQ(0u, graph.End());
    pool.Free(block, capturing);
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_OK(moiety_pool_retire_stream(pool, capturing));
}

} // namespace

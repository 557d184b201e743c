// SPDX-License-Identifier: Apache-2.0
//
// Streams that are not what the program takes them for, and graphs that
// capture.
#include <memory>
#include <string>

#include "pool/driver/cuda_abi.h"
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
    pool.Free(pool.Alloc(100, stream), BINADE_STREAM_DONE);
    EXPECT_EQ(0u, Check(pool).busy_when_done);
    stream.Hold();
    EXPECT_EQ(CUDA_SUCCESS,
              (Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
                  "cuMemsetD8Async")(block, 1, 100, stream)));
    pool.Free(block, BINADE_STREAM_DONE);
    stream.Release();
    binade_checked_counts counts = Check(pool);
    EXPECT_EQ(1u, counts.busy_when_done);
    pool_test::Synchronize();
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
}

class CheckedCapture : public Checked
{
  protected:
    void Begin(binade_stream stream)
    {
        ASSERT_EQ(CUDA_SUCCESS, Get<CUresult(CUstream, CUstreamCaptureMode)>(
                                    "cuStreamBeginCapture_v2")(
                                    stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    }

    // How many nodes it captured.
    size_t End(binade_stream stream)
    {
        CUgraph graph = nullptr;
        size_t count = 0;
        EXPECT_EQ(CUDA_SUCCESS, Get<CUresult(CUstream, CUgraph *)>(
                                    "cuStreamEndCapture")(stream, &graph));
        EXPECT_EQ(CUDA_SUCCESS,
                  (Get<CUresult(CUgraph, CUgraphNode *, size_t *)>(
                      "cuGraphGetNodes")(graph, nullptr, &count)));
        EXPECT_EQ(CUDA_SUCCESS,
                  Get<CUresult(CUgraph)>("cuGraphDestroy")(graph));
        return count;
    }
};

TEST_F(CheckedCapture, GetsNothingOfThePools)
{
    Pool pool(Quiet());
    Stream capturing, other;
    binade_devptr before = pool.Alloc(100, other);
    binade_devptr block = pool.Alloc(100, capturing), none = 0;
    ASSERT_EQ(BINADE_OK, binade_capture_guard_begin());
    Begin(capturing);
    EXPECT_EQ(BINADE_E_CAPTURING, binade_alloc(pool, 100, capturing, &none));
    EXPECT_EQ(BINADE_E_BUSY, binade_free(pool, block, capturing));
    pool.Free(before, other);
    pool.Free(pool.Alloc(100, other), BINADE_STREAM_ANY);
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_EQ(0u, End(capturing));
    ASSERT_EQ(BINADE_OK, binade_capture_guard_end());
    pool.Free(block, capturing);
    pool_test::Synchronize();
    binade_checked_counts counts = Check(pool);
    EXPECT_EQ(0u, Findings(counts));
    EXPECT_EQ(0u, counts.held_blocks);
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, capturing));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, other));
}

// Neither knows where a checked block really begins.
TEST_F(CheckedCapture, HasNeitherScopesNorTenants)
{
    for (uint32_t flag : {BINADE_POOL_CHECKED, BINADE_POOL_PASS_THROUGH}) {
        binade_pool_options options = Quiet();
        options.flags = flag;
        Pool pool(options);
        Stream stream;
        binade_scope scope = 0;
        binade_tenant tenant = 0;
        EXPECT_EQ(BINADE_E_UNSUPPORTED,
                  binade_scope_begin(pool, stream, &scope));
        EXPECT_EQ(BINADE_E_UNSUPPORTED,
                  binade_tenant_create(pool, "", 0, &tenant));
        EXPECT_EQ(BINADE_E_INVALID, binade_capture_guard_end());
        EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, stream));
    }
}

TEST_F(CheckedCapture, IsSeenWithoutAGuardToo)
{
    Pool pool(Quiet());
    Stream capturing;
    Begin(capturing);
    binade_devptr block = pool.Alloc(100, capturing);
    EXPECT_EQ(BINADE_E_BUSY, binade_free(pool, block, capturing));
    EXPECT_EQ(0u, End(capturing));
    pool.Free(block, capturing);
    pool_test::Synchronize();
    EXPECT_EQ(0u, Findings(Check(pool)));
    EXPECT_EQ(BINADE_OK, binade_stream_retire(pool, capturing));
}

} // namespace

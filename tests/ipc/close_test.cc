// SPDX-License-Identifier: Apache-2.0
//
// Closing with work pending, in the test's own process: captures, guards,
// contexts that go.
#include <gtest/gtest.h>

#include <thread>

#include "pool/driver/cuda_abi.h"
#include "tests/ipc/peer.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using ipc_test::Peer;
using namespace pool_test;

class IpcClose : public StandinTest
{
  protected:
    void SetUp() override
    {
        handle_ = peer_.Export(peer_.Alloc(64 * kKiB));
    }

    void TearDown() override
    {
        ExpectNothingOpen();
    }

    static void ExpectNothingOpen()
    {
        uint32_t open_count = 1;
        EXPECT_OK(moiety_ipc_trim(0, &open_count));
        EXPECT_EQ(0u, open_count);
        EXPECT_EQ(0, pool_test::Live("ipc"));
    }

    moiety_devptr Import(moiety_context context = nullptr)
    {
        moiety_devptr address = 0;
        EXPECT_OK(
            moiety_ipc_import(&handle_, sizeof handle_, context, &address));
        return address;
    }

    static void Queue(moiety_devptr address, CUstream stream)
    {
        EXPECT_EQ(CUDA_SUCCESS,
                  (Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
                      "cuMemsetD8Async")(address, 1, 4096, stream)));
    }

    static bool IsOldDriver()
    {
        int version = 0;
        Get<CUresult(int *)>("cuDriverGetVersion")(&version);
        return version < 12050;
    }

    Peer peer_;
    moiety_ipc_handle handle_ = {};
};

TEST_F(IpcClose, WaitsForItsStreamOnly)
{
    Stream own, other;
    moiety_devptr address = Import();
    other.Hold();
    Queue(address + 8192, other);
    Queue(address, own);
    EXPECT_OK(moiety_ipc_close(address, own, nullptr))
        << "returns while another stream is held";
    other.Release();
}

TEST_F(IpcClose, ReturnsWhenTheWorkIsOver)
{
    Stream stream;
    moiety_devptr address = Import();
    stream.Hold();
    Queue(address, stream);
    std::thread releaser([&] {
        // What must not happen is given the time to happen.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stream.Release();
    });
    EXPECT_OK(moiety_ipc_close(address, stream, nullptr));
    EXPECT_EQ(CUDA_SUCCESS, Get<CUresult(CUstream)>("cuStreamQuery")(stream));
    releaser.join();
}

TEST_F(IpcClose, WithAnyWaitsForAllStreams)
{
    Stream stream;
    moiety_closing closing = nullptr;
    moiety_devptr address = Import();
    stream.Hold();
    Queue(address, stream);
    std::thread releaser([&] {
        // What must not happen is given the time to happen.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stream.Release();
    });
    EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_ANY, &closing));
    EXPECT_OK(moiety_ipc_wait(closing, 60000));
    EXPECT_EQ(CUDA_SUCCESS, Get<CUresult(CUstream)>("cuStreamQuery")(stream));
    releaser.join();
}

TEST_F(IpcClose, IsRefusedOnAStreamThatCaptures)
{
    Stream stream;
    CUgraph graph = nullptr;
    moiety_devptr address = Import();
    Get<CUresult(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2")(
        stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_EQ(MOIETY_E_CAPTURING, moiety_ipc_close(address, stream, nullptr));
    EXPECT_EQ(CUDA_SUCCESS, (Get<CUresult(CUstream, CUgraph *)>(
                                "cuStreamEndCapture")(stream, &graph)))
        << "the capture is whole";
    Get<CUresult(CUgraph)>("cuGraphDestroy")(graph);
    EXPECT_OK(moiety_ipc_close(address, stream, nullptr));
}

TEST_F(IpcClose, WithAnyIsRefusedUnderAGuard)
{
    moiety_devptr address = Import();
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    EXPECT_EQ(MOIETY_E_CAPTURING,
              moiety_ipc_close(address, MOIETY_STREAM_ANY, nullptr));
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_end());
    EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_ANY, nullptr));
}

TEST_F(IpcClose, RefusesAStreamThatIsNone)
{
    moiety_devptr address = Import();
    CUstream stream = nullptr;
    Get<CUresult(CUstream *, unsigned)>("cuStreamCreate")(&stream, 0);
    Get<CUresult(CUstream)>("cuStreamDestroy_v2")(stream);
    EXPECT_NE(MOIETY_OK, moiety_ipc_close(address, stream, nullptr));
    EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
}

TEST_F(IpcClose, WorksOnAStreamOfAnotherContext)
{
    moiety_context other = pool_test::NewContext();
    moiety_devptr address = Import();
    pool_test::SetCurrent(other);
    {
        Stream stream;
        EXPECT_OK(moiety_ipc_close(address, stream, nullptr));
        EXPECT_EQ(other, pool_test::Current());
    }
    pool_test::SetCurrent(pool_test::PrimaryContext());
    pool_test::DestroyContext(other);
}

TEST_F(IpcClose, AContextTakesItsImportsAlong)
{
    moiety_context context = pool_test::NewContext();
    moiety_devptr kept = Import(context), closed = Import(context);
    EXPECT_OK(moiety_ipc_close(closed, MOIETY_STREAM_DONE, nullptr));
    pool_test::DestroyContext(context);
    EXPECT_OK(moiety_ipc_close(kept, MOIETY_STREAM_DONE, nullptr));
    ExpectNothingOpen();
}

// With cuCtxGetId() also where their handles are the same; without it the
// program trims before it destroys one.
TEST_F(IpcClose, ContextsThatAreGoneDoNotAnswerForLaterOnes)
{
    uint64_t before = pool_test::Calls("cuIpcOpenMemHandle");
    for (unsigned i = 0; i < 20; i++) {
        moiety_context context = pool_test::NewContext();
        moiety_devptr address = Import(context);
        EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
        if (IsOldDriver()) {
            EXPECT_OK(moiety_ipc_trim(0, nullptr));
        }
        pool_test::DestroyContext(context);
    }
    EXPECT_EQ(before + 20, pool_test::Calls("cuIpcOpenMemHandle"));
}

} // namespace

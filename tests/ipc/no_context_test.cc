// SPDX-License-Identifier: Apache-2.0
//
// Imports by threads that have no context. The memory is on a device whose
// primary context nobody else has, so that the contexts that live tell who has
// it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/ipc/peer.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using ipc_test::Peer;
using namespace pool_test;

constexpr CUdevice kDevice = 1;
constexpr unsigned kTooMany = 1000; // calls that no life below makes

class IpcNoContext : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        exporter_ = std::make_unique<Peer>(
            std::vector<std::string>{"MOIETY_PEER_DEVICE=1"});
        moiety_devptr block = exporter_->Alloc(64 * kKiB);
        exporter_->Fill(block, 64 * kKiB, 5);
        handle_ = exporter_->Export(block);
        before_ = Live("contexts");
        pool_test::SetCurrent(nullptr);
    }

    void TearDown() override
    {
        EXPECT_EQ(nullptr, pool_test::Current());
        pool_test::SetCurrent(pool_test::PrimaryContext());
        EXPECT_EQ(0u, OpenAfterTrim());
        EXPECT_EQ(0, MoreContexts());
    }

    int64_t MoreContexts() const
    {
        return Live("contexts") - before_;
    }

    moiety_devptr Import(moiety_context context = nullptr)
    {
        moiety_devptr address = 0;
        EXPECT_OK(
            moiety_ipc_import(&handle_, sizeof handle_, context, &address));
        return address;
    }

    static void Close(moiety_devptr address,
                      moiety_stream stream = MOIETY_STREAM_ANY)
    {
        EXPECT_OK(moiety_ipc_close(address, stream, nullptr));
    }

    static uint32_t OpenAfterTrim()
    {
        uint32_t open_count = 99;
        EXPECT_OK(moiety_ipc_trim(0, &open_count));
        return open_count;
    }

    static moiety_context Retain()
    {
        CUcontext context = nullptr;
        EXPECT_EQ(CUDA_SUCCESS,
                  (Get<CUresult(CUcontext *, CUdevice)>(
                      "cuDevicePrimaryCtxRetain")(&context, kDevice)));
        return context;
    }

    static void Release()
    {
        EXPECT_EQ(CUDA_SUCCESS, Get<CUresult(CUdevice)>(
                                    "cuDevicePrimaryCtxRelease_v2")(kDevice));
    }

    // The call that failed was a release: each retain since had its own.
    void ReleaseWhatWasRefused(uint64_t retains, uint64_t releases) const
    {
        if (MoreContexts() == 0)
            return;
        EXPECT_EQ(pool_test::Calls("cuDevicePrimaryCtxRetain") - retains,
                  pool_test::Calls("cuDevicePrimaryCtxRelease") - releases);
        Release();
    }

    // Imports twice and gives all back, as far as it is let.
    void LiveBadly()
    {
        std::vector<moiety_devptr> addresses;
        moiety_devptr address = 0;
        for (int i = 0; i < 2; i++)
            if (moiety_ipc_import(&handle_, sizeof handle_, nullptr,
                                  &address) == MOIETY_OK)
                addresses.push_back(address);
        for (moiety_devptr each : addresses)
            if (moiety_ipc_close(each, MOIETY_STREAM_ANY, nullptr) != MOIETY_OK)
                left_.push_back(each);
        if (moiety_ipc_trim(0, nullptr) != MOIETY_OK)
            return; // it is tried again below
    }

    std::unique_ptr<Peer> exporter_;
    moiety_ipc_handle handle_ = {};
    int64_t before_ = 0;
    std::vector<moiety_devptr> left_;
};

TEST_F(IpcNoContext, UsesThePrimaryOneOfTheMemorysDevice)
{
    moiety_devptr address = Import();
    EXPECT_EQ(1, MoreContexts());
    EXPECT_EQ(nullptr, pool_test::Current());
    moiety_context primary = Retain();
    pool_test::SetCurrent(primary);
    EXPECT_TRUE(pool_test::Holds(address, 64 * kKiB, 5));
    pool_test::SetCurrent(nullptr);
    Release();
    Close(address);
}

TEST_F(IpcNoContext, KeepsItUntilTheSegmentIsGivenBack)
{
    moiety_devptr address = Import();
    EXPECT_EQ(address, Import());
    Close(address);
    Close(address, MOIETY_STREAM_DONE);
    EXPECT_EQ(1, MoreContexts()) << "for the next import";
    EXPECT_EQ(address, Import()) << "the same segment";
    Close(address);
    EXPECT_EQ(0u, OpenAfterTrim());
    EXPECT_EQ(0, MoreContexts());
}

// Who opened the segment had retained the context himself, and lets go of it.
TEST_F(IpcNoContext, KeepsOneThatAnotherOpenedTheSegmentIn)
{
    moiety_devptr address = Import(Retain());
    EXPECT_EQ(address, Import());
    Close(address);
    Release();
    EXPECT_EQ(1, MoreContexts());
    Close(address);
}

TEST_F(IpcNoContext, PrefersACurrentOne)
{
    pool_test::SetCurrent(pool_test::PrimaryContext());
    moiety_devptr address = Import();
    EXPECT_EQ(0, MoreContexts());
    Close(address);
    pool_test::SetCurrent(nullptr);
}

TEST_F(IpcNoContext, HasNoneAfterARefusal)
{
    moiety_devptr address = 0;
    exporter_->Kill();
    EXPECT_EQ(MOIETY_E_PEER_GONE,
              moiety_ipc_import(&handle_, sizeof handle_, nullptr, &address));
    EXPECT_EQ(0, MoreContexts());
}

// The driver may have released it though it said no: somebody else's reference is
// not to go.
TEST_F(IpcNoContext, IsReleasedOnceThoughTheDriverRefuses)
{
    Close(Import());
    const uint64_t before = pool_test::Calls("cuDevicePrimaryCtxRelease");
    pool_test::SetFaults("cuDevicePrimaryCtxRelease:from=1:code=700");
    EXPECT_EQ(0u, OpenAfterTrim());
    pool_test::SetFaults("");
    EXPECT_EQ(before + 1, pool_test::Calls("cuDevicePrimaryCtxRelease"));
    EXPECT_EQ(1, MoreContexts());
    Release();
    EXPECT_EQ(0, MoreContexts());
}

// The same of the segment, where the driver does not say that it is still open.
TEST_F(IpcNoContext, ClosesOnceWhereTheDriverAnswersNothing)
{
    moiety_devptr address = 0;
    const uint64_t before = pool_test::Calls("cuIpcCloseMemHandle");
    pool_test::SetFaults("cuMemGetAddressRange:from=1:code=700,"
                         "cuIpcCloseMemHandle:from=1:code=700");
    EXPECT_NE(MOIETY_OK,
              moiety_ipc_import(&handle_, sizeof handle_, nullptr, &address));
    pool_test::SetFaults("");
    EXPECT_EQ(before + 1, pool_test::Calls("cuIpcCloseMemHandle"));
    EXPECT_EQ(0, MoreContexts()) << "what was open went with it";
    EXPECT_EQ(0, Live("ipc"));
}

TEST_F(IpcNoContext, HasNoneAfterAnyFailureOfTheDriver)
{
    unsigned n = 0;
    for (uint64_t calls = 1; n < calls && n < kTooMany && !HasFailure();) {
        SCOPED_TRACE("call " + std::to_string(++n));
        uint64_t first = pool_test::Calls();
        const uint64_t retains = pool_test::Calls("cuDevicePrimaryCtxRetain");
        const uint64_t releases = pool_test::Calls("cuDevicePrimaryCtxRelease");
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_UNKNOWN");
        LiveBadly();
        pool_test::SetFaults("");
        calls = pool_test::Calls() - first;
        for (moiety_devptr address : left_)
            Close(address);
        left_.clear();
        EXPECT_EQ(0u, OpenAfterTrim());
        ReleaseWhatWasRefused(retains, releases);
        EXPECT_EQ(0, MoreContexts());
        EXPECT_EQ(0, Live("ipc"));
    }
    EXPECT_LT(n, kTooMany);
    std::printf("%u calls, each failed once\n", n);
}

} // namespace

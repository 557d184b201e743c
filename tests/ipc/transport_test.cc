// SPDX-License-Identifier: Apache-2.0
//
// Blocks of mapped memory through a socket: of UNIX, which carries descriptors,
// and of TCP, which carries fabric handles.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "tests/ipc/mapped_under_test.h"
#include "tests/ipc/peer.h"
#include "tests/ipc/tcp.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using namespace ipc_test;
using namespace pool_test;

class IpcTransport : public FabricTest,
                     public ::testing::WithParamInterface<int>
{
  protected:
    static moiety_status Receive(Peer &peer, moiety_pool *pool,
                                 moiety_devptr block, moiety_devptr *out)
    {
        return GetParam() == Pair::kTcp ? peer.ReceiveOverTcp(pool, block, out)
                                        : peer.Receive(pool, block, out);
    }
};

std::string NameOf(const ::testing::TestParamInfo<int> &info)
{
    return info.param == Pair::kTcp    ? "Tcp"
           : info.param == SOCK_STREAM ? "Unix"
                                       : "UnixPackets";
}

INSTANTIATE_TEST_SUITE_P(Through, IpcTransport,
                         ::testing::Values(SOCK_STREAM, Pair::kTcp), NameOf);

TEST_P(IpcTransport, AnotherProcessSeesABlockOfSeveralPieces)
{
    constexpr uint64_t kBytes = 150 * kMiB;
    MappedPool pool;
    Peer peer;
    moiety_devptr block = pool.Alloc(kBytes), theirs = 0;
    Fill(block, kBytes, 7);
    Synchronize();
    (void)peer.Connect();
    size_t before = OpenDescriptors();
    ASSERT_OK(Receive(peer, pool, block, &theirs)) << peer.message();
    EXPECT_EQ(before, OpenDescriptors());
    EXPECT_TRUE(peer.Holds(theirs, kBytes, 7));
    peer.Fill(theirs, kBytes, 8);
    EXPECT_TRUE(Holds(block, kBytes, 8));
    CloseAll(peer, theirs);
}

TEST_P(IpcTransport, MoreThanAFrameOfPiecesIsOneBlock)
{
    constexpr uint64_t kPieces = 150, kLast = (kPieces - 1) * 2 * kMiB;
    MappedPool pool(InSmallPieces());
    Peer peer;
    moiety_devptr block = AllocPieces(pool, kPieces), theirs = 0;
    Fill(block, 2 * kMiB, 8);
    Fill(block + kLast, 2 * kMiB, 9);
    Synchronize();
    ASSERT_OK(Receive(peer, pool, block, &theirs)) << peer.message();
    EXPECT_LT(128u, peer.Ask(Do::kLiveMapped));
    EXPECT_TRUE(peer.Holds(theirs, 2 * kMiB, 8));
    EXPECT_TRUE(peer.Holds(theirs + kLast, 2 * kMiB, 9));
    CloseAll(peer, theirs);
}

// What is refused is no longer on its way.
TEST_P(IpcTransport, AContextThatIsNoneTakesTheMessageAlong)
{
    MappedPool pool;
    Pair pair(GetParam());
    char byte;
    int none = 0;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    ASSERT_OK(moiety_ipc_send(pool, block, pair.one()));
    EXPECT_NE(MOIETY_OK,
              moiety_ipc_receive(pair.other(),
                                 reinterpret_cast<moiety_context>(&none),
                                 nullptr, &address));
    EXPECT_EQ(-1, recv(pair.other(), &byte, 1, MSG_DONTWAIT));
}

TEST_P(IpcTransport, AnyChangedByteIsNoticedAndNoDescriptorIsLeft)
{
    MappedPool pool;
    const std::vector<char> message =
        MessageOf(pool, pool.Alloc(4 * kMiB), GetParam());
    size_t before = OpenDescriptors();
    for (size_t i = 0; i < message.size() && !HasFailure(); i += 5) {
        std::vector<char> changed = message;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        EXPECT_NE(MOIETY_OK, StatusOf(changed, GetParam())) << i;
    }
    EXPECT_EQ(before, OpenDescriptors());
}

TEST_P(IpcTransport, AMessageThatEndsInTheMiddleIsNoticed)
{
    MappedPool pool;
    const std::vector<char> message =
        MessageOf(pool, pool.Alloc(4 * kMiB), GetParam());
    for (size_t length = 1; length < message.size() && !HasFailure();
         length += 97) {
        std::vector<char> cut(message.begin(), message.begin() + length);
        EXPECT_EQ(MOIETY_E_PEER_GONE, StatusOf(cut, GetParam())) << length;
    }
}

// From the pool's creation on, so that a creation with fabric handles fails too:
// then the block is there, and may not travel through TCP.
TEST_P(IpcTransport, EveryCallOfTheDriverMayFailInTheOwner)
{
    size_t before = OpenDescriptors();
    int64_t live = Live("vmm");
    unsigned n = 0;
    unsigned refused = 0, unsupported = 0;
    for (uint64_t calls = 1; n <= calls && n < kTooMany && !HasFailure();) {
        SCOPED_TRACE("call " + std::to_string(++n));
        moiety_pool_options options = Mapped();
        moiety_pool *pool = nullptr;
        moiety_devptr block = 0;
        Pair pair(GetParam());
        uint64_t start = Calls();
        SetFaults("*:nth=" + std::to_string(n) + ":code=CUDA_ERROR_UNKNOWN");
        moiety_status status = moiety_pool_create(&options, &pool);
        if (status == MOIETY_OK)
            status = moiety_alloc(pool, 8 * kMiB, kStream, &block);
        size_t opened = OpenDescriptors();
        if (status == MOIETY_OK)
            status = moiety_ipc_send(pool, block, pair.one());
        EXPECT_EQ(opened, OpenDescriptors());
        SetFaults("");
        calls = Calls() - start;
        refused += status != MOIETY_OK;
        unsupported += status == MOIETY_E_UNSUPPORTED;
        if (!pool)
            continue;
        EXPECT_OK(moiety_ipc_release_exports(pool, 0));
        if (block) {
            EXPECT_OK(moiety_free(pool, block, kStream));
        }
        EXPECT_OK(moiety_pool_destroy(pool, nullptr));
        EXPECT_EQ(live, Live("vmm"));
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GE(refused, 4u);
    if (GetParam() == Pair::kTcp) {
        EXPECT_GE(refused, 5u);
        EXPECT_GE(unsupported, 2u) << "the attribute's, and the creation's";
    }
    EXPECT_EQ(before, OpenDescriptors());
}

TEST_P(IpcTransport, EveryCallOfTheDriverMayFailInTheImporter)
{
    MappedPool pool(InSmallPieces());
    Peer peer;
    moiety_devptr block = AllocPieces(pool, 3), theirs = 0;
    Fill(block, 6 * kMiB, 5);
    Synchronize();
    ASSERT_OK(Receive(peer, pool, block, &theirs)) << peer.message();
    CloseAll(peer, theirs);
    FailEachCallOf(peer, 6 * kMiB, 5, [&](moiety_devptr *out) {
        return Receive(peer, pool, block, out);
    });
}

using IpcSameProcess = IpcTransport;
INSTANTIATE_TEST_SUITE_P(Through, IpcSameProcess,
                         ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET,
                                           Pair::kTcp),
                         NameOf);

TEST_P(IpcSameProcess, GetsTheAddressItself)
{
    MappedPool pool;
    Pair pair(GetParam());
    moiety_ipc_handle handle;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    ASSERT_OK(moiety_ipc_send(pool, block, pair.one()));
    ASSERT_OK(moiety_ipc_receive(pair.other(), nullptr, &handle, &address));
    EXPECT_EQ(block, address);
    EXPECT_EQ(4 * kMiB, handle.size_bytes);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(MOIETY_OK,
              moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
}

} // namespace

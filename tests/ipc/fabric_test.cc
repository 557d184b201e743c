// SPDX-License-Identifier: Apache-2.0
//
// Blocks of mapped memory by fabric handles: through TCP, which carries no
// descriptors.
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/ipc/mapped_under_test.h"
#include "tests/ipc/peer.h"
#include "tests/ipc/tcp.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using ipc_test::AllocPieces;
using ipc_test::Do;
using ipc_test::FailEachCallOf;
using ipc_test::InSmallPieces;
using ipc_test::kTooMany;
using ipc_test::Mapped;
using ipc_test::OpenDescriptors;
using ipc_test::Peer;
using ipc_test::TcpPair;
using pool_test::kMiB;
using pool_test::Pool;

// What a peer that owns mapped memory becomes of sending a block over TCP, with
// this setting of the stand-in.
moiety_status SendBy(const std::string &setting, std::string *out_message)
{
    Peer owner({"MOIETY_PEER_MAPPED=1", "MOIETY_STANDIN_FABRIC=" + setting});
    moiety_status status = owner.SendOverTcp(owner.Alloc(4 * kMiB));
    *out_message = owner.message();
    return status;
}

class IpcFabric : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        ipc_test::UseFabric();
    }
};

TEST_F(IpcFabric, AnotherProcessSeesABlockThroughTcp)
{
    Pool pool(Mapped());
    Peer peer;
    moiety_devptr block = pool.Alloc(40 * kMiB), theirs = 0;
    pool_test::Fill(block, 40 * kMiB, 7);
    pool_test::Synchronize();
    (void)peer.Connect();
    size_t before = OpenDescriptors();
    ASSERT_EQ(MOIETY_OK, peer.ReceiveOverTcp(pool, block, &theirs))
        << peer.message();
    EXPECT_EQ(before, OpenDescriptors());
    EXPECT_TRUE(peer.Holds(theirs, 40 * kMiB, 7));
    peer.Fill(theirs, 40 * kMiB, 8);
    EXPECT_TRUE(pool_test::Holds(block, 40 * kMiB, 8));
    EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "no pin is left";
}

TEST_F(IpcFabric, ThePeerMayBeTheOwner)
{
    Peer owner({"MOIETY_PEER_MAPPED=1"});
    moiety_devptr theirs = owner.Alloc(5 * kMiB), here = 0;
    owner.Fill(theirs, 5 * kMiB, 3);
    ASSERT_EQ(MOIETY_OK, owner.SendOverTcp(theirs)) << owner.message();
    ASSERT_EQ(MOIETY_OK,
              moiety_ipc_receive(owner.Connect(), pool_test::PrimaryContext(),
                                 nullptr, &here))
        << moiety_last_error_message();
    EXPECT_TRUE(pool_test::Holds(here, 5 * kMiB, 3));
    pool_test::Fill(here, 5 * kMiB, 4);
    pool_test::Synchronize();
    EXPECT_TRUE(owner.Holds(theirs, 5 * kMiB, 4));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_close(here, MOIETY_STREAM_DONE, nullptr));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_trim(0, nullptr));
}

TEST_F(IpcFabric, MoreThanAFrameOfPiecesIsOneBlock)
{
    constexpr uint64_t kPieces = 150, kLast = (kPieces - 1) * 2 * kMiB;
    Pool pool(InSmallPieces());
    Peer peer;
    moiety_devptr block = AllocPieces(pool, kPieces), theirs = 0;
    pool_test::Fill(block, 2 * kMiB, 8);
    pool_test::Fill(block + kLast, 2 * kMiB, 9);
    pool_test::Synchronize();
    ASSERT_EQ(MOIETY_OK, peer.ReceiveOverTcp(pool, block, &theirs))
        << peer.message();
    EXPECT_LT(128u, peer.Ask(Do::kLiveMapped));
    EXPECT_TRUE(peer.Holds(theirs, 2 * kMiB, 8));
    EXPECT_TRUE(peer.Holds(theirs + kLast, 2 * kMiB, 9));
    EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, BothWaysAreOneImport)
{
    Pool pool(Mapped());
    Peer peer;
    moiety_ipc_handle ticket;
    moiety_devptr block = pool.Alloc(4 * kMiB), one = 0, two = 0, three = 0;
    ASSERT_EQ(MOIETY_OK, peer.ReceiveOverTcp(pool, block, &one))
        << peer.message();
    ASSERT_EQ(MOIETY_OK, peer.Receive(pool, block, &two)) << peer.message();
    ASSERT_EQ(MOIETY_OK, moiety_ipc_ticket(pool, block, &ticket));
    ASSERT_EQ(MOIETY_OK, peer.Import(ticket, &three)) << peer.message();
    EXPECT_EQ(one, two);
    EXPECT_EQ(one, three);
    for (moiety_devptr address : {one, two, three})
        EXPECT_EQ(MOIETY_OK, peer.Close(address));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, TheSameProcessGetsTheAddressItself)
{
    Pool pool(Mapped());
    TcpPair pair;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    ASSERT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, pair.one()));
    ASSERT_EQ(MOIETY_OK,
              moiety_ipc_receive(pair.other(), nullptr, nullptr, &address))
        << moiety_last_error_message();
    EXPECT_EQ(block, address);
    EXPECT_EQ(MOIETY_OK,
              moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// --- What is missing ---------------------------------------------------

TEST_F(IpcFabric, WithoutFabricTheSendSaysSo)
{
    std::string message;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, SendBy("none", &message));
    EXPECT_NE(std::string::npos, message.find("no fabric handles")) << message;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, SendBy("no_channel", &message));
    EXPECT_NE(std::string::npos, message.find("IMEX channel")) << message;
}

TEST_F(IpcFabric, WhatIsNotSentIsNotExported)
{
    Peer owner({"MOIETY_PEER_MAPPED=1", "MOIETY_STANDIN_FABRIC=none"});
    moiety_devptr block = owner.Alloc(4 * kMiB);
    ASSERT_EQ(MOIETY_E_UNSUPPORTED, owner.SendOverTcp(block));
    owner.Ask(Do::kFree, block);
    EXPECT_NE(0u, owner.Ask(Do::kTrimPool)) << "it is pinned";
}

TEST_F(IpcFabric, AReceiverWithoutFabricRefusesAndTakesTheNext)
{
    for (const char *setting : {"none", "no_channel"}) {
        Pool pool(Mapped());
        moiety_pool_options options = pool_test::Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        Pool other(options);
        Peer peer({std::string("MOIETY_STANDIN_FABRIC=") + setting});
        moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
        moiety_devptr of_other = other.Alloc(64 << 10);
        EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                  peer.ReceiveOverTcp(pool, block, &theirs));
        EXPECT_NE(std::string::npos, peer.message().find("IMEX channel"))
            << peer.message();
        EXPECT_EQ(MOIETY_OK, peer.ReceiveOverTcp(other, of_other, &theirs))
            << peer.message();
        EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
        EXPECT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs))
            << peer.message();
        EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
        EXPECT_EQ(0u, peer.Trim(0));
        for (moiety_pool *each : {(moiety_pool *)pool, (moiety_pool *)other})
            EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(each, 0));
        pool.Free(block);
        other.Free(of_other);
    }
}

TEST_F(IpcFabric, ARefusalAtCreationIsNoErrorAndRemembered)
{
    for (const char *code :
         {"CUDA_ERROR_NOT_PERMITTED", "CUDA_ERROR_NOT_SUPPORTED"}) {
        Pool pool(Mapped());
        TcpPair pair;
        Peer peer;
        moiety_devptr theirs = 0;
        uint64_t start = pool_test::Calls("cuMemCreate");
        pool_test::SetFaults(std::string("cuMemCreate:nth=1:code=") + code);
        moiety_devptr block = pool.Alloc(33 * kMiB);
        pool_test::SetFaults("");
        EXPECT_LE(2u, pool_test::Calls("cuMemCreate") - start);
        moiety_devptr later = pool.Alloc(64 * kMiB);
        for (moiety_devptr each : {block, later})
            EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                      moiety_ipc_send(pool, each, pair.one()));
        pool.Free(later);
        EXPECT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs))
            << peer.message();
        EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
        EXPECT_EQ(0u, peer.Trim(0));
        EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
        pool.Free(block);
    }
}

TEST_F(IpcFabric, WithoutAChannelOneCreationIsTriedInVain)
{
    Peer without({"MOIETY_PEER_MAPPED=1", "MOIETY_STANDIN_FABRIC=none"});
    Peer refused({"MOIETY_PEER_MAPPED=1", "MOIETY_STANDIN_FABRIC=no_channel"});
    for (Peer *owner : {&without, &refused})
        for (int i = 0; i < 4; i++)
            owner->Alloc(16 * kMiB);
    EXPECT_EQ(without.Ask(Do::kCreates) + 1, refused.Ask(Do::kCreates));
}

TEST_F(IpcFabric, NoMemoryIsNoRefusal)
{
    Pool pool(Mapped());
    Peer peer;
    moiety_devptr block = 0, theirs = 0;
    pool_test::SetFaults("cuMemCreate:nth=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    if (moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_LEGACY, &block) != MOIETY_OK)
        block = pool.Alloc(4 * kMiB);
    pool_test::SetFaults("");
    EXPECT_EQ(MOIETY_OK, peer.ReceiveOverTcp(pool, block, &theirs))
        << peer.message();
    EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, APieceThatIsRefusedKeepsTheBlockHere)
{
    Pool pool(InSmallPieces());
    TcpPair pair;
    char byte;
    moiety_devptr block = AllocPieces(pool, 3);
    for (const char *code :
         {"INVALID_VALUE", "NOT_PERMITTED", "NOT_SUPPORTED"}) {
        pool_test::SetFaults(
            std::string("cuMemExportToShareableHandle:nth=3:code=CUDA_ERROR_") +
            code);
        EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                  moiety_ipc_send(pool, block, pair.one()));
        EXPECT_NE(nullptr,
                  std::strstr(moiety_last_error_message(), "IMEX channel"));
        pool_test::SetFaults("");
    }
    EXPECT_EQ(-1, recv(pair.other(), &byte, 1, MSG_DONTWAIT));
    pool.Free(block);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "nothing is exported";
}

// --- Failing calls -----------------------------------------------------

// From the pool's creation on, so that a creation with fabric handles fails too:
// then the block is there, and may not travel.
TEST_F(IpcFabric, EveryCallOfTheDriverMayFailInTheOwner)
{
    size_t before = OpenDescriptors();
    int64_t live = pool_test::Live("vmm");
    unsigned n = 0;
    unsigned refused = 0, unsupported = 0;
    for (uint64_t calls = 1; n <= calls && n < kTooMany && !HasFailure();) {
        SCOPED_TRACE("call " + std::to_string(++n));
        moiety_pool_options options = Mapped();
        moiety_pool *pool = nullptr;
        moiety_devptr block = 0;
        TcpPair pair;
        uint64_t start = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_UNKNOWN");
        moiety_status status = moiety_pool_create(&options, &pool);
        if (status == MOIETY_OK)
            status = moiety_alloc(pool, 8 * kMiB, MOIETY_STREAM_LEGACY, &block);
        if (status == MOIETY_OK)
            status = moiety_ipc_send(pool, block, pair.one());
        pool_test::SetFaults("");
        calls = pool_test::Calls() - start;
        refused += status != MOIETY_OK;
        unsupported += status == MOIETY_E_UNSUPPORTED;
        if (!pool)
            continue;
        EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
        if (block) {
            EXPECT_EQ(MOIETY_OK,
                      moiety_free(pool, block, MOIETY_STREAM_LEGACY));
        }
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool, nullptr));
        EXPECT_EQ(live, pool_test::Live("vmm"));
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GE(refused, 5u);
    EXPECT_GE(unsupported, 2u) << "the attribute's, and the creation's";
    EXPECT_EQ(before, OpenDescriptors());
}

TEST_F(IpcFabric, EveryCallOfTheDriverMayFailInTheImporter)
{
    Pool pool(InSmallPieces());
    Peer peer;
    moiety_devptr block = AllocPieces(pool, 3);
    pool_test::Fill(block, 6 * kMiB, 5);
    pool_test::Synchronize();
    FailEachCallOf(peer, 6 * kMiB, 5, [&](moiety_devptr *out) {
        return peer.ReceiveOverTcp(pool, block, out);
    });
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

} // namespace

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

using namespace ipc_test;
using namespace pool_test;

// What a peer that owns mapped memory becomes of sending a block over TCP, with
// this setting of the stand-in.
moiety_status SendBy(const std::string &setting, std::string *out_message)
{
    Peer owner({"MOIETY_PEER_MAPPED=1", "MOIETY_STANDIN_FABRIC=" + setting});
    moiety_status status = owner.SendOverTcp(owner.Alloc(4 * kMiB));
    *out_message = owner.message();
    return status;
}

using IpcFabric = FabricTest;

TEST_F(IpcFabric, ThePeerMayBeTheOwner)
{
    Peer owner({"MOIETY_PEER_MAPPED=1"});
    moiety_devptr theirs = owner.Alloc(5 * kMiB), here = 0;
    owner.Fill(theirs, 5 * kMiB, 3);
    ASSERT_OK(owner.SendOverTcp(theirs)) << owner.message();
    ASSERT_OK(
        moiety_ipc_receive(owner.Connect(), PrimaryContext(), nullptr, &here));
    EXPECT_TRUE(Holds(here, 5 * kMiB, 3));
    Fill(here, 5 * kMiB, 4);
    Synchronize();
    EXPECT_TRUE(owner.Holds(theirs, 5 * kMiB, 4));
    EXPECT_OK(moiety_ipc_close(here, MOIETY_STREAM_DONE, nullptr));
    EXPECT_OK(moiety_ipc_trim(0, nullptr));
}

TEST_F(IpcFabric, BothWaysAreOneImport)
{
    MappedPool pool;
    Peer peer;
    moiety_ipc_handle ticket;
    moiety_devptr block = pool.Alloc(4 * kMiB), one = 0, two = 0, three = 0;
    ASSERT_OK(peer.ReceiveOverTcp(pool, block, &one)) << peer.message();
    ASSERT_OK(peer.Receive(pool, block, &two)) << peer.message();
    ASSERT_OK(moiety_ipc_ticket(pool, block, &ticket));
    ASSERT_OK(peer.Import(ticket, &three)) << peer.message();
    EXPECT_EQ(one, two);
    EXPECT_EQ(one, three);
    for (moiety_devptr address : {one, two})
        EXPECT_OK(peer.Close(address));
    CloseAll(peer, three);
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
        MappedPool pool;
        moiety_pool_options options = Defaults();
        options.flags = MOIETY_POOL_EXPORTABLE;
        MappedPool other(options);
        Peer peer({std::string("MOIETY_STANDIN_FABRIC=") + setting});
        moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
        moiety_devptr of_other = other.Alloc(64 << 10);
        EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                  peer.ReceiveOverTcp(pool, block, &theirs));
        EXPECT_NE(std::string::npos, peer.message().find("IMEX channel"))
            << peer.message();
        EXPECT_OK(peer.ReceiveOverTcp(other, of_other, &theirs))
            << peer.message();
        EXPECT_OK(peer.Close(theirs));
        EXPECT_OK(peer.Receive(pool, block, &theirs)) << peer.message();
        CloseAll(peer, theirs);
    }
}

TEST_F(IpcFabric, ARefusalAtCreationIsNoErrorAndRemembered)
{
    for (const char *code :
         {"CUDA_ERROR_NOT_PERMITTED", "CUDA_ERROR_NOT_SUPPORTED"}) {
        MappedPool pool;
        Pair pair;
        Peer peer;
        moiety_devptr theirs = 0;
        uint64_t start = Calls("cuMemCreate");
        SetFaults(std::string("cuMemCreate:nth=1:code=") + code);
        moiety_devptr block = pool.Alloc(33 * kMiB);
        SetFaults("");
        EXPECT_LE(2u, Calls("cuMemCreate") - start);
        moiety_devptr later = pool.Alloc(64 * kMiB);
        for (moiety_devptr each : {block, later})
            EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                      moiety_ipc_send(pool, each, pair.one()));
        pool.Free(later);
        EXPECT_OK(peer.Receive(pool, block, &theirs)) << peer.message();
        CloseAll(peer, theirs);
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
    MappedPool pool;
    Peer peer;
    moiety_devptr block = 0, theirs = 0;
    SetFaults("cuMemCreate:nth=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    if (moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_LEGACY, &block) != MOIETY_OK)
        block = pool.Alloc(4 * kMiB);
    SetFaults("");
    EXPECT_OK(peer.ReceiveOverTcp(pool, block, &theirs)) << peer.message();
    CloseAll(peer, theirs);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, APieceThatIsRefusedKeepsTheBlockHere)
{
    MappedPool pool(InSmallPieces());
    Pair pair;
    char byte;
    moiety_devptr block = AllocPieces(pool, 3);
    for (const char *code :
         {"INVALID_VALUE", "NOT_PERMITTED", "NOT_SUPPORTED"}) {
        SetFaults(
            std::string("cuMemExportToShareableHandle:nth=3:code=CUDA_ERROR_") +
            code);
        EXPECT_EQ(MOIETY_E_UNSUPPORTED,
                  moiety_ipc_send(pool, block, pair.one()));
        EXPECT_NE(nullptr,
                  std::strstr(moiety_last_error_message(), "IMEX channel"));
        SetFaults("");
    }
    EXPECT_EQ(-1, recv(pair.other(), &byte, 1, MSG_DONTWAIT));
}

} // namespace

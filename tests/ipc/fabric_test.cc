// SPDX-License-Identifier: Apache-2.0
//
// Blocks of mapped memory by fabric handles: through TCP, which carries no
// descriptors. One machine and the stand-in are the fabric; messages are changed
// so that they look as another machine's.
#include <gtest/gtest.h>

#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/ipc/peer.h"
#include "tests/ipc/tcp.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/ipc_probe.h"

namespace
{

using ipc_test::Do;
using ipc_test::Peer;
using ipc_test::TcpPair;
using pool_test::kMiB;
using pool_test::Pool;

constexpr unsigned kTooMany = 2000; // calls that no life below makes

binade_pool_options Mapped()
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_EXPORTABLE | BINADE_POOL_MAPPED;
    return options;
}

size_t OpenDescriptors()
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

// As the library lays it out.
struct Head {
    uint64_t magic;
    uint32_t version;
    uint32_t head_bytes;
    uint64_t piece_count;
    binade_ipc_handle handle;
    uint64_t checksum;

    // Of 64 bytes in the handle: the run's sum first, the nonce last.
    uint64_t *NameWord(size_t index)
    {
        return reinterpret_cast<uint64_t *>(handle.driver_handle) + index;
    }
};

template <typename Change>
std::vector<char> Changed(std::vector<char> message, Change change)
{
    Head head;
    std::memcpy(&head, message.data(), sizeof head);
    change(&head);
    ipc_probe_seal(&head.handle);
    head.checksum = ipc_probe_checksum(&head, offsetof(Head, checksum));
    std::memcpy(message.data(), &head, sizeof head);
    return message;
}

void BeOfAnotherMachine(Head *head)
{
    head->handle.machine[3] ^= 1;
    head->handle.device_uuid[3] ^= 1;
    *head->NameWord(0) ^= 2;
    *head->NameWord(7) ^= 2;
}

// The bytes of a message, which nobody gets.
std::vector<char> MessageOf(binade_pool *pool, binade_devptr block)
{
    TcpPair pair;
    std::vector<char> bytes(1 << 16);
    size_t size = 0;
    EXPECT_EQ(BINADE_OK, binade_ipc_send(pool, block, pair.one()))
        << binade_last_error_message();
    shutdown(pair.one(), SHUT_WR);
    for (ssize_t got = 1; got > 0; size += static_cast<size_t>(got)) {
        got = recv(pair.other(), bytes.data() + size, bytes.size() - size, 0);
        EXPECT_LE(0, got);
    }
    bytes.resize(size);
    return bytes;
}

// What a peer that owns mapped memory becomes of sending a block over TCP, with
// this setting of the stand-in.
binade_status SendBy(const std::string &setting, std::string *out_message)
{
    Peer owner({"BINADE_PEER_MAPPED=1", "BINADE_STANDIN_FABRIC=" + setting});
    binade_status status = owner.SendOverTcp(owner.Alloc(4 * kMiB));
    *out_message = owner.message();
    return status;
}

class IpcFabric : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("BINADE_STANDIN_FABRIC", "ready", 1);
        pool_test::UseStandin();
    }
};

TEST_F(IpcFabric, AnotherProcessSeesABlockThroughTcp)
{
    Pool pool(Mapped());
    Peer peer;
    binade_devptr block = pool.Alloc(150 * kMiB), theirs = 0;
    pool_test::Fill(block, 150 * kMiB, 7);
    pool_test::Synchronize();
    (void)peer.Connect();
    size_t before = OpenDescriptors();
    ASSERT_EQ(BINADE_OK, peer.ReceiveOverTcp(pool, block, &theirs))
        << peer.message();
    EXPECT_EQ(before, OpenDescriptors());
    EXPECT_TRUE(peer.Holds(theirs, 150 * kMiB, 7));
    peer.Fill(theirs, 150 * kMiB, 8);
    EXPECT_TRUE(pool_test::Holds(block, 150 * kMiB, 8));
    EXPECT_EQ(BINADE_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "no pin is left";
}

TEST_F(IpcFabric, ThePeerMayBeTheOwner)
{
    Peer owner({"BINADE_PEER_MAPPED=1"});
    binade_devptr theirs = owner.Alloc(5 * kMiB), here = 0;
    owner.Fill(theirs, 5 * kMiB, 3);
    ASSERT_EQ(BINADE_OK, owner.SendOverTcp(theirs)) << owner.message();
    ASSERT_EQ(BINADE_OK,
              binade_ipc_receive(owner.Connect(), pool_test::PrimaryContext(),
                                 nullptr, &here))
        << binade_last_error_message();
    EXPECT_TRUE(pool_test::Holds(here, 5 * kMiB, 3));
    pool_test::Fill(here, 5 * kMiB, 4);
    pool_test::Synchronize();
    EXPECT_TRUE(owner.Holds(theirs, 5 * kMiB, 4));
    EXPECT_EQ(BINADE_OK, binade_ipc_close(here, BINADE_STREAM_DONE, nullptr));
    EXPECT_EQ(BINADE_OK, binade_ipc_trim(0, nullptr));
}

TEST_F(IpcFabric, MoreThanAFrameOfPiecesIsOneBlock)
{
    constexpr size_t kPieces = 150;
    Pool pool(Mapped());
    Peer peer;
    std::vector<binade_devptr> blocks;
    for (size_t i = 0; i < kPieces; i++)
        blocks.push_back(pool.Alloc(2 * kMiB));
    for (binade_devptr block : blocks)
        pool.Free(block, BINADE_STREAM_DONE);
    binade_devptr block = pool.Alloc(kPieces * 2 * kMiB), theirs = 0;
    pool_test::Fill(block, kPieces * 2 * kMiB, 9);
    pool_test::Synchronize();
    ASSERT_EQ(BINADE_OK, peer.ReceiveOverTcp(pool, block, &theirs))
        << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, kPieces * 2 * kMiB, 9));
    EXPECT_EQ(BINADE_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, BothWaysAreOneImport)
{
    Pool pool(Mapped());
    Peer peer;
    binade_ipc_handle ticket;
    binade_devptr block = pool.Alloc(4 * kMiB), one = 0, two = 0, three = 0;
    ASSERT_EQ(BINADE_OK, peer.ReceiveOverTcp(pool, block, &one))
        << peer.message();
    ASSERT_EQ(BINADE_OK, peer.Receive(pool, block, &two)) << peer.message();
    ASSERT_EQ(BINADE_OK, binade_ipc_ticket(pool, block, &ticket));
    ASSERT_EQ(BINADE_OK, peer.Import(ticket, &three)) << peer.message();
    EXPECT_EQ(one, two);
    EXPECT_EQ(one, three);
    for (binade_devptr address : {one, two, three})
        EXPECT_EQ(BINADE_OK, peer.Close(address));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, TheSameProcessGetsTheAddressItself)
{
    Pool pool(Mapped());
    TcpPair pair;
    binade_devptr block = pool.Alloc(4 * kMiB), address = 0;
    ASSERT_EQ(BINADE_OK, binade_ipc_send(pool, block, pair.one()));
    ASSERT_EQ(BINADE_OK,
              binade_ipc_receive(pair.other(), nullptr, nullptr, &address))
        << binade_last_error_message();
    EXPECT_EQ(block, address);
    EXPECT_EQ(BINADE_OK,
              binade_ipc_close(address, BINADE_STREAM_DONE, nullptr));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// --- What is missing ---------------------------------------------------

TEST_F(IpcFabric, WithoutFabricTheSendSaysSo)
{
    std::string message;
    EXPECT_EQ(BINADE_E_UNSUPPORTED, SendBy("none", &message));
    EXPECT_NE(std::string::npos, message.find("no fabric handles")) << message;
    EXPECT_EQ(BINADE_E_UNSUPPORTED, SendBy("no_channel", &message));
    EXPECT_NE(std::string::npos, message.find("IMEX channel")) << message;
}

TEST_F(IpcFabric, WhatIsNotSentIsNotExported)
{
    Peer owner({"BINADE_PEER_MAPPED=1", "BINADE_STANDIN_FABRIC=none"});
    binade_devptr block = owner.Alloc(4 * kMiB);
    ASSERT_EQ(BINADE_E_UNSUPPORTED, owner.SendOverTcp(block));
    owner.Ask(Do::kFree, block);
    EXPECT_NE(0u, owner.Ask(Do::kTrimPool)) << "it is pinned";
}

TEST_F(IpcFabric, AReceiverWithoutFabricRefusesAndTakesTheNext)
{
    for (const char *setting : {"none", "no_channel"}) {
        Pool pool(Mapped());
        binade_pool_options options = pool_test::Defaults();
        options.flags = BINADE_POOL_EXPORTABLE;
        Pool other(options);
        Peer peer({std::string("BINADE_STANDIN_FABRIC=") + setting});
        binade_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
        binade_devptr of_other = other.Alloc(64 << 10);
        EXPECT_EQ(BINADE_E_UNSUPPORTED,
                  peer.ReceiveOverTcp(pool, block, &theirs));
        EXPECT_NE(std::string::npos, peer.message().find("IMEX channel"))
            << peer.message();
        EXPECT_EQ(BINADE_OK, peer.ReceiveOverTcp(other, of_other, &theirs))
            << peer.message();
        EXPECT_EQ(BINADE_OK, peer.Close(theirs));
        EXPECT_EQ(BINADE_OK, peer.Receive(pool, block, &theirs))
            << peer.message();
        EXPECT_EQ(BINADE_OK, peer.Close(theirs));
        EXPECT_EQ(0u, peer.Trim(0));
        for (binade_pool *each : {(binade_pool *)pool, (binade_pool *)other})
            EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(each, 0));
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
        binade_devptr theirs = 0;
        uint64_t start = pool_test::Calls("cuMemCreate");
        pool_test::SetFaults(std::string("cuMemCreate:nth=1:code=") + code);
        binade_devptr block = pool.Alloc(33 * kMiB);
        pool_test::SetFaults("");
        EXPECT_LE(2u, pool_test::Calls("cuMemCreate") - start);
        binade_devptr later = pool.Alloc(64 * kMiB);
        for (binade_devptr each : {block, later})
            EXPECT_EQ(BINADE_E_UNSUPPORTED,
                      binade_ipc_send(pool, each, pair.one()));
        pool.Free(later);
        EXPECT_EQ(BINADE_OK, peer.Receive(pool, block, &theirs))
            << peer.message();
        EXPECT_EQ(BINADE_OK, peer.Close(theirs));
        EXPECT_EQ(0u, peer.Trim(0));
        EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
        pool.Free(block);
    }
}

TEST_F(IpcFabric, WithoutAChannelOneCreationIsTriedInVain)
{
    Peer without({"BINADE_PEER_MAPPED=1", "BINADE_STANDIN_FABRIC=none"});
    Peer refused({"BINADE_PEER_MAPPED=1", "BINADE_STANDIN_FABRIC=no_channel"});
    for (Peer *owner : {&without, &refused})
        for (int i = 0; i < 4; i++)
            owner->Alloc(16 * kMiB);
    EXPECT_EQ(without.Ask(Do::kCreates) + 1, refused.Ask(Do::kCreates));
}

TEST_F(IpcFabric, NoMemoryIsNoRefusal)
{
    Pool pool(Mapped());
    Peer peer;
    binade_devptr block = 0, theirs = 0;
    pool_test::SetFaults("cuMemCreate:nth=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    if (binade_alloc(pool, 4 * kMiB, BINADE_STREAM_LEGACY, &block) != BINADE_OK)
        block = pool.Alloc(4 * kMiB);
    pool_test::SetFaults("");
    EXPECT_EQ(BINADE_OK, peer.ReceiveOverTcp(pool, block, &theirs))
        << peer.message();
    EXPECT_EQ(BINADE_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// --- Between machines --------------------------------------------------

TEST_F(IpcFabric, AMessageOfAnotherMachineIsMapped)
{
    Pool pool(Mapped());
    Peer peer;
    binade_ipc_handle ticket;
    binade_devptr block = pool.Alloc(4 * kMiB), theirs = 0, again = 0;
    pool_test::Fill(block, 4 * kMiB, 6);
    pool_test::Synchronize();
    std::vector<char> message =
        Changed(MessageOf(pool, block), [&](Head *head) {
            BeOfAnotherMachine(head);
            ipc_probe_seal(&head->handle);
            ticket = head->handle;
        });
    EXPECT_EQ(BINADE_E_STALE, peer.Import(ticket, &again)) << peer.message();
    ASSERT_EQ(BINADE_OK, peer.ReceiveBytesOverTcp(message, &theirs))
        << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, 4 * kMiB, 6));
    EXPECT_EQ(BINADE_OK, peer.Import(ticket, &again)) << peer.message();
    EXPECT_EQ(theirs, again);
    EXPECT_EQ(BINADE_OK, peer.Close(theirs));
    EXPECT_EQ(BINADE_OK, peer.Close(again));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// Boot ids may be hidden and machines copied: pid, start and numbers of the
// memory may all be the same.
TEST_F(IpcFabric, PiecesOfTwoMachinesThatAreAlikeAreToldApart)
{
    Pool pool(Mapped()), other(Mapped());
    Peer peer;
    binade_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
    binade_devptr second = other.Alloc(4 * kMiB), their_second = 0;
    pool_test::Fill(block, 4 * kMiB, 6);
    pool_test::Fill(second, 4 * kMiB, 7);
    pool_test::Synchronize();
    std::vector<char> first = MessageOf(pool, block);
    Head head;
    std::memcpy(&head, first.data(), sizeof head);
    std::vector<char> message =
        Changed(MessageOf(other, second), [&](Head *changed) {
            changed->handle = head.handle;
            *changed->NameWord(0) ^= 2;
            *changed->NameWord(7) ^= 2;
        });
    ASSERT_EQ(BINADE_OK, peer.ReceiveBytesOverTcp(first, &theirs))
        << peer.message();
    ASSERT_EQ(BINADE_OK, peer.ReceiveBytesOverTcp(message, &their_second))
        << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, 4 * kMiB, 6));
    EXPECT_TRUE(peer.Holds(their_second, 4 * kMiB, 7));
    EXPECT_EQ(BINADE_OK, peer.Close(theirs));
    EXPECT_EQ(BINADE_OK, peer.Close(their_second));
    EXPECT_EQ(0u, peer.Trim(0));
    for (binade_pool *each : {(binade_pool *)pool, (binade_pool *)other})
        EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(each, 0));
    pool.Free(block);
    other.Free(second);
}

// Who is called as this very process is not for that this process.
TEST_F(IpcFabric, ANamesakeOnAnotherMachineIsNotThisProcess)
{
    Pool pool(Mapped());
    TcpPair pair;
    binade_devptr block = pool.Alloc(4 * kMiB), here = 0;
    std::vector<char> message = Changed(MessageOf(pool, block), [](Head *head) {
        *head->NameWord(0) ^= 2;
        *head->NameWord(7) ^= 2;
    });
    pool_test::Fill(block, 4 * kMiB, 6);
    pool_test::Synchronize();
    ASSERT_EQ(static_cast<ssize_t>(message.size()),
              send(pair.one(), message.data(), message.size(), 0));
    ASSERT_EQ(BINADE_OK,
              binade_ipc_receive(pair.other(), pool_test::PrimaryContext(),
                                 nullptr, &here))
        << binade_last_error_message();
    EXPECT_NE(block, here);
    EXPECT_TRUE(pool_test::Holds(here, 4 * kMiB, 6));
    EXPECT_EQ(BINADE_OK, binade_ipc_close(here, BINADE_STREAM_DONE, nullptr));
    EXPECT_EQ(BINADE_OK, binade_ipc_trim(0, nullptr));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, AHandleOfTheDriverStaysOnItsMachine)
{
    binade_pool_options options = pool_test::Defaults();
    options.flags = BINADE_POOL_EXPORTABLE;
    Pool pool(options);
    Peer peer;
    binade_devptr block = pool.Alloc(64 << 10), theirs = 0;
    std::vector<char> message = Changed(MessageOf(pool, block), [](Head *head) {
        head->handle.machine[3] ^= 1;
    });
    EXPECT_EQ(BINADE_E_UNSUPPORTED, peer.ReceiveBytesOverTcp(message, &theirs));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, WhatTheOwnerGaveBackIsStale)
{
    Pool pool(Mapped());
    Peer peer;
    binade_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
    std::vector<char> message = MessageOf(pool, block);
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
    pool.TrimAll();
    ASSERT_EQ(0u, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(BINADE_E_STALE, peer.ReceiveBytesOverTcp(message, &theirs))
        << peer.message();
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(0u, peer.Ask(Do::kLiveMapped));
}

TEST_F(IpcFabric, WhatAnOwnerSentThatHasEndedIsStale)
{
    Peer owner({"BINADE_PEER_MAPPED=1"});
    binade_devptr here = 0;
    ASSERT_EQ(BINADE_OK, owner.SendOverTcp(owner.Alloc(4 * kMiB)))
        << owner.message();
    owner.Kill();
    EXPECT_EQ(BINADE_E_STALE,
              binade_ipc_receive(owner.Connect(), pool_test::PrimaryContext(),
                                 nullptr, &here));
    EXPECT_EQ(BINADE_E_PEER_GONE,
              binade_ipc_receive(owner.Connect(), pool_test::PrimaryContext(),
                                 nullptr, &here));
}

// --- Forged ------------------------------------------------------------

binade_status StatusOf(const std::vector<char> &message)
{
    TcpPair pair;
    binade_devptr address = 0;
    EXPECT_EQ(static_cast<ssize_t>(message.size()),
              send(pair.one(), message.data(), message.size(), 0));
    shutdown(pair.one(), SHUT_WR);
    return binade_ipc_receive(pair.other(), pool_test::PrimaryContext(),
                              nullptr, &address);
}

TEST_F(IpcFabric, AnyChangedByteIsNoticed)
{
    Pool pool(Mapped());
    binade_devptr block = pool.Alloc(4 * kMiB);
    const std::vector<char> message = MessageOf(pool, block);
    size_t before = OpenDescriptors();
    for (size_t i = 0; i < message.size() && !HasFailure(); i += 7) {
        std::vector<char> changed = message;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        EXPECT_NE(BINADE_OK, StatusOf(changed)) << i;
    }
    EXPECT_EQ(before, OpenDescriptors());
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcFabric, AMessageThatEndsInTheMiddleIsNoticed)
{
    Pool pool(Mapped());
    binade_devptr block = pool.Alloc(4 * kMiB);
    const std::vector<char> message = MessageOf(pool, block);
    for (size_t length = 1; length < message.size() && !HasFailure();
         length += 97) {
        std::vector<char> cut(message.begin(), message.begin() + length);
        EXPECT_EQ(BINADE_E_PEER_GONE, StatusOf(cut)) << length;
    }
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// Checksums that are right: who has them made up is found out nevertheless.
TEST_F(IpcFabric, AMessageThatContradictsItselfIsCorrupt)
{
    Pool pool(Mapped());
    binade_devptr block = pool.Alloc(4 * kMiB);
    const std::vector<char> message = MessageOf(pool, block);
    void (*const changes[])(Head *) = {
        [](Head *head) { head->piece_count = 0; },
        [](Head *head) { head->piece_count++; },
        [](Head *head) { head->piece_count = UINT64_MAX; },
        [](Head *head) { head->head_bytes++; },
        [](Head *head) { head->handle.kind = BINADE_IPC_DRIVER; },
        [](Head *head) { head->handle.segment_bytes += 2 * kMiB; },
        [](Head *head) { head->handle.offset_bytes = UINT64_MAX; },
        [](Head *head) { *head->NameWord(0) = 0; },
        [](Head *head) { head->magic += UINT64_C(1) << 56; },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        EXPECT_EQ(BINADE_E_CORRUPT, StatusOf(Changed(message, changes[i])))
            << i;
    EXPECT_EQ(BINADE_E_UNSUPPORTED,
              StatusOf(Changed(message, [](Head *head) { head->version++; })));
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// A fabric handle of a smaller piece, or of nothing: the driver is asked, and
// nothing stays.
TEST_F(IpcFabric, OtherFabricHandlesAreRefused)
{
    binade_pool_options options = Mapped();
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(Mapped()), other(options);
    Peer peer;
    binade_devptr block = pool.Alloc(40 * kMiB), theirs = 0;
    binade_devptr small = other.Alloc(2 * kMiB);
    const std::vector<char> message = MessageOf(pool, block);
    const std::vector<char> of_small = MessageOf(other, small);
    constexpr size_t kPartBytes = 128 * 64;
    size_t at = sizeof(Head) + 130 * sizeof(uint64_t);
    ASSERT_LE(at + kPartBytes + 8, message.size());
    std::vector<char> changed = message;
    for (const char *instead : {of_small.data() + at, message.data()}) {
        std::memcpy(&changed[at], instead, 64);
        uint64_t sum = ipc_probe_checksum(&changed[at], kPartBytes);
        std::memcpy(&changed[at + kPartBytes], &sum, sizeof sum);
        binade_status status = peer.ReceiveBytesOverTcp(changed, &theirs);
        EXPECT_EQ(instead == message.data() ? BINADE_E_STALE : BINADE_E_CORRUPT,
                  status)
            << peer.message();
        EXPECT_EQ(0u, peer.Trim(0));
        EXPECT_EQ(0u, peer.Ask(Do::kLiveMapped));
    }
    for (binade_pool *each : {(binade_pool *)pool, (binade_pool *)other})
        EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(each, 0));
    pool.Free(block);
    other.Free(small);
}

TEST_F(IpcFabric, OtherSocketsAreRefused)
{
    Pool pool(Mapped());
    binade_devptr block = pool.Alloc(4 * kMiB), address = 0;
    int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int alone = ipc_test::TcpSocket();
    EXPECT_EQ(BINADE_E_INVALID, binade_ipc_send(pool, block, datagrams));
    EXPECT_EQ(BINADE_E_INVALID,
              binade_ipc_receive(datagrams, nullptr, nullptr, &address));
    EXPECT_EQ(BINADE_E_PEER_GONE, binade_ipc_send(pool, block, alone));
    EXPECT_EQ(BINADE_E_PEER_GONE,
              binade_ipc_receive(alone, nullptr, nullptr, &address));
    close(datagrams);
    close(alone);
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
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
        binade_pool_options options = Mapped();
        binade_pool *pool = nullptr;
        binade_devptr block = 0;
        TcpPair pair;
        uint64_t start = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_UNKNOWN");
        binade_status status = binade_pool_create(&options, &pool);
        if (status == BINADE_OK)
            status = binade_alloc(pool, 8 * kMiB, BINADE_STREAM_LEGACY, &block);
        if (status == BINADE_OK)
            status = binade_ipc_send(pool, block, pair.one());
        pool_test::SetFaults("");
        calls = pool_test::Calls() - start;
        refused += status != BINADE_OK;
        unsupported += status == BINADE_E_UNSUPPORTED;
        if (!pool)
            continue;
        EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
        if (block) {
            EXPECT_EQ(BINADE_OK,
                      binade_free(pool, block, BINADE_STREAM_LEGACY));
        }
        EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool, nullptr));
        EXPECT_EQ(live, pool_test::Live("vmm"));
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GE(refused, 5u);
    EXPECT_GE(unsupported, 2u) << "the attribute's, and the creation's";
    EXPECT_EQ(before, OpenDescriptors());
}

// What a refused call has left is closed by the next ones.
void CloseAll(Peer &peer, binade_devptr address)
{
    if (address) {
        EXPECT_EQ(BINADE_OK, peer.Close(address)) << peer.message();
    }
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(0u, peer.Ask(Do::kLiveMapped));
}

TEST_F(IpcFabric, EveryCallOfTheDriverMayFailInTheImporter)
{
    Pool pool(Mapped());
    Peer peer;
    binade_devptr block = pool.Alloc(90 * kMiB), theirs = 0;
    pool_test::Fill(block, 90 * kMiB, 5);
    pool_test::Synchronize();
    unsigned n = 0;
    unsigned refused = 0;
    for (uint64_t calls = 1; n <= calls && n < kTooMany && !HasFailure();) {
        SCOPED_TRACE("call " + std::to_string(++n));
        ipc_test::Command trim = {};
        trim.what = Do::kTrim;
        uint64_t start = peer.Ask(Do::kFailCall, 0, 0, n);
        binade_status status = peer.ReceiveOverTcp(pool, block, &theirs);
        if (status == BINADE_OK && peer.Close(theirs) == BINADE_OK)
            theirs = 0;
        (void)peer.Ask(trim);
        calls = peer.Ask(Do::kFailCall) - start;
        CloseAll(peer, status == BINADE_OK ? theirs : 0);
        ASSERT_EQ(BINADE_OK, peer.ReceiveOverTcp(pool, block, &theirs))
            << peer.message();
        EXPECT_TRUE(peer.Holds(theirs, 90 * kMiB, 5));
        CloseAll(peer, theirs);
        refused += status != BINADE_OK;
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GE(refused, 5u);
    EXPECT_EQ(BINADE_OK, binade_ipc_release_exports(pool, 0));
    pool.Free(block);
}

} // namespace

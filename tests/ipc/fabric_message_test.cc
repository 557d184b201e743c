// SPDX-License-Identifier: Apache-2.0
//
// Messages with fabric handles that were changed so that they look as another
// machine's, are late, or are made up.
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/ipc/mapped_under_test.h"
#include "tests/ipc/peer.h"
#include "tests/ipc/tcp.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/ipc_probe.h"

namespace
{

using namespace ipc_test;
using namespace pool_test;

// As the library lays it out.
struct Head {
    uint64_t magic;
    uint32_t version;
    uint32_t head_bytes;
    uint64_t piece_count;
    moiety_ipc_handle handle;
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

using IpcFabricMessage = FabricTest;

// --- Between machines --------------------------------------------------

TEST_F(IpcFabricMessage, AMessageOfAnotherMachineIsMapped)
{
    MappedPool pool;
    Peer peer;
    moiety_ipc_handle ticket;
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0, again = 0;
    Fill(block, 4 * kMiB, 6);
    Synchronize();
    std::vector<char> message =
        Changed(MessageOf(pool, block), [&](Head *head) {
            BeOfAnotherMachine(head);
            ipc_probe_seal(&head->handle);
            ticket = head->handle;
        });
    EXPECT_EQ(MOIETY_E_STALE, peer.Import(ticket, &again)) << peer.message();
    ASSERT_OK(peer.ReceiveBytesOverTcp(message, &theirs)) << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, 4 * kMiB, 6));
    EXPECT_OK(peer.Import(ticket, &again)) << peer.message();
    EXPECT_EQ(theirs, again);
    EXPECT_OK(peer.Close(theirs));
    CloseAll(peer, again);
}

TEST_F(IpcFabricMessage, WithoutAContextNoDeviceOfAnotherMachineIsThere)
{
    MappedPool pool;
    Pair pair;
    char byte;
    moiety_devptr block = pool.Alloc(4 * kMiB), here = 0;
    std::vector<char> message =
        Changed(MessageOf(pool, block), BeOfAnotherMachine);
    ASSERT_EQ(static_cast<ssize_t>(message.size()),
              send(pair.one(), message.data(), message.size(), 0));
    SetCurrent(nullptr);
    EXPECT_EQ(MOIETY_E_NO_DEVICE,
              moiety_ipc_receive(pair.other(), nullptr, nullptr, &here));
    SetCurrent(PrimaryContext());
    EXPECT_EQ(-1, recv(pair.other(), &byte, 1, MSG_DONTWAIT));
}

// Boot ids may be hidden and machines copied: pid, start and numbers of the
// memory may all be the same.
TEST_F(IpcFabricMessage, PiecesOfTwoMachinesThatAreAlikeAreToldApart)
{
    MappedPool pool, other;
    Peer peer;
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
    moiety_devptr second = other.Alloc(4 * kMiB), their_second = 0;
    Fill(block, 4 * kMiB, 6);
    Fill(second, 4 * kMiB, 7);
    Synchronize();
    std::vector<char> first = MessageOf(pool, block);
    Head head;
    std::memcpy(&head, first.data(), sizeof head);
    std::vector<char> message =
        Changed(MessageOf(other, second), [&](Head *changed) {
            changed->handle = head.handle;
            *changed->NameWord(0) ^= 2;
            *changed->NameWord(7) ^= 2;
        });
    ASSERT_OK(peer.ReceiveBytesOverTcp(first, &theirs)) << peer.message();
    ASSERT_OK(peer.ReceiveBytesOverTcp(message, &their_second))
        << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, 4 * kMiB, 6));
    EXPECT_TRUE(peer.Holds(their_second, 4 * kMiB, 7));
    EXPECT_OK(peer.Close(theirs));
    CloseAll(peer, their_second);
}

// Who is called as this very process is not for that this process.
TEST_F(IpcFabricMessage, ANamesakeOnAnotherMachineIsNotThisProcess)
{
    MappedPool pool;
    Pair pair;
    moiety_devptr block = pool.Alloc(4 * kMiB), here = 0;
    std::vector<char> message = Changed(MessageOf(pool, block), [](Head *head) {
        *head->NameWord(0) ^= 2;
        *head->NameWord(7) ^= 2;
    });
    Fill(block, 4 * kMiB, 6);
    Synchronize();
    ASSERT_EQ(static_cast<ssize_t>(message.size()),
              send(pair.one(), message.data(), message.size(), 0));
    ASSERT_OK(
        moiety_ipc_receive(pair.other(), PrimaryContext(), nullptr, &here));
    EXPECT_NE(block, here);
    EXPECT_TRUE(Holds(here, 4 * kMiB, 6));
    EXPECT_OK(moiety_ipc_close(here, MOIETY_STREAM_DONE, nullptr));
    EXPECT_OK(moiety_ipc_trim(0, nullptr));
}

TEST_F(IpcFabricMessage, AHandleOfTheDriverStaysOnItsMachine)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    MappedPool pool(options);
    Peer peer;
    moiety_devptr block = pool.Alloc(64 << 10), theirs = 0;
    std::vector<char> message = Changed(MessageOf(pool, block), [](Head *head) {
        head->handle.machine[3] ^= 1;
    });
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, peer.ReceiveBytesOverTcp(message, &theirs));
}

TEST_F(IpcFabricMessage, WhatTheOwnerGaveBackIsStale)
{
    MappedPool pool;
    Peer peer;
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
    std::vector<char> message = MessageOf(pool, block);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
    pool.TrimAll();
    ASSERT_EQ(0u, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_STALE, peer.ReceiveBytesOverTcp(message, &theirs))
        << peer.message();
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(0u, peer.Ask(Do::kLiveMapped));
}

TEST_F(IpcFabricMessage, WhatAnOwnerSentThatHasEndedIsStale)
{
    Peer owner({"MOIETY_PEER_MAPPED=1"});
    moiety_devptr here = 0;
    ASSERT_OK(owner.SendOverTcp(owner.Alloc(4 * kMiB))) << owner.message();
    owner.Kill();
    EXPECT_EQ(
        MOIETY_E_STALE,
        moiety_ipc_receive(owner.Connect(), PrimaryContext(), nullptr, &here));
    EXPECT_EQ(
        MOIETY_E_PEER_GONE,
        moiety_ipc_receive(owner.Connect(), PrimaryContext(), nullptr, &here));
}

// --- Forged ------------------------------------------------------------

TEST_F(IpcFabricMessage, AMessageThatContradictsItselfIsCorrupt)
{
    MappedPool pool;
    moiety_devptr block = pool.Alloc(4 * kMiB);
    const std::vector<char> message = MessageOf(pool, block);
    void (*const changes[])(Head *) = {
        [](Head *head) { head->piece_count = 0; },
        [](Head *head) { head->piece_count++; },
        [](Head *head) { head->piece_count = UINT64_MAX; },
        [](Head *head) { head->head_bytes++; },
        [](Head *head) { head->handle.kind = MOIETY_IPC_DRIVER; },
        [](Head *head) { head->handle.segment_bytes += 2 * kMiB; },
        [](Head *head) { head->handle.offset_bytes = UINT64_MAX; },
        [](Head *head) { *head->NameWord(0) = 0; },
        [](Head *head) { head->magic += UINT64_C(1) << 56; },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        EXPECT_EQ(MOIETY_E_CORRUPT, StatusOf(Changed(message, changes[i])))
            << i;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              StatusOf(Changed(message, [](Head *head) { head->version++; })));
}

// A fabric handle of a smaller piece, or of nothing: the driver is asked, and
// nothing stays.
TEST_F(IpcFabricMessage, OtherFabricHandlesAreRefused)
{
    moiety_pool_options options = Mapped();
    options.first_segment_bytes = 2 * kMiB;
    MappedPool pool, other(options);
    Peer peer;
    moiety_devptr block = pool.Alloc(40 * kMiB), theirs = 0;
    moiety_devptr small = other.Alloc(2 * kMiB);
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
        moiety_status status = peer.ReceiveBytesOverTcp(changed, &theirs);
        EXPECT_EQ(instead == message.data() ? MOIETY_E_STALE : MOIETY_E_CORRUPT,
                  status)
            << peer.message();
        EXPECT_EQ(0u, peer.Trim(0));
        EXPECT_EQ(0u, peer.Ask(Do::kLiveMapped));
    }
}

TEST_F(IpcFabricMessage, OtherSocketsAreRefused)
{
    MappedPool pool;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int alone = ipc_test::TcpSocket();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_ipc_send(pool, block, datagrams));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_ipc_receive(datagrams, nullptr, nullptr, &address));
    EXPECT_EQ(MOIETY_E_PEER_GONE, moiety_ipc_send(pool, block, alone));
    EXPECT_EQ(MOIETY_E_PEER_GONE,
              moiety_ipc_receive(alone, nullptr, nullptr, &address));
    close(datagrams);
    close(alone);
}

} // namespace

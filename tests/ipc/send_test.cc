// SPDX-License-Identifier: Apache-2.0
//
// Blocks of mapped memory through a socket.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
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

using IpcSend = StandinTest;

TEST_F(IpcSend, ATicketNamesWhatThePeerHas)
{
    MappedPool pool;
    Peer peer;
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0, again = 0;
    moiety_ipc_handle ticket;
    ASSERT_OK(moiety_ipc_ticket(pool, block + 512, &ticket));
    EXPECT_EQ(MOIETY_E_STALE, peer.Import(ticket, &again));
    ASSERT_OK(peer.Receive(pool, block, &theirs)) << peer.message();
    ASSERT_OK(peer.Import(ticket, &again)) << peer.message();
    EXPECT_EQ(theirs + 512, again);
    EXPECT_OK(peer.Close(theirs));
    CloseAll(peer, again);
    EXPECT_EQ(MOIETY_E_STALE, peer.Import(ticket, &again));
}

TEST_F(IpcSend, AFreedBlockStaysOutUntilTheRelease)
{
    MappedPool pool;
    Pair sockets(SOCK_STREAM);
    moiety_devptr block = pool.Alloc(4 * kMiB);
    ASSERT_OK(moiety_ipc_send(pool, block, sockets.one()));
    pool.Free(block);
    pool.TrimAll();
    EXPECT_NE(0u, pool.Stats().reserved_bytes_current);
    EXPECT_NE(MOIETY_OK, moiety_free(pool, block, MOIETY_STREAM_DONE));
    EXPECT_OK(moiety_ipc_release_exports(pool, block));
}

TEST_F(IpcSend, MemoryOfTheDriverTravelsAsItsHandle)
{
    moiety_pool_options options = Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    MappedPool pool(options);
    Peer peer;
    moiety_devptr block = pool.Alloc(64 * kKiB), theirs = 0;
    Fill(block, 64 * kKiB, 3);
    Synchronize();
    ASSERT_OK(peer.Receive(pool, block, &theirs)) << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, 64 * kKiB, 3));
    CloseAll(peer, theirs);
}

TEST_F(IpcSend, HandlesOfMappedMemoryAreRefusedWithWhatToCall)
{
    MappedPool pool;
    moiety_devptr block = pool.Alloc(4 * kMiB);
    moiety_ipc_handle handle;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_ipc_export(pool, block, &handle));
    EXPECT_NE(nullptr,
              std::strstr(moiety_last_error_message(), "moiety_ipc_send()"));
}

TEST_F(IpcSend, AnImporterThatIsKilledLeavesTheOwnersMemory)
{
    MappedPool pool;
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
    Peer peer;
    ASSERT_OK(peer.Receive(pool, block, &theirs)) << peer.message();
    peer.Fill(theirs, 4 * kMiB, 5);
    peer.Kill();
    EXPECT_TRUE(Holds(block, 4 * kMiB, 5));
}

TEST_F(IpcSend, OtherDescriptorsAreNoSockets)
{
    MappedPool pool;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    for (int descriptor : {-1, ends[0], ends[1]}) {
        EXPECT_EQ(MOIETY_E_INVALID, moiety_ipc_send(pool, block, descriptor));
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_ipc_receive(descriptor, nullptr, nullptr, &address));
    }
    close(ends[0]);
    close(ends[1]);
}

TEST_F(IpcSend, APeerThatClosedIsToldApart)
{
    MappedPool pool;
    Pair sockets(SOCK_STREAM);
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    sockets.CloseOther();
    EXPECT_EQ(MOIETY_E_PEER_GONE, moiety_ipc_send(pool, block, sockets.one()));
    EXPECT_EQ(MOIETY_E_PEER_GONE,
              moiety_ipc_receive(sockets.one(), nullptr, nullptr, &address));
}

TEST_F(IpcSend, ASocketThatDoesNotBlockSaysSo)
{
    Pair sockets(SOCK_STREAM);
    moiety_devptr address = 0;
    ASSERT_EQ(0, fcntl(sockets.one(), F_SETFL, O_NONBLOCK));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              moiety_ipc_receive(sockets.one(), nullptr, nullptr, &address));
}

TEST_F(IpcSend, ASocketWithATimeLimitTimesOut)
{
    Pair sockets(SOCK_STREAM);
    moiety_devptr address = 0;
    const timeval limit = {0, 1000};
    ASSERT_EQ(0, setsockopt(sockets.one(), SOL_SOCKET, SO_RCVTIMEO, &limit,
                            sizeof limit));
    EXPECT_EQ(MOIETY_E_TIMEOUT,
              moiety_ipc_receive(sockets.one(), nullptr, nullptr, &address));
}

// Nothing was sent of what could not be sent whole.
TEST_F(IpcSend, WithoutFurtherDescriptorsNothingIsOnItsWay)
{
    MappedPool pool;
    Pair sockets(SOCK_STREAM);
    char byte;
    moiety_devptr block = pool.Alloc(4 * kMiB), same = 0;
    rlimit limit;
    ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    rlimit none = {3, limit.rlim_max};
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
    EXPECT_EQ(MOIETY_E_NO_HOST_MEMORY,
              moiety_ipc_send(pool, block, sockets.one()));
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
    EXPECT_EQ(-1, recv(sockets.other(), &byte, 1, MSG_DONTWAIT));
    ASSERT_OK(moiety_ipc_send(pool, block, sockets.one()));
    ASSERT_OK(moiety_ipc_receive(sockets.other(), nullptr, nullptr, &same));
    EXPECT_EQ(block, same);
    EXPECT_OK(moiety_ipc_close(same, MOIETY_STREAM_DONE, nullptr));
}

} // namespace

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
#include "tests/pool/pool_under_test.h"

namespace
{

using ipc_test::CloseAll;
using ipc_test::Do;
using ipc_test::FailEachCallOf;
using ipc_test::kTooMany;
using ipc_test::Mapped;
using ipc_test::OpenDescriptors;
using ipc_test::Peer;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;

class Sockets
{
  public:
    explicit Sockets(int type = SOCK_STREAM)
    {
        EXPECT_EQ(0, socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends_));
    }

    ~Sockets()
    {
        close(ends_[0]);
        close(ends_[1]);
    }

    Sockets(const Sockets &) = delete;
    Sockets &operator=(const Sockets &) = delete;

    int one() const
    {
        return ends_[0];
    }

    int other() const
    {
        return ends_[1];
    }

    void CloseOther()
    {
        close(ends_[1]);
        ends_[1] = -1;
    }

  private:
    int ends_[2] = {-1, -1};
};

class IpcSend : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

TEST_F(IpcSend, AnotherProcessSeesABlockOfSeveralPieces)
{
    Pool pool(Mapped());
    Peer peer;
    moiety_devptr block = pool.Alloc(150 * kMiB), theirs = 0;
    pool_test::Fill(block, 150 * kMiB, 7);
    pool_test::Synchronize();
    size_t before = OpenDescriptors();
    ASSERT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs)) << peer.message();
    EXPECT_EQ(before, OpenDescriptors());
    EXPECT_TRUE(peer.Holds(theirs, 150 * kMiB, 7));
    peer.Fill(theirs, 150 * kMiB, 8);
    EXPECT_TRUE(pool_test::Holds(block, 150 * kMiB, 8));
    EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current) << "no pin is left";
}

TEST_F(IpcSend, ATicketNamesWhatThePeerHas)
{
    Pool pool(Mapped());
    Peer peer;
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0, again = 0;
    moiety_ipc_handle ticket;
    ASSERT_EQ(MOIETY_OK, moiety_ipc_ticket(pool, block + 512, &ticket));
    EXPECT_EQ(MOIETY_E_STALE, peer.Import(ticket, &again));
    ASSERT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs)) << peer.message();
    ASSERT_EQ(MOIETY_OK, peer.Import(ticket, &again)) << peer.message();
    EXPECT_EQ(theirs + 512, again);
    EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
    EXPECT_EQ(MOIETY_OK, peer.Close(again));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_E_STALE, peer.Import(ticket, &again));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, AFreedBlockStaysOutUntilTheRelease)
{
    Pool pool(Mapped());
    Sockets sockets;
    moiety_devptr block = pool.Alloc(4 * kMiB);
    ASSERT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, sockets.one()));
    pool.Free(block);
    pool.TrimAll();
    EXPECT_NE(0u, pool.Stats().reserved_bytes_current);
    EXPECT_NE(MOIETY_OK, moiety_free(pool, block, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, block));
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(IpcSend, TheSameProcessGetsTheAddressItself)
{
    for (int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
        Pool pool(Mapped());
        Sockets sockets(type);
        moiety_ipc_handle handle;
        moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
        ASSERT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, sockets.one()));
        ASSERT_EQ(MOIETY_OK, moiety_ipc_receive(sockets.other(), nullptr,
                                                &handle, &address))
            << moiety_last_error_message();
        EXPECT_EQ(block, address);
        EXPECT_EQ(4 * kMiB, handle.size_bytes);
        EXPECT_EQ(MOIETY_E_IN_USE, moiety_ipc_release_exports(pool, 0));
        EXPECT_EQ(MOIETY_OK,
                  moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
        EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
        pool.Free(block);
    }
}

TEST_F(IpcSend, MemoryOfTheDriverTravelsAsItsHandle)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    Peer peer;
    moiety_devptr block = pool.Alloc(64 * kKiB), theirs = 0;
    pool_test::Fill(block, 64 * kKiB, 3);
    pool_test::Synchronize();
    ASSERT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs)) << peer.message();
    EXPECT_TRUE(peer.Holds(theirs, 64 * kKiB, 3));
    EXPECT_EQ(MOIETY_OK, peer.Close(theirs));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, HandlesOfMappedMemoryAreRefusedWithWhatToCall)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(4 * kMiB);
    moiety_ipc_handle handle;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_ipc_export(pool, block, &handle));
    EXPECT_NE(nullptr,
              std::strstr(moiety_last_error_message(), "moiety_ipc_send()"));
    pool.Free(block);
}

TEST_F(IpcSend, AnImporterThatIsKilledLeavesTheOwnersMemory)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(4 * kMiB), theirs = 0;
    Peer peer;
    ASSERT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs)) << peer.message();
    peer.Fill(theirs, 4 * kMiB, 5);
    peer.Kill();
    EXPECT_TRUE(pool_test::Holds(block, 4 * kMiB, 5));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, OtherDescriptorsAreNoSockets)
{
    Pool pool(Mapped());
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
    pool.Free(block);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(IpcSend, APeerThatClosedIsToldApart)
{
    Pool pool(Mapped());
    Sockets sockets;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    sockets.CloseOther();
    EXPECT_EQ(MOIETY_E_PEER_GONE, moiety_ipc_send(pool, block, sockets.one()));
    EXPECT_EQ(MOIETY_E_PEER_GONE,
              moiety_ipc_receive(sockets.one(), nullptr, nullptr, &address));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, ASocketThatDoesNotBlockSaysSo)
{
    Sockets sockets;
    moiety_devptr address = 0;
    ASSERT_EQ(0, fcntl(sockets.one(), F_SETFL, O_NONBLOCK));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              moiety_ipc_receive(sockets.one(), nullptr, nullptr, &address));
}

TEST_F(IpcSend, ASocketWithATimeLimitTimesOut)
{
    Sockets sockets;
    moiety_devptr address = 0;
    const timeval limit = {0, 1000};
    ASSERT_EQ(0, setsockopt(sockets.one(), SOL_SOCKET, SO_RCVTIMEO, &limit,
                            sizeof limit));
    EXPECT_EQ(MOIETY_E_TIMEOUT,
              moiety_ipc_receive(sockets.one(), nullptr, nullptr, &address));
}

// What a peer makes of a message whose bytes were changed, cut or made up.
std::vector<char> MessageOf(Pool &pool, moiety_devptr block)
{
    Sockets sockets;
    std::vector<char> bytes(1 << 16);
    EXPECT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, sockets.one()));
    ssize_t got = 0, more;
    while ((more = recv(sockets.other(), bytes.data() + got,
                        bytes.size() - static_cast<size_t>(got),
                        MSG_DONTWAIT)) > 0)
        got += more;
    bytes.resize(static_cast<size_t>(got));
    return bytes;
}

TEST_F(IpcSend, AnyChangedByteIsNoticedAndNoDescriptorIsLeft)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    const std::vector<char> message = MessageOf(pool, block);
    size_t before = OpenDescriptors();
    for (size_t i = 0; i < message.size() && !HasFailure(); i += 5) {
        Sockets sockets;
        std::vector<char> changed = message;
        changed[i] = static_cast<char>(changed[i] ^ 1);
        ASSERT_EQ(static_cast<ssize_t>(changed.size()),
                  send(sockets.one(), changed.data(), changed.size(), 0));
        EXPECT_NE(MOIETY_OK, moiety_ipc_receive(sockets.other(), nullptr,
                                                nullptr, &address))
            << i;
    }
    EXPECT_EQ(before, OpenDescriptors());
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, AMessageThatEndsInTheMiddleIsNoticed)
{
    Pool pool(Mapped());
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    const std::vector<char> message = MessageOf(pool, block);
    for (size_t length = 1; length < message.size(); length += 97) {
        Sockets sockets;
        ASSERT_EQ(static_cast<ssize_t>(length),
                  send(sockets.one(), message.data(), length, 0));
        shutdown(sockets.one(), SHUT_WR);
        EXPECT_EQ(
            MOIETY_E_PEER_GONE,
            moiety_ipc_receive(sockets.other(), nullptr, nullptr, &address))
            << length;
    }
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, EveryCallOfTheDriverMayFailInTheExporter)
{
    size_t before = OpenDescriptors();
    unsigned n = 0;
    unsigned refused = 0;
    for (uint64_t calls = 1; n <= calls && n < kTooMany && !HasFailure();) {
        SCOPED_TRACE("call " + std::to_string(++n));
        Pool pool(Mapped());
        Sockets sockets;
        moiety_devptr block = pool.Alloc(8 * kMiB);
        size_t opened = OpenDescriptors();
        uint64_t start = pool_test::Calls();
        pool_test::SetFaults("*:nth=" + std::to_string(n) +
                             ":code=CUDA_ERROR_UNKNOWN");
        refused += moiety_ipc_send(pool, block, sockets.one()) != MOIETY_OK;
        pool_test::SetFaults("");
        calls = pool_test::Calls() - start;
        EXPECT_EQ(opened, OpenDescriptors());
        EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
        pool.Free(block);
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GE(refused, 2u);
    EXPECT_EQ(before, OpenDescriptors());
}

// Nothing was sent of what could not be sent whole.
TEST_F(IpcSend, WithoutFurtherDescriptorsNothingIsOnItsWay)
{
    Pool pool(Mapped());
    Sockets sockets;
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
    ASSERT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, sockets.one()));
    ASSERT_EQ(MOIETY_OK,
              moiety_ipc_receive(sockets.other(), nullptr, nullptr, &same));
    EXPECT_EQ(block, same);
    EXPECT_EQ(MOIETY_OK, moiety_ipc_close(same, MOIETY_STREAM_DONE, nullptr));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

// What is refused is no longer on its way.
TEST_F(IpcSend, AContextThatIsNoneTakesTheMessageAlong)
{
    Pool pool(Mapped());
    Sockets sockets;
    char byte;
    int none = 0;
    moiety_devptr block = pool.Alloc(4 * kMiB), address = 0;
    ASSERT_EQ(MOIETY_OK, moiety_ipc_send(pool, block, sockets.one()));
    EXPECT_NE(MOIETY_OK,
              moiety_ipc_receive(sockets.other(),
                                 reinterpret_cast<moiety_context>(&none),
                                 nullptr, &address));
    EXPECT_EQ(-1, recv(sockets.other(), &byte, 1, MSG_DONTWAIT));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcSend, EveryCallOfTheDriverMayFailInTheImporter)
{
    Pool pool(Mapped());
    Peer peer;
    moiety_devptr block = pool.Alloc(150 * kMiB), theirs = 0;
    pool_test::Fill(block, 150 * kMiB, 5);
    pool_test::Synchronize();
    ASSERT_EQ(MOIETY_OK, peer.Receive(pool, block, &theirs)) << peer.message();
    CloseAll(peer, theirs);
    FailEachCallOf(peer, 150 * kMiB, 5, [&](moiety_devptr *out) {
        return peer.Receive(pool, block, out);
    });
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

} // namespace

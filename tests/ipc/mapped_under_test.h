/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Mapped pools and their importers, for the tests of what travels through a
 * socket: by descriptors, and by fabric handles. One machine and the stand-in
 * are the fabric.
 */
#ifndef MOIETY_TESTS_IPC_MAPPED_UNDER_TEST_H_
#define MOIETY_TESTS_IPC_MAPPED_UNDER_TEST_H_

#include <dirent.h>

#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/ipc/peer.h"
#include "tests/ipc/tcp.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace ipc_test
{

inline moiety_pool_options Mapped()
{
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, MOIETY_POOL_EXPORTABLE | KIND_MAPPED);
    return options;
}

inline moiety_pool_options InSmallPieces()
{
    moiety_pool_options options = Mapped();
    options.first_segment_bytes = 2 * pool_test::kMiB;
    options.largest_segment_bytes = 2 * pool_test::kMiB;
    return options;
}

// Exportable pieces. At its end nobody has the blocks any more, and nothing of
// them is left.
class MappedPool : public pool_test::Pool
{
  public:
    explicit MappedPool(const moiety_pool_options &options = Mapped())
        : Pool(options)
    {
    }

    ~MappedPool()
    {
        EXPECT_OK(moiety_ipc_release_exports(*this, 0));
        for (moiety_devptr block : blocks_)
            Pool::Free(block);
        TrimAll();
        EXPECT_EQ(0u, Stats().reserved_bytes_current) << "a pin is left";
    }

    moiety_devptr Alloc(size_t size_bytes)
    {
        return *blocks_.insert(Pool::Alloc(size_bytes)).first;
    }

    void Free(moiety_devptr block, moiety_stream stream = MOIETY_STREAM_LEGACY)
    {
        blocks_.erase(block);
        Pool::Free(block, stream);
    }

  private:
    std::set<moiety_devptr> blocks_;
};

// A block in so many pieces of 2 MiB.
inline moiety_devptr AllocPieces(MappedPool &pool, uint64_t count)
{
    std::vector<moiety_devptr> blocks;
    for (uint64_t i = 0; i < count; i++)
        blocks.push_back(pool.Alloc(2 * pool_test::kMiB));
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
    return pool.Alloc(count * 2 * pool_test::kMiB);
}

inline size_t OpenDescriptors()
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

// What a refused call has left is closed by the next ones.
inline void CloseAll(Peer &peer, moiety_devptr address)
{
    if (address) {
        EXPECT_OK(peer.Close(address)) << peer.message();
    }
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(0u, peer.Ask(Do::kLiveMapped));
}

constexpr unsigned kTooMany = 2000; // calls that nobody below makes

// Each call of the driver fails once in the importer of a block of that content,
// which then gets it by the next message.
inline void
FailEachCallOf(Peer &peer, uint64_t size_bytes, uint32_t seed,
               const std::function<moiety_status(moiety_devptr *)> &receive)
{
    moiety_devptr theirs = 0;
    unsigned n = 0;
    unsigned refused = 0;
    for (uint64_t calls = 1;
         n <= calls && n < kTooMany && !::testing::Test::HasFailure();) {
        SCOPED_TRACE("call " + std::to_string(++n));
        Command trim = {};
        trim.what = Do::kTrim;
        uint64_t start = peer.Ask(Do::kFailCall, 0, 0, n);
        moiety_status status = receive(&theirs);
        if (status == MOIETY_OK && peer.Close(theirs) == MOIETY_OK)
            theirs = 0;
        (void)peer.Ask(trim);
        calls = peer.Ask(Do::kFailCall) - start;
        CloseAll(peer, status == MOIETY_OK ? theirs : 0);
        ASSERT_OK(receive(&theirs)) << peer.message();
        EXPECT_TRUE(peer.Holds(theirs, size_bytes, seed));
        CloseAll(peer, theirs);
        refused += status != MOIETY_OK;
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GE(refused, 5u);
}

// The bytes of a message, which nobody gets.
inline std::vector<char> MessageOf(moiety_pool *pool, moiety_devptr block,
                                   int type = Pair::kTcp)
{
    Pair pair(type);
    std::vector<char> bytes(1 << 16);
    size_t size = 0;
    EXPECT_OK(moiety_ipc_send(pool, block, pair.one()));
    shutdown(pair.one(), SHUT_WR);
    for (ssize_t got = 1; got > 0; size += static_cast<size_t>(got)) {
        got = recv(pair.other(), bytes.data() + size, bytes.size() - size, 0);
        EXPECT_LE(0, got);
    }
    bytes.resize(size);
    return bytes;
}

// What a message of these bytes is, of which no more come.
inline moiety_status StatusOf(const std::vector<char> &message,
                              int type = Pair::kTcp)
{
    Pair pair(type);
    moiety_devptr address = 0;
    EXPECT_EQ(static_cast<ssize_t>(message.size()),
              send(pair.one(), message.data(), message.size(), 0));
    shutdown(pair.one(), SHUT_WR);
    return moiety_ipc_receive(pair.other(), pool_test::PrimaryContext(),
                              nullptr, &address);
}

class FabricTest : public ::testing::Test
{
  protected:
    // The setting is read once, before any peer inherits it.
    static void SetUpTestSuite()
    {
        setenv("MOIETY_STANDIN_FABRIC", "ready", 0);
        pool_test::UseStandin();
    }
};

} // namespace ipc_test

#endif

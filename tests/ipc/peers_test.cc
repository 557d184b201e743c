// SPDX-License-Identifier: Apache-2.0
//
// Several processes and one exporter.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/ipc/peer.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using namespace ipc_test;
using namespace pool_test;

using IpcPeers = StandinTest;

moiety_pool_options Exportable(uint64_t segment_bytes = 64 * kMiB)
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    options.first_segment_bytes = segment_bytes;
    options.largest_segment_bytes = segment_bytes;
    return options;
}

// A block that is exported; its pool is destroyed after it.
struct Shared {
    moiety_devptr address = 0;
    size_t size_bytes = 0;
    moiety_ipc_handle handle = {};

    Shared(moiety_pool *pool, size_t bytes) : size_bytes(bytes)
    {
        EXPECT_OK(moiety_alloc(pool, bytes, MOIETY_STREAM_LEGACY, &address));
        EXPECT_OK(moiety_ipc_export(pool, address, &handle));
    }
};

void ReleaseAndFree(Pool &pool, const std::vector<Shared> &blocks)
{
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    for (const Shared &block : blocks)
        pool.Free(block.address);
}

// 0 unless it succeeds.
moiety_devptr Import(Peer &peer, const moiety_ipc_handle &handle)
{
    moiety_devptr address = 0;
    EXPECT_OK(peer.Import(handle, &address)) << peer.message();
    return address;
}

moiety_status TryImport(Peer &peer, const moiety_ipc_handle &handle,
                        int64_t device = 0)
{
    moiety_devptr address = 0;
    return peer.Import(handle, &address, device);
}

uint32_t WordOf(size_t block, size_t writer)
{
    return static_cast<uint32_t>(block * 16 + writer);
}

constexpr size_t kBlocks = 1000;
constexpr size_t kImporters = 4;

// What one importer does with all blocks: it sees what was written last, and
// writes itself.
void VisitAll(Peer &peer, size_t writer, const std::vector<Shared> &blocks)
{
    for (size_t i = 0; i < blocks.size() && !::testing::Test::HasFailure();
         i++) {
        const Shared &block = blocks[i];
        moiety_devptr address = Import(peer, block.handle);
        EXPECT_TRUE(
            peer.Holds(address, block.size_bytes, WordOf(i, writer - 1)));
        peer.Ask(Do::kFillLater, address, block.size_bytes, WordOf(i, writer));
        EXPECT_OK(peer.CloseAndWait(address, On::kLegacy));
    }
}

TEST_F(IpcPeers, ShareAThousandBlocksOfThreeSegments)
{
    // Small, as a sanitizer goes through every byte several times.
    Pool pool(Exportable(2 * kMiB));
    std::vector<Shared> blocks;
    for (size_t i = 0; i < kBlocks; i++) {
        blocks.emplace_back(pool, 4608 + 512 * (i % 3));
        pool_test::Fill(blocks[i].address, blocks[i].size_bytes, WordOf(i, 0));
    }
    pool_test::Synchronize();
    ASSERT_EQ(3u, pool.Stats().segment_current);
    std::vector<std::unique_ptr<Peer>> peers;
    for (size_t writer = 1; writer <= kImporters; writer++) {
        SCOPED_TRACE(writer);
        peers.push_back(std::make_unique<Peer>());
        VisitAll(*peers.back(), writer, blocks);
    }
    for (const auto &peer : peers) {
        EXPECT_EQ(3u, peer->Ask(Do::kOpens)) << "one for each segment";
        EXPECT_EQ(3u, peer->Ask(Do::kLiveImports));
        EXPECT_EQ(0u, peer->Trim(0));
        EXPECT_EQ(0u, peer->Ask(Do::kLiveImports));
    }
    peers.clear();
    for (size_t i = 0; i < blocks.size(); i++)
        EXPECT_TRUE(pool_test::Holds(blocks[i].address, blocks[i].size_bytes,
                                     WordOf(i, kImporters)));
    ReleaseAndFree(pool, blocks);
    EXPECT_EQ(6 * kMiB, pool.TrimAll());
}

TEST_F(IpcPeers, SeeEachOthersWritesAtOnce)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    std::vector<std::unique_ptr<Peer>> peers;
    std::vector<moiety_devptr> addresses;
    for (size_t i = 0; i < kImporters; i++) {
        peers.push_back(std::make_unique<Peer>());
        addresses.push_back(Import(*peers[i], blocks[0].handle));
    }
    for (size_t i = 0; i < kImporters; i++) {
        peers[i]->Fill(addresses[i], 64 * kKiB, WordOf(i, 9));
        EXPECT_TRUE(
            pool_test::Holds(blocks[0].address, 64 * kKiB, WordOf(i, 9)));
        for (size_t j = 0; j < kImporters; j++)
            EXPECT_TRUE(peers[j]->Holds(addresses[j], 64 * kKiB, WordOf(i, 9)));
    }
    peers.clear();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, ImportersMayBeKilled)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer killed, other;
    moiety_devptr address = Import(killed, blocks[0].handle);
    Import(other, blocks[0].handle);
    killed.Fill(address, 64 * kKiB, 3);
    killed.Ask(Do::kHold);
    killed.Ask(Do::kQueue, address, 4096, 4);
    killed.Kill();
    EXPECT_TRUE(pool_test::Holds(blocks[0].address, 64 * kKiB, 3));
    Peer late;
    address = Import(late, blocks[0].handle);
    EXPECT_TRUE(late.Holds(address, 64 * kKiB, 3));
    ReleaseAndFree(pool, blocks);
    EXPECT_EQ(64 * kMiB, pool.TrimAll()) << "nothing of the dead one is left";
}

TEST_F(IpcPeers, ExportersMayBeGoneFirst)
{
    Peer exporter, importer, late;
    moiety_devptr block = exporter.Alloc(64 * kKiB);
    moiety_ipc_handle handle = exporter.Export(block);
    exporter.Fill(block, 64 * kKiB, 11);
    moiety_devptr address = Import(importer, handle);
    exporter.Kill();
    EXPECT_TRUE(importer.Holds(address, 64 * kKiB, 11)) << "it is open";
    EXPECT_EQ(MOIETY_E_PEER_GONE, TryImport(late, handle));
    EXPECT_OK(importer.CloseAndWait(address, On::kLegacy));
    EXPECT_EQ(0u, importer.Trim(0));
    EXPECT_EQ(0u, importer.Ask(Do::kLiveImports));
    EXPECT_EQ(MOIETY_E_PEER_GONE, TryImport(importer, handle));
}

TEST_F(IpcPeers, ExportersThatNobodyWaitedForAreGone)
{
    Peer exporter, importer;
    moiety_ipc_handle handle = exporter.Export(exporter.Alloc(64 * kKiB));
    exporter.KillOnly();
    EXPECT_EQ(MOIETY_E_PEER_GONE, TryImport(importer, handle));
}

TEST_F(IpcPeers, EveryFlippedBitIsNoticed)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer;
    Import(peer, blocks[0].handle);
    for (size_t bit = 0; bit < 8 * sizeof(moiety_ipc_handle); bit++) {
        SCOPED_TRACE("bit " + std::to_string(bit));
        moiety_ipc_handle handle = blocks[0].handle;
        reinterpret_cast<unsigned char *>(&handle)[bit / 8] ^=
            static_cast<unsigned char>(1u << bit % 8);
        EXPECT_EQ(bit < 32 ? MOIETY_E_UNSUPPORTED : MOIETY_E_CORRUPT,
                  TryImport(peer, handle));
    }
    EXPECT_EQ(1u, peer.Ask(Do::kOpens));
    EXPECT_EQ(MOIETY_E_INVALID, peer.ImportBytes(blocks[0].handle, 175));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, ImportsAreCounted)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer;
    moiety_devptr address = Import(peer, blocks[0].handle);
    EXPECT_EQ(address, Import(peer, blocks[0].handle));
    EXPECT_OK(peer.Close(address));
    EXPECT_EQ(1u, peer.Trim(0)) << "imported once more";
    EXPECT_OK(peer.Close(address + 100)) << "any address in it";
    EXPECT_EQ(MOIETY_E_INVALID, peer.Close(address));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_EQ(MOIETY_E_FOREIGN, peer.Close(address));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, ImportedMemoryIsNoPools)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer;
    peer.Alloc(512); // makes the peer's own pool
    moiety_devptr address = Import(peer, blocks[0].handle);
    ipc_test::Command command = {};
    command.what = Do::kFree;
    command.address = address;
    EXPECT_EQ(MOIETY_E_FOREIGN, peer.Ask(command).status);
    command.what = Do::kExport;
    EXPECT_EQ(MOIETY_E_FOREIGN, peer.Ask(command).status);
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, ACloseIsOverWhenItsWorkIs)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer;
    for (On stream : {On::kHeld, On::kAny}) {
        SCOPED_TRACE(static_cast<int>(stream));
        uint64_t closing = 0;
        moiety_devptr address = Import(peer, blocks[0].handle);
        peer.Ask(Do::kHold);
        peer.Ask(Do::kQueue, address, 4096, 5);
        EXPECT_EQ(MOIETY_OK, peer.Close(address, stream, &closing));
        EXPECT_NE(0u, closing);
        EXPECT_EQ(MOIETY_E_TIMEOUT, peer.Wait(closing, 0));
        EXPECT_EQ(MOIETY_E_TIMEOUT, peer.Wait(closing, 5));
        EXPECT_EQ(1u, peer.Trim(0)) << "its work still uses it";
        EXPECT_EQ(0u, peer.Ask(Do::kCloses)) << "nothing was waited for";
        peer.Ask(Do::kReleaseHold);
        EXPECT_OK(peer.Wait(closing, 60000));
        EXPECT_OK(peer.Wait(closing, 0)) << "it stays over";
        EXPECT_TRUE(pool_test::Holds(blocks[0].address, 4096, 0x05050505));
    }
    EXPECT_EQ(0u, peer.Trim(0));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, ACloseWithNothingPendingIsOverAtOnce)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer;
    for (On stream : {On::kDone, On::kHeld, On::kLegacy, On::kAny}) {
        SCOPED_TRACE(static_cast<int>(stream));
        uint64_t closing = 77;
        moiety_devptr address = Import(peer, blocks[0].handle);
        EXPECT_OK(peer.Close(address, stream, &closing));
        // The stand-in's events may take their time.
        EXPECT_OK(peer.Wait(closing, 60000));
        if (stream == On::kDone) {
            EXPECT_EQ(0u, closing);
        }
    }
    EXPECT_EQ(0u, peer.Trim(0));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

// The exporter frees first, and must not reuse the block before the importer's
// message: the rule "exported, F, N" of docs/streams.md.
TEST_F(IpcPeers, FreedBlocksWaitForThePeersRelease)
{
    moiety_pool_options options = Exportable();
    options.limit_bytes = 64 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    Shared block(pool, 64 * kMiB);
    Peer peer;
    moiety_devptr address = Import(peer, block.handle), other = 0;
    pool.Free(block.address);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 64 * kMiB, MOIETY_STREAM_LEGACY, &other));
    EXPECT_OK(peer.CloseAndWait(address, On::kLegacy));
    EXPECT_EQ(0u, peer.Trim(0));
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool_test::Synchronize();
    EXPECT_EQ(block.address, pool.Alloc(64 * kMiB));
    pool.Free(block.address);
}

TEST_F(IpcPeers, HandlesOfATrimmedSegmentAreStale)
{
    Pool pool(Exportable());
    Shared block(pool, 64 * kKiB);
    Peer peer;
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool.Free(block.address);
    EXPECT_EQ(64 * kMiB, pool.TrimAll());
    EXPECT_EQ(MOIETY_E_STALE, TryImport(peer, block.handle));
    // Its place in the pool is used again.
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    EXPECT_NE(block.handle.segment_id, blocks[0].handle.segment_id);
    EXPECT_EQ(MOIETY_E_STALE, TryImport(peer, block.handle));
    pool_test::Fill(blocks[0].address, 64 * kKiB, 8);
    pool_test::Synchronize();
    EXPECT_TRUE(peer.Holds(Import(peer, blocks[0].handle), 64 * kKiB, 8));
    EXPECT_EQ(MOIETY_E_STALE, TryImport(peer, block.handle));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

// As on WSL2: then the owner has not given it back.
TEST_F(IpcPeers, AreToldWhereTheDriverOpensNothing)
{
    Pool pool(Exportable());
    Shared block(pool, 64 * kKiB);
    const struct {
        const char *code;
        moiety_status status;
        const char *words;
    } refusals[] = {
        {"CUDA_ERROR_NOT_SUPPORTED", MOIETY_E_UNSUPPORTED, "NOT_SUPPORTED"},
        {"CUDA_ERROR_INVALID_HANDLE", MOIETY_E_INVALID, "INVALID_HANDLE"},
        {"CUDA_ERROR_INVALID_VALUE", MOIETY_E_STALE, "as on WSL2"},
    };
    for (const auto &refusal : refusals) {
        setenv("MOIETY_STANDIN_FAULTS",
               (std::string("cuIpcOpenMemHandle:nth=1:code=") + refusal.code)
                   .c_str(),
               1);
        Peer peer;
        unsetenv("MOIETY_STANDIN_FAULTS");
        EXPECT_EQ(refusal.status, TryImport(peer, block.handle));
        EXPECT_NE(std::string::npos, peer.message().find(refusal.words))
            << peer.message();
        EXPECT_OK(TryImport(peer, block.handle));
        peer.End();
    }
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool.Free(block.address);
}

TEST_F(IpcPeers, OlderGenerationsAreStaleOnceALaterOneWasSeen)
{
    Pool pool(Exportable());
    Shared old(pool, 64 * kKiB);
    Peer peer;
    moiety_devptr address = Import(peer, old.handle);
    EXPECT_OK(peer.Close(address));
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    moiety_ipc_handle fresh;
    ASSERT_OK(moiety_ipc_export(pool, old.address, &fresh));
    EXPECT_EQ(address, Import(peer, fresh)) << "it is the same segment";
    EXPECT_EQ(1u, peer.Ask(Do::kOpens));
    EXPECT_EQ(MOIETY_E_STALE, TryImport(peer, old.handle));
    peer.End();
    ReleaseAndFree(pool, {old});
}

constexpr unsigned kMany = MOIETY_IPC_IDLE_MAX + 8;

// One exported block in each of `count` segments.
std::vector<Shared> Segments(moiety_pool *pool, unsigned count)
{
    std::vector<Shared> blocks;
    for (unsigned i = 0; i < count; i++)
        blocks.emplace_back(pool, 10 * kMiB);
    return blocks;
}

TEST_F(IpcPeers, ClosedSegmentsAreKeptUpToABound)
{
    Pool pool(Exportable(2 * kMiB));
    std::vector<Shared> blocks = Segments(pool, kMany);
    Peer peer;
    for (const Shared &block : blocks)
        EXPECT_OK(peer.Close(Import(peer, block.handle)));
    EXPECT_EQ(kMany, peer.Ask(Do::kOpens));
    // The last one was in use when the others were counted.
    EXPECT_EQ(MOIETY_IPC_IDLE_MAX + 1u, peer.Ask(Do::kLiveImports));
    EXPECT_EQ(10u, peer.Trim(10));
    EXPECT_EQ(10u, peer.Ask(Do::kLiveImports));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, TheLongestUnusedGoFirst)
{
    Pool pool(Exportable(2 * kMiB));
    std::vector<Shared> blocks = Segments(pool, 4);
    Peer peer;
    for (const Shared &block : blocks)
        EXPECT_OK(peer.Close(Import(peer, block.handle)));
    EXPECT_OK(peer.Close(Import(peer, blocks[0].handle)));
    EXPECT_EQ(4u, peer.Ask(Do::kOpens));
    EXPECT_EQ(2u, peer.Trim(2));
    for (unsigned kept : {0u, 3u})
        EXPECT_OK(peer.Close(Import(peer, blocks[kept].handle)));
    EXPECT_EQ(4u, peer.Ask(Do::kOpens)) << "these were open";
    for (unsigned gone : {1u, 2u})
        EXPECT_OK(peer.Close(Import(peer, blocks[gone].handle)));
    EXPECT_EQ(6u, peer.Ask(Do::kOpens));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, UnusedIsSinceTheLastClose)
{
    Pool pool(Exportable(2 * kMiB));
    std::vector<Shared> blocks = Segments(pool, 2);
    Peer peer;
    moiety_devptr first = Import(peer, blocks[0].handle);
    moiety_devptr second = Import(peer, blocks[1].handle);
    EXPECT_OK(peer.Close(second));
    EXPECT_OK(peer.Close(first));
    EXPECT_EQ(1u, peer.Trim(1));
    Import(peer, blocks[0].handle);
    EXPECT_EQ(2u, peer.Ask(Do::kOpens)) << "the one that was closed last";
    peer.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, OtherDevicesNeedPeerAccess)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer({"MOIETY_STANDIN_DEVICES=2"});
    EXPECT_OK(TryImport(peer, blocks[0].handle, 1));
    Peer apart({"MOIETY_STANDIN_DEVICES=2", "MOIETY_STANDIN_PEERS=0"});
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, TryImport(apart, blocks[0].handle, 1));
    EXPECT_EQ(0u, apart.Ask(Do::kOpens));
    EXPECT_OK(TryImport(apart, blocks[0].handle, 0));
    peer.End();
    apart.End();
    ReleaseAndFree(pool, blocks);
}

TEST_F(IpcPeers, TheDeviceMustBeThere)
{
    Pool pool(Exportable());
    std::vector<Shared> blocks(1, Shared(pool, 64 * kKiB));
    Peer peer({"MOIETY_STANDIN_PCI=0000:77:00.0"});
    EXPECT_EQ(MOIETY_E_NO_DEVICE, TryImport(peer, blocks[0].handle));
    peer.End();
    ReleaseAndFree(pool, blocks);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Exporting, and importing within the exporter's own process.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"
#include "tests/segment/fake_source.h"

namespace
{

using namespace pool_test;

moiety_pool_options Exportable()
{
    moiety_pool_options options = pool_test::Defaults();
    options.flags = MOIETY_POOL_EXPORTABLE;
    return options;
}

moiety_ipc_handle Export(moiety_pool *pool, moiety_devptr address)
{
    moiety_ipc_handle handle = {};
    EXPECT_OK(moiety_ipc_export(pool, address, &handle));
    return handle;
}

moiety_status TryExport(moiety_pool *pool, moiety_devptr address)
{
    moiety_ipc_handle handle;
    return moiety_ipc_export(pool, address, &handle);
}

// 0 unless it succeeds.
moiety_devptr Import(const moiety_ipc_handle &handle)
{
    moiety_devptr address = 0;
    EXPECT_OK(moiety_ipc_import(&handle, sizeof handle, nullptr, &address));
    return address;
}

moiety_status TryImport(const moiety_ipc_handle &handle)
{
    moiety_devptr address = 0;
    return moiety_ipc_import(&handle, sizeof handle, nullptr, &address);
}

void Close(moiety_devptr address)
{
    EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
}

using Ipc = StandinTest;

using IpcExport = Ipc;
using IpcOwnImport = Ipc;
using IpcRelease = Ipc;

TEST_F(IpcExport, SaysWhatTheHandleIsOf)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(100 * kKiB);
    moiety_ipc_handle handle = Export(pool, block);
    EXPECT_EQ(MOIETY_IPC_VERSION, handle.version);
    EXPECT_EQ(sizeof handle, handle.struct_size);
    EXPECT_EQ(32 * kMiB, handle.segment_bytes);
    EXPECT_EQ(pool.UsableSize(block), handle.size_bytes);
    EXPECT_EQ(0, std::memcmp(handle.device_uuid, "moiety standin", 14));
    EXPECT_EQ(static_cast<uint32_t>(getpid()), handle.pid);
    EXPECT_NE(0u, handle.start_ticks);
    EXPECT_NE(0u, handle.pid_namespace);
    pool.Free(block);
}

TEST_F(IpcExport, ReachesEveryAddressOfABlock)
{
    Pool pool(Exportable());
    for (size_t size : {size_t{512}, size_t{5000}, 1 * kMiB, 5 * kMiB + 1}) {
        SCOPED_TRACE(size);
        moiety_devptr before = pool.Alloc(512);
        moiety_devptr block = pool.Alloc(size);
        size_t bytes = pool.UsableSize(block);
        moiety_ipc_handle whole = Export(pool, block);
        for (size_t inset : {size_t{1}, size_t{511}, bytes / 2, bytes - 1}) {
            moiety_ipc_handle rest = Export(pool, block + inset);
            EXPECT_EQ(whole.offset_bytes + inset, rest.offset_bytes);
            EXPECT_EQ(bytes - inset, rest.size_bytes);
            EXPECT_EQ(whole.segment_id, rest.segment_id);
            EXPECT_EQ(whole.generation, rest.generation);
        }
        pool.Free(before);
        pool.Free(block);
    }
}

TEST_F(IpcExport, AsksTheDriverOncePerSegment)
{
    Pool pool(Exportable());
    std::vector<moiety_devptr> blocks;
    uint64_t before = Calls("cuIpcGetMemHandle");
    for (int i = 0; i < 100; i++) {
        blocks.push_back(pool.Alloc(64 * kKiB));
        Export(pool, blocks.back());
    }
    EXPECT_EQ(before + 1, Calls("cuIpcGetMemHandle"));
    uint64_t calls = Calls();
    Export(pool, blocks[50]);
    EXPECT_EQ(calls, Calls()) << "no driver call at all";
    for (moiety_devptr block : blocks)
        pool.Free(block);
}

TEST_F(IpcExport, SameAddressGivesTheSameBytes)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(3000);
    moiety_ipc_handle one = Export(pool, block), other = Export(pool, block);
    EXPECT_EQ(0, std::memcmp(&one, &other, sizeof one));
    pool.Free(block);
}

TEST_F(IpcExport, RefusesWhatIsNoLiveBlock)
{
    Pool pool(Exportable());
    Pool other(Exportable());
    moiety_devptr block = pool.Alloc(3 * kMiB);
    moiety_ipc_handle handle;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_ipc_export(nullptr, block, &handle));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_ipc_export(pool, block, nullptr));
    EXPECT_EQ(MOIETY_E_FOREIGN, TryExport(other, block));
    EXPECT_EQ(MOIETY_E_FOREIGN, TryExport(pool, 0));
    EXPECT_EQ(MOIETY_E_FOREIGN, TryExport(pool, ~moiety_devptr{0}));
    EXPECT_EQ(MOIETY_E_INVALID, TryExport(pool, block + 3 * kMiB))
        << "behind the block";
    EXPECT_EQ(MOIETY_E_INVALID, TryExport(pool, block + 20 * kMiB))
        << "in free pages";
    pool.Free(block);
}

TEST_F(IpcExport, RefusedAddressesPinNothing)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(3 * kMiB);
    EXPECT_EQ(MOIETY_E_INVALID, TryExport(pool, block + 3 * kMiB));
    pool.Free(block);
    EXPECT_EQ(32 * kMiB, pool.TrimAll());
}

TEST_F(IpcExport, NeedsAnExportablePool)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(512);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, TryExport(pool, block));
    EXPECT_STREQ("the pool is not exportable: it was made without "
                 "MOIETY_POOL_EXPORTABLE",
                 moiety_last_error_message());
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcExport, NeedsASourceThatCanShare)
{
    segment_test::FakeSource source;
    moiety_source table = source.Table();
    moiety_pool_options options = Exportable();
    options.source = &table;
    table.flags = 0;
    moiety_pool *pool = nullptr;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_pool_create(&options, &pool));
    EXPECT_EQ(nullptr, pool);
}

// A source that cuts its memory out of one allocation of the driver's.
struct CuttingSource {
    moiety_devptr whole = 0;
    moiety_devptr next = 0;

    moiety_source Table()
    {
        moiety_source table = {};
        table.struct_size = sizeof table;
        table.flags = MOIETY_SOURCE_LEGACY_IPC;
        table.name = "cutting";
        table.context = this;
        table.reserve = [](void *context, size_t bytes, moiety_devptr *out) {
            auto *self = static_cast<CuttingSource *>(context);
            *out = self->next;
            self->next += bytes;
            return MOIETY_OK;
        };
        table.release = [](void *, moiety_devptr, size_t) { return MOIETY_OK; };
        return table;
    }
};

TEST_F(IpcExport, RefusesAPartOfALargerAllocation)
{
    Pool whole;
    CuttingSource source;
    source.next = source.whole = whole.Alloc(128 * kMiB);
    moiety_source table = source.Table();
    moiety_pool_options options = Exportable();
    options.source = &table;
    {
        Pool pool(options);
        moiety_devptr block = pool.Alloc(512);
        EXPECT_EQ(MOIETY_E_UNSUPPORTED, TryExport(pool, block));
        pool.Free(block);
    }
    whole.Free(source.whole);
}

TEST_F(IpcRelease, ExportedSegmentsAreNotTrimmed)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    Export(pool, block);
    pool.Free(block);
    EXPECT_EQ(0u, pool.TrimAll());
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(32 * kMiB, pool.TrimAll());
}

TEST_F(IpcRelease, FreedBlocksStayOutOfCirculation)
{
    moiety_pool_options options = Exportable();
    options.limit_bytes = 64 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(64 * kKiB), address = 0;
    Export(pool, block + 5);
    EXPECT_OK(moiety_free_sized(pool, block, 64 * kKiB, kStream));
    std::vector<moiety_devptr> others;
    while (others.size() < 1023)
        others.push_back(pool.Alloc(64 * kKiB));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 64 * kKiB, kStream, &address));
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free(pool, block, kStream));
    EXPECT_EQ(MOIETY_E_INVALID, TryExport(pool, block)) << "it was freed";
    EXPECT_EQ(1024u, pool.Stats().allocation_current) << "still in use";
    EXPECT_OK(moiety_ipc_release_exports(pool, block));
    EXPECT_EQ(1023u, pool.Stats().allocation_current);
    pool_test::Synchronize();
    others.push_back(pool.Alloc(64 * kKiB));
    EXPECT_EQ(block, others.back()) << "it serves again";
    for (moiety_devptr other : others)
        pool.Free(other);
}

TEST_F(IpcRelease, FreedBlocksComeBackBehindTheWorkOfTheirStream)
{
    Pool pool(Exportable());
    pool_test::Stream held;
    moiety_devptr block = pool.Alloc(64 * kMiB);
    Export(pool, block);
    held.Hold();
    pool_test::Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
        "cuMemsetD8Async")(block, 1, 4096, held);
    pool.Free(block, held);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(0u, pool.Trim()) << "its stream is held";
    held.Release();
    EXPECT_EQ(64 * kMiB, pool.TrimAll());
}

TEST_F(IpcRelease, LiveBlocksStayLive)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    Export(pool, block);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(1u, pool.Stats().allocation_current);
    pool.Free(block);
    EXPECT_EQ(0u, pool.Stats().allocation_current) << "an ordinary free";
    EXPECT_EQ(32 * kMiB, pool.TrimAll());
}

TEST_F(IpcRelease, OfOneSegmentLeavesTheOthers)
{
    Pool pool(Exportable());
    moiety_devptr one = pool.Alloc(64 * kMiB), other = pool.Alloc(64 * kMiB);
    moiety_ipc_handle handle = Export(pool, other);
    Export(pool, one);
    EXPECT_OK(moiety_ipc_release_exports(pool, one + 100));
    pool.Free(one);
    pool.Free(other);
    EXPECT_EQ(64 * kMiB, pool.TrimAll());
    EXPECT_EQ(other, Import(handle));
    Close(other);
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_ipc_release_exports(pool, 4096));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_ipc_release_exports(nullptr, 0));
    EXPECT_OK(moiety_ipc_release_exports(pool, other));
    EXPECT_EQ(64 * kMiB, pool.TrimAll());
}

TEST_F(IpcRelease, MakesHandlesStale)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    moiety_ipc_handle old = Export(pool, block);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(MOIETY_E_STALE, TryImport(old));
    moiety_ipc_handle fresh = Export(pool, block);
    EXPECT_EQ(old.segment_id, fresh.segment_id);
    EXPECT_GT(fresh.generation, old.generation);
    EXPECT_EQ(MOIETY_E_STALE, TryImport(old));
    EXPECT_EQ(block, Import(fresh));
    Close(block);
    pool.Free(block);
}

TEST_F(IpcRelease, FreeAfterIsRefusedUntilThen)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    moiety_event event = pool_test::NewEvent();
    Export(pool, block);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_free_on_event(pool, block, event));
    EXPECT_EQ(MOIETY_OK, moiety_ipc_release_exports(pool, 0));
    EXPECT_EQ(MOIETY_OK, moiety_free_on_event(pool, block, event));
    pool_test::DestroyEvent(event);
}

TEST_F(IpcRelease, UsesThatWereNotedAreKept)
{
    Pool pool(Exportable());
    pool_test::Stream user;
    moiety_devptr block = pool.Alloc(64 * kMiB);
    ASSERT_OK(moiety_record_use(pool, block, user));
    Export(pool, block);
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    user.Hold();
    pool.Free(block);
    EXPECT_EQ(0u, pool.Trim());
    user.Release();
    EXPECT_EQ(64 * kMiB, pool.TrimAll());
}

TEST_F(IpcRelease, OfAPoolIsItsEnd)
{
    moiety_ipc_handle handle;
    moiety_devptr block;
    {
        Pool pool(Exportable());
        block = pool.Alloc(64 * kKiB);
        handle = Export(pool, block);
        EXPECT_EQ(block, Import(handle));
        pool.Free(block);
        // The end of the pool expects that nothing leaked.
    }
    EXPECT_EQ(MOIETY_E_STALE, TryImport(handle));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_ipc_close(block, MOIETY_STREAM_DONE, nullptr));
}

TEST_F(IpcOwnImport, IsTheAddressItself)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    uint64_t opens = Calls("cuIpcOpenMemHandle");
    EXPECT_EQ(block + 77, Import(Export(pool, block + 77)));
    EXPECT_EQ(opens, Calls("cuIpcOpenMemHandle"));
    Close(block + 77);
    pool.Free(block);
}

TEST_F(IpcOwnImport, IsCounted)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    moiety_ipc_handle handle = Export(pool, block);
    Import(handle);
    Import(handle);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_ipc_release_exports(pool, 0));
    Close(block);
    EXPECT_EQ(MOIETY_E_IN_USE, moiety_ipc_release_exports(pool, block));
    auto closing = reinterpret_cast<moiety_closing>(7);
    EXPECT_EQ(MOIETY_OK, moiety_ipc_close(block, kStream, &closing));
    EXPECT_EQ(nullptr, closing);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_ipc_close(block, MOIETY_STREAM_DONE, nullptr));
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    pool.Free(block);
}

TEST_F(IpcOwnImport, RefusesBadArguments)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB), address = 0;
    moiety_ipc_handle handle = Export(pool, block);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_ipc_import(nullptr, sizeof handle, nullptr, &address));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_ipc_import(&handle, sizeof handle, nullptr, nullptr));
    for (size_t bytes :
         {size_t{0}, size_t{8}, sizeof handle - 1, sizeof handle + 1, SIZE_MAX})
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_ipc_import(&handle, bytes, nullptr, &address));
    handle.version++;
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, TryImport(handle));
    handle.version--;
    handle.checksum++;
    EXPECT_EQ(MOIETY_E_CORRUPT, TryImport(handle));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_ipc_close(block, MOIETY_STREAM_DONE, nullptr))
        << "exported, but not imported";
    EXPECT_OK(moiety_ipc_close(0, kStream, nullptr));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_ipc_close(12345, MOIETY_STREAM_DONE, nullptr));
    EXPECT_OK(moiety_ipc_wait(nullptr, 0));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_ipc_wait(reinterpret_cast<moiety_closing>(1000000), 0));
    EXPECT_OK(moiety_ipc_trim(0, nullptr));
    EXPECT_EQ(0u, address);
    pool.Free(block);
}

TEST_F(IpcOwnImport, EveryFlippedBitIsNoticed)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    const moiety_ipc_handle handle = Export(pool, block);
    for (size_t bit = 0; bit < 8 * sizeof handle; bit++) {
        SCOPED_TRACE("bit " + std::to_string(bit));
        unsigned char bytes[sizeof handle];
        std::memcpy(bytes, &handle, sizeof handle);
        bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
        moiety_devptr address = 0;
        EXPECT_EQ(bit < 32 ? MOIETY_E_UNSUPPORTED : MOIETY_E_CORRUPT,
                  moiety_ipc_import(bytes, sizeof bytes, nullptr, &address));
        EXPECT_EQ(0u, address);
    }
    pool.Free(block);
}

TEST_F(IpcOwnImport, TakesBytesAtAnyAlignment)
{
    Pool pool(Exportable());
    moiety_devptr block = pool.Alloc(64 * kKiB);
    moiety_ipc_handle handle = Export(pool, block);
    unsigned char bytes[sizeof handle + 1];
    std::memcpy(bytes + 1, &handle, sizeof handle);
    moiety_devptr address = 0;
    EXPECT_OK(moiety_ipc_import(bytes + 1, sizeof handle, nullptr, &address));
    EXPECT_EQ(block, address);
    Close(address);
    pool.Free(block);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Legacy IPC: memory opened by another process.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

using LegacyIpc = OnDevice;

namespace
{

constexpr size_t kBlock = 4 * kMiB;
constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

/* What the exporter tells the importer first. */
struct Offer {
    CUipcMemHandle handle;
    size_t offset_bytes;
};

void ExpectOpenIsCounted(const CUipcMemHandle &handle, CUdeviceptr address)
{
    CUdeviceptr again = 0;
    EXPECT_SUCCESS("ipc.open.again",
                   cu.IpcOpenMemHandle(&again, handle, kLazy));
    EXPECT_SAME("ipc.open.again.is-the-same-address", again, address);
    {
        Background closer;
        Stream stream;
        StreamHold hold(stream);
        closer.Start([address] { return cu.IpcCloseMemHandle(address); });
        EXPECT_YES("ipc.close.waits-for-held-stream",
                   !closer.ReturnsWithin(kForbiddenMs));
        hold.Release();
        EXPECT_SUCCESS("ipc.close.first", closer.Result());
    }
    EXPECT_YES("ipc.memory-stays-until-the-last-close",
               AllBytesAre(address, kBlock, 51));
}

void ExpectImportedIsNotOwned(CUdeviceptr address)
{
    CUipcMemHandle handle;
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    EXPECT_INVALID("ipc.imported.mem-free", cu.MemFree(address));
    EXPECT_INVALID("ipc.imported.export-again",
                   cu.IpcGetMemHandle(&handle, address));
    EXPECT_SUCCESS("ipc.imported.address-range",
                   cu.MemGetAddressRange(&base, &size_bytes, address + 600));
    EXPECT_SAME("ipc.imported.address-range.base", base, address);
    EXPECT_SAME("ipc.imported.address-range.size", size_bytes, kBlock);
    EXPECT_INVALID("ipc.close.interior", cu.IpcCloseMemHandle(address + 512));
}

} // namespace

ROLE(ipc_importer)
{
    Offer offer;
    CUdeviceptr address = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Receive(peer, &offer, sizeof offer);
    EXPECT_SUCCESS("ipc.open",
                   cu.IpcOpenMemHandle(&address, offer.handle, kLazy));
    MUST_BE(address != 0);
    EXPECT_YES("ipc.open.shows-write-of-exporter",
               AllBytesAre(address, kBlock, 51));
    ExpectImportedIsNotOwned(address);
    ExpectOpenIsCounted(offer.handle, address);
    MUST(cu.MemsetD8(address + offer.offset_bytes, 52, 4096));
    MUST(cu.CtxSynchronize());
    SendTurn(peer);
    AwaitTurn(peer);
    EXPECT_SUCCESS("ipc.close", cu.IpcCloseMemHandle(address));
    EXPECT_INVALID("ipc.close.twice", cu.IpcCloseMemHandle(address));
}

TEST_F(LegacyIpc, AnotherProcessOpens)
{
    RoleProcess importer("ipc_importer");
    DeviceBlock block(kBlock);
    Offer offer = {};
    CUipcMemHandle again;
    MUST(cu.MemsetD8(block, 51, kBlock));
    MUST(cu.CtxSynchronize());
    EXPECT_SUCCESS("ipc.export", cu.IpcGetMemHandle(&offer.handle, block));
    EXPECT_SUCCESS("ipc.export.interior",
                   cu.IpcGetMemHandle(&again, block + 8192));
    EXPECT_YES("ipc.export.interior.is-the-handle-of-the-base",
               std::memcmp(&again, &offer.handle, sizeof again) == 0);
    offer.offset_bytes = 8192;
    Send(importer.peer(), &offer, sizeof offer);
    AwaitTurn(importer.peer());
    EXPECT_YES("ipc.export.shows-write-of-importer",
               AllBytesAre(block + 8192, 4096, 52));
    EXPECT_YES("ipc.export.rest-is-untouched", AllBytesAre(block, 8192, 51));
    SendTurn(importer.peer());
    importer.Finish();
}

ROLE(ipc_late_importer)
{
    Offer offer;
    CUdeviceptr address = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Receive(peer, &offer, sizeof offer);
    EXPECT_INVALID("ipc.open.freed-by-exporter",
                   cu.IpcOpenMemHandle(&address, offer.handle, kLazy));
}

TEST_F(LegacyIpc, FreedMemoryCannotBeOpened)
{
    RoleProcess importer("ipc_late_importer");
    Offer offer = {};
    CUdeviceptr address = 0;
    MUST(cu.MemAlloc(&address, kBlock));
    MUST(cu.IpcGetMemHandle(&offer.handle, address));
    MUST(cu.MemFree(address));
    Send(importer.peer(), &offer, sizeof offer);
    importer.Finish();
}

/* What the importer then reads is documented as undefined; only that neither
 * side fails is checked. */
ROLE(ipc_holding_importer)
{
    Offer offer;
    CUdeviceptr address = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Receive(peer, &offer, sizeof offer);
    MUST(cu.IpcOpenMemHandle(&address, offer.handle, kLazy));
    SendTurn(peer);
    AwaitTurn(peer);
    EXPECT_SUCCESS("ipc.close.after-free-by-exporter",
                   cu.IpcCloseMemHandle(address));
}

TEST_F(LegacyIpc, ExporterMayFreeFirst)
{
    RoleProcess importer("ipc_holding_importer");
    Offer offer = {};
    CUdeviceptr address = 0;
    MUST(cu.MemAlloc(&address, kBlock));
    MUST(cu.MemsetD8(address, 53, kBlock));
    MUST(cu.CtxSynchronize());
    MUST(cu.IpcGetMemHandle(&offer.handle, address));
    Send(importer.peer(), &offer, sizeof offer);
    AwaitTurn(importer.peer());
    EXPECT_SUCCESS("ipc.free-while-a-peer-has-it-open", cu.MemFree(address));
    SendTurn(importer.peer());
    importer.Finish();
}

TEST_F(LegacyIpc, OwnProcessCannotOpen)
{
    DeviceBlock block(kBlock);
    CUipcMemHandle handle;
    CUdeviceptr address = 0;
    MUST(cu.IpcGetMemHandle(&handle, block));
    EXPECT_CU("ipc.open.own", cu.IpcOpenMemHandle(&address, handle, kLazy),
              CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(LegacyIpc, BadArguments)
{
    DeviceBlock block(kBlock);
    PinnedBlock pinned(4096);
    CUipcMemHandle handle, nonsense;
    CUdeviceptr address = 0;
    MUST(cu.IpcGetMemHandle(&handle, block));
    std::memset(&nonsense, 0x5a, sizeof nonsense);
    EXPECT_INVALID("ipc.export.null", cu.IpcGetMemHandle(nullptr, block));
    EXPECT_INVALID("ipc.export.never-allocated",
                   cu.IpcGetMemHandle(&handle, kNowhere));
    EXPECT_INVALID("ipc.export.pinned-host",
                   cu.IpcGetMemHandle(&handle, pinned.address));
    EXPECT_INVALID("ipc.open.nonsense",
                   cu.IpcOpenMemHandle(&address, nonsense, kLazy));
    EXPECT_INVALID("ipc.open.bad-flags",
                   cu.IpcOpenMemHandle(&address, handle, 0x100));
    EXPECT_INVALID("ipc.open.null",
                   cu.IpcOpenMemHandle(nullptr, handle, kLazy));
    EXPECT_INVALID("ipc.close.never-opened", cu.IpcCloseMemHandle(block));
    EXPECT_INVALID("ipc.close.never-allocated", cu.IpcCloseMemHandle(kNowhere));
}

} // namespace conformance

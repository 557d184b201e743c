// SPDX-License-Identifier: Apache-2.0
//
// VMM memory handed to another process as a file descriptor.
#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/memory/vmm.h"
#include "tests/conformance/roles.h"

namespace conformance
{

using VmmFdExport = OnDevice;

namespace
{

void *AsHandle(int descriptor)
{
    return reinterpret_cast<void *>(static_cast<intptr_t>(descriptor));
}

/* Maps imported memory; 0 when that fails. */
CUdeviceptr MapImported(CUmemGenericAllocationHandle memory)
{
    CUmemAccessDesc access = ReadWriteByDevice();
    CUdeviceptr address = 0;
    MUST(cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
    MUST(cu.MemMap(address, kGranule, 0, memory, 0));
    MUST(cu.MemSetAccess(address, kGranule, &access, 1));
    return address;
}

} // namespace

ROLE(fd_importer)
{
    CUmemGenericAllocationHandle memory = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    int descriptor = ReceiveDescriptor(peer);
    EXPECT_SUCCESS("fd.import.in-another-process",
                   cu.MemImportFromShareableHandle(
                       &memory, AsHandle(descriptor),
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    CUdeviceptr address = MapImported(memory);
    EXPECT_YES("fd.import.shows-the-write-of-exporter",
               AllBytesAre(address, kGranule, 41));
    MUST(cu.MemsetD8(address, 42, kGranule));
    MUST(cu.CtxSynchronize());
    SendTurn(peer);
    AwaitTurn(peer);
    EXPECT_YES("fd.import.outlives-the-release-by-exporter",
               AllBytesAre(address, kGranule, 42));
    MUST(cu.MemUnmap(address, kGranule));
    MUST(cu.MemRelease(memory));
}

TEST_F(VmmFdExport, AnotherProcessMapsIt)
{
    RoleProcess importer("fd_importer");
    {
        MappedRange mapped(kGranule, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        int descriptor = -1;
        MUST(cu.MemsetD8(mapped.address, 41, kGranule));
        MUST(cu.CtxSynchronize());
        EXPECT_SUCCESS("fd.export",
                       cu.MemExportToShareableHandle(
                           &descriptor, mapped.memory,
                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        SendDescriptor(importer.peer(), descriptor);
        close(descriptor);
        AwaitTurn(importer.peer());
        EXPECT_YES("fd.export.shows-the-write-of-importer",
                   AllBytesAre(mapped.address, kGranule, 42));
    }
    SendTurn(importer.peer());
    importer.Finish();
}

TEST_F(VmmFdExport, TheSameProcessMayImport)
{
    MappedRange mapped(kGranule, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle imported = 0;
    int descriptor = -1;
    MUST(cu.MemExportToShareableHandle(&descriptor, mapped.memory,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                       0));
    EXPECT_SUCCESS("fd.import.in-the-same-process",
                   cu.MemImportFromShareableHandle(
                       &imported, AsHandle(descriptor),
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    CUdeviceptr address = MapImported(imported);
    MUST(cu.MemsetD8(address, 43, kGranule));
    MUST(cu.CtxSynchronize());
    EXPECT_YES("fd.import.in-the-same-process.is-the-same-memory",
               AllBytesAre(mapped.address, kGranule, 43));
    MUST(cu.MemUnmap(address, kGranule));
    MUST(cu.MemAddressFree(address, kGranule));
    MUST(cu.MemRelease(imported));
}

TEST_F(VmmFdExport, MustHaveBeenAskedFor)
{
    MappedRange mapped(kGranule);
    int descriptor = -1;
    EXPECT_INVALID("fd.export.not-requested",
                   cu.MemExportToShareableHandle(
                       &descriptor, mapped.memory,
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

TEST_F(VmmFdExport, BadArguments)
{
    MappedRange mapped(kGranule, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CUmemGenericAllocationHandle imported = 0;
    int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_CU("fd.import.not-an-export",
              cu.MemImportFromShareableHandle(
                  &imported, AsHandle(descriptor),
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_ERROR_UNKNOWN);
    close(descriptor);
    EXPECT_CU("fd.import.closed-descriptor",
              cu.MemImportFromShareableHandle(
                  &imported, AsHandle(descriptor),
                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_ERROR_UNKNOWN);
    EXPECT_INVALID("fd.export.null",
                   cu.MemExportToShareableHandle(
                       nullptr, mapped.memory,
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_INVALID("fd.export.bad-flags",
                   cu.MemExportToShareableHandle(
                       &descriptor, mapped.memory,
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
    EXPECT_INVALID("fd.export.bad-type",
                   cu.MemExportToShareableHandle(&descriptor, mapped.memory,
                                                 CU_MEM_HANDLE_TYPE_NONE, 0));
}

} // namespace conformance

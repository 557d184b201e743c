/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * VMM memory between processes: its file's descriptor is the handle that is
 * passed on, and the file says by itself what it is.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/standin/entry.h"
#include "pool/standin/memory_api.h"
#include "pool/standin/vmm.h"

#define MAGIC "binade vmm file"
/* The trailer has the file's last page to itself: no mapping shows it. */
#define TRAILER_ROOM_BYTES ((size_t)4096)

struct trailer {
    char magic[sizeof(MAGIC)];
    uint64_t size_bytes; /* of the memory, which comes first in the file */
    CUmemAllocationProp properties;
};

bool physical_write_trailer(int fd, size_t size_bytes,
                            const CUmemAllocationProp *properties)
{
    struct trailer trailer = {
        .magic = MAGIC, .size_bytes = size_bytes, .properties = *properties};
    if (size_bytes > (size_t)INT64_MAX - TRAILER_ROOM_BYTES ||
        ftruncate(fd, (off_t)(size_bytes + TRAILER_ROOM_BYTES)) != 0)
        return false;
    ssize_t written = pwrite(fd, &trailer, sizeof(trailer), (off_t)size_bytes);
    return written == (ssize_t)sizeof(trailer);
}

/* False for any file that is not one of ours. */
static bool read_trailer(int fd, struct stat *status, struct trailer *out)
{
    if (fstat(fd, status) != 0 || !S_ISREG(status->st_mode) ||
        status->st_size <= (off_t)TRAILER_ROOM_BYTES)
        return false;
    size_t size_bytes = (size_t)status->st_size - TRAILER_ROOM_BYTES;
    ssize_t got = pread(fd, out, sizeof(*out), (off_t)size_bytes);
    return got == (ssize_t)sizeof(*out) &&
           memcmp(out->magic, MAGIC, sizeof(MAGIC)) == 0 &&
           out->size_bytes == size_bytes && size_bytes % GRANULE_BYTES == 0;
}

CUresult cuMemExportToShareableHandle(void *out,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    ENTER(cuMemExportToShareableHandle, NEEDS_INIT);
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    const struct physical *physical = physical_find(handle);
    if (!physical ||
        !((unsigned)physical->properties.requestedHandleTypes & type))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return standin_leave(CUDA_ERROR_OPERATING_SYSTEM);
    *(int *)out = fd;
    return standin_leave(CUDA_SUCCESS);
}

static CUresult import_file(int fd, const struct stat *status,
                            const struct trailer *trailer,
                            CUmemGenericAllocationHandle *out)
{
    struct physical physical = {
        .size_bytes = trailer->size_bytes,
        .properties = trailer->properties,
        .has_own_file = true,
        .inode = status->st_ino,
    };
    /* An importer cannot pass it on. */
    physical.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CUmemLocation location = trailer->properties.location;
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        physical.device = device_at(location.id);
        if (!physical.device)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    /* The caller keeps its own descriptor, as with the driver. */
    physical.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (physical.fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    const struct physical *made = physical_add(&physical);
    if (!made) {
        close(physical.fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = made->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out,
                                        void *shared,
                                        CUmemAllocationHandleType type)
{
    ENTER(cuMemImportFromShareableHandle, NEEDS_INIT);
    struct trailer trailer;
    struct stat status;
    int fd = (int)(intptr_t)shared;
    if (out && type == CU_MEM_HANDLE_TYPE_FABRIC)
        return CUDA_ERROR_NOT_PERMITTED; /* there is no fabric here */
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (!read_trailer(fd, &status, &trailer))
        return CUDA_ERROR_UNKNOWN; /* what the driver says of a strange file */
    standin_lock();
    struct physical *known = physical_find_file(status.st_ino);
    if (!known)
        return standin_leave(import_file(fd, &status, &trailer, out));
    known->handle_count++;
    *out = known->handle;
    return standin_leave(CUDA_SUCCESS);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/standin/vmm/file.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/standin/memory/device_memory.h"

#define MAGIC "moiety vmm file"
/* The trailer has the file's last page to itself: no mapping shows it. */
#define TRAILER_ROOM_BYTES ((size_t)4096)

_Static_assert(sizeof(MAGIC) == sizeof(((struct vmm_trailer *)NULL)->magic),
               "as long as it has room");

static bool write_trailer(int fd, size_t size_bytes,
                          const CUmemAllocationProp *properties)
{
    struct vmm_trailer trailer = {
        .magic = MAGIC, .size_bytes = size_bytes, .properties = *properties};
    if (size_bytes > (size_t)INT64_MAX - TRAILER_ROOM_BYTES ||
        ftruncate(fd, (off_t)(size_bytes + TRAILER_ROOM_BYTES)) != 0)
        return false;
    ssize_t written = pwrite(fd, &trailer, sizeof(trailer), (off_t)size_bytes);
    return written == (ssize_t)sizeof(trailer);
}

CUresult vmm_file_make(size_t size_bytes, const CUmemAllocationProp *properties,
                       int *out_fd, ino_t *out_inode)
{
    struct stat status;
    size_t pages = (size_t)sysconf(_SC_PHYS_PAGES);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (size_bytes / page_bytes > pages)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int fd = memfd_create(VMM_FILE_NAME, MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!write_trailer(fd, size_bytes, properties) || fstat(fd, &status) != 0) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out_fd = fd;
    *out_inode = status.st_ino;
    return CUDA_SUCCESS;
}

bool vmm_file_read(int fd, ino_t *out_inode, struct vmm_trailer *out)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size <= (off_t)TRAILER_ROOM_BYTES)
        return false;
    size_t size_bytes = (size_t)status.st_size - TRAILER_ROOM_BYTES;
    ssize_t got = pread(fd, out, sizeof(*out), (off_t)size_bytes);
    *out_inode = status.st_ino;
    return got == (ssize_t)sizeof(*out) &&
           memcmp(out->magic, MAGIC, sizeof(MAGIC)) == 0 &&
           out->size_bytes == size_bytes && size_bytes % GRANULE_BYTES == 0;
}

bool vmm_file_write_proof(int fd, size_t size_bytes, uint64_t proof)
{
    size_t offset = size_bytes + offsetof(struct vmm_trailer, proof);
    ssize_t written = pwrite(fd, &proof, sizeof(proof), (off_t)offset);
    return written == (ssize_t)sizeof(proof);
}

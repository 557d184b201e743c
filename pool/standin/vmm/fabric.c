/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Fabric handles: 64 bytes that say where the exporter keeps the memory's file,
 * which the importer opens through /proc. A word in the file proves that the
 * exporter still has the handle. One machine stands for the fabric.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pool/standin/base/checksum.h"
#include "pool/standin/base/process.h"
#include "pool/standin/vmm/file.h"
#include "pool/standin/vmm/vmm.h"

#define FABRIC_MAGIC 0x6d6f4662U

struct fabric_handle {
    uint32_t magic;
    int32_t pid;          /* of the exporter */
    uint64_t start_ticks; /* when it started, as the kernel says */
    uint64_t inode;       /* of the memory's file */
    uint64_t proof;       /* in that file while the handle is good */
    int32_t fd;           /* of the file, in the exporter */
    uint32_t reserved[5]; /* 0 */
    uint64_t checksum;    /* of all above */
};

_Static_assert(sizeof(struct fabric_handle) == sizeof(CUmemFabricHandle),
               "the driver's handle has 64 bytes");

static uint64_t fabric_checksum_of(const struct fabric_handle *handle)
{
    return standin_checksum(handle, offsetof(struct fabric_handle, checksum));
}

/* Of all processes that may have the memory, only the one that created it. */
static bool fabric_prove(struct physical *physical)
{
    uint64_t proof;
    if (physical->proof)
        return true;
    if (getrandom(&proof, sizeof(proof), GRND_NONBLOCK) != sizeof(proof))
        return false;
    proof |= 1;
    if (!vmm_file_write_proof(physical->fd, physical->size_bytes, proof))
        return false;
    physical->proof = proof;
    return true;
}

CUresult fabric_handle_make(struct physical *physical, CUmemFabricHandle *out)
{
    if (!fabric_prove(physical))
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct fabric_handle handle = {
        .magic = FABRIC_MAGIC,
        .pid = getpid(),
        .start_ticks = standin_start_ticks(getpid()),
        .inode = physical->inode,
        .proof = physical->proof,
        .fd = physical->fd,
    };
    handle.checksum = fabric_checksum_of(&handle);
    memcpy(out, &handle, sizeof(*out));
    return CUDA_SUCCESS;
}

/* Whether /proc/PID/fd/N is memory's file. Asked before it is opened: a
 * stranger's descriptor may be a pipe or a terminal. */
static bool is_memory_file(const char *path)
{
    static const char expected[] = "/memfd:" VMM_FILE_NAME;
    char target[sizeof(expected)];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    return length == sizeof(expected) - 1 &&
           memcmp(target, expected, sizeof(expected) - 1) == 0;
}

static bool is_fabric_of(const struct fabric_handle *handle, int fd)
{
    struct vmm_trailer trailer;
    ino_t inode;
    return vmm_file_read(fd, &inode, &trailer) && inode == handle->inode &&
           trailer.proof && trailer.proof == handle->proof;
}

CUresult fabric_handle_open(const CUmemFabricHandle *raw, int *out_fd)
{
    char path[64];
    struct fabric_handle handle;
    memcpy(&handle, raw, sizeof(handle));
    if (handle.magic != FABRIC_MAGIC ||
        handle.checksum != fabric_checksum_of(&handle) ||
        standin_start_ticks(handle.pid) != handle.start_ticks)
        return CUDA_ERROR_INVALID_VALUE;
    (void)snprintf(path, sizeof(path), "/proc/%ld/fd/%ld", (long)handle.pid,
                   (long)handle.fd);
    if (!is_memory_file(path))
        return CUDA_ERROR_INVALID_VALUE;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_fabric_of(&handle, fd)) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out_fd = fd;
    return CUDA_SUCCESS;
}

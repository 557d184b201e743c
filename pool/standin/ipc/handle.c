/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/standin/ipc/handle.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/standin/base/checksum.h"
#include "pool/standin/base/context.h"
#include "pool/standin/base/process.h"
#include "pool/standin/memory/device_memory.h"

#define MAGIC 0x6d6f5043U

_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle),
               "the driver's handle has 64 bytes");

/* Over all that stands before the checksum. */
static uint64_t ipc_handle_checksum_of(const struct ipc_handle *handle)
{
    return standin_checksum(handle, offsetof(struct ipc_handle, checksum));
}

bool ipc_handle_seal(struct ipc_handle *handle, CUipcMemHandle *out)
{
    handle->magic = MAGIC;
    handle->pid = getpid();
    handle->start_ticks = standin_start_ticks(getpid());
    handle->checksum = ipc_handle_checksum_of(handle);
    memcpy(out, handle, sizeof(*out));
    return handle->start_ticks != 0;
}

/* Whether /proc/PID/fd/N is a device's file. Asked before it is opened: a
 * stranger's descriptor may be a pipe or a terminal. */
static bool is_device_file(const char *path)
{
    static const char expected[] = "/memfd:moiety_standin_device";
    char target[sizeof(expected)];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    return length == sizeof(expected) - 1 &&
           memcmp(target, expected, sizeof(expected) - 1) == 0;
}

/* Everything that the handle says of the file is true of it, so that no access
 * can run past its end. */
static bool is_true_of(const struct ipc_handle *handle, int fd)
{
    struct stat status;
    uint64_t proof;
    if (fstat(fd, &status) != 0)
        return false;
    uint64_t file_bytes = (uint64_t)status.st_size;
    if (handle->size_bytes == 0 || handle->offset >= file_bytes ||
        handle->size_bytes > file_bytes - handle->offset ||
        handle->proof_offset >= file_bytes)
        return false;
    ssize_t got = pread(fd, &proof, sizeof(proof), (off_t)handle->proof_offset);
    return got == (ssize_t)sizeof(proof) && proof == handle->proof &&
           standin_start_ticks(handle->pid) == handle->start_ticks;
}

static CUresult handle_check(const struct ipc_handle *handle)
{
    if (handle->magic != MAGIC ||
        handle->checksum != ipc_handle_checksum_of(handle))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t start_ticks = standin_start_ticks(handle->pid);
    if (start_ticks == 0 || start_ticks != handle->start_ticks)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle->pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    return device_at(handle->device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult ipc_handle_open(const CUipcMemHandle *raw, struct ipc_handle *out,
                         int *out_fd)
{
    char path[64];
    memcpy(out, raw, sizeof(*out));
    CUresult code = handle_check(out);
    if (code != CUDA_SUCCESS)
        return code;
    (void)snprintf(path, sizeof(path), "/proc/%ld/fd/%ld", (long)out->pid,
                   (long)out->fd);
    if (!is_device_file(path))
        return CUDA_ERROR_INVALID_VALUE;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_true_of(out, fd)) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out_fd = fd;
    return CUDA_SUCCESS;
}

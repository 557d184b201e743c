/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A planted bug: one block, given out again while it is in use. It shows that
 * the server's check of bytes finds what it is there to find.
 */
#include "bench/server/subjects/subject.h"

static const struct server_device *on;
static CUdeviceptr block;

static moiety_status start(const struct server_device *device)
{
    on = device;
    return MOIETYI_CALL(device->driver, cuMemAlloc,
                        (&block, SERVER_BLOCK_BYTES_MAX));
}

static moiety_status alloc(size_t size_bytes, unsigned stream, CUdeviceptr *out)
{
    (void)size_bytes;
    (void)stream;
    *out = block;
    return MOIETY_OK;
}

static moiety_status free_block(CUdeviceptr address, size_t size_bytes,
                                unsigned stream)
{
    (void)address;
    (void)size_bytes;
    (void)stream;
    return MOIETY_OK;
}

static uint64_t peak_bytes(void)
{
    return SERVER_BLOCK_BYTES_MAX;
}

static uint64_t stop(void)
{
    (void)on->driver->cuMemFree(block);
    return 0;
}

const struct server_subject server_subject_planted = {
    .name = "planted",
    .description = "a bug: one block for everybody at once",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .peak_bytes = peak_bytes,
    .stop = stop,
};

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/host/rig.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <moiety/status.h>

#include "bench/base/device.h"
#include "bench/host/row.h"

#define CHECK_TAG UINT64_C(0x5eed)

const struct moietyi_driver *host_driver(void)
{
    return moietyi_driver_opened();
}

bool host_device_alloc(size_t size_bytes, CUdeviceptr *out)
{
    return MOIETYI_CALL(host_driver(), cuMemAlloc, (out, size_bytes)) ==
           MOIETY_OK;
}

/* A failure would repeat one that was reported. */
void host_device_free(CUdeviceptr address)
{
    if (address)
        (void)host_driver()->cuMemFree(address);
}

moiety_host *host_arena_open(const char *what,
                             const moiety_host_options *options)
{
    moiety_host *arena;
    if (moiety_host_create(options, &arena) == MOIETY_OK)
        return arena;
    host_row_begin(what, "arena");
    host_row_fail(moiety_last_error_message());
    return NULL;
}

void host_arena_close(const char *what, moiety_host *arena)
{
    if (moiety_host_destroy(arena, NULL) == MOIETY_OK)
        return;
    host_row_begin(what, "arena");
    host_row_fail(moiety_last_error_message());
}

bool host_buffer_alloc(moiety_host *arena, size_t size_bytes,
                       struct host_buffer *out)
{
    *out = (struct host_buffer){.arena = arena, .size_bytes = size_bytes};
    if (arena)
        return moiety_host_alloc(arena, size_bytes, MOIETY_HOST_CPU,
                                 &out->address) == MOIETY_OK;
    return MOIETYI_CALL(host_driver(), cuMemHostAlloc,
                        (&out->address, size_bytes,
                         CU_MEMHOSTALLOC_PORTABLE |
                             CU_MEMHOSTALLOC_DEVICEMAP)) == MOIETY_OK;
}

/* A block that does not go back is in use when its arena ends, which would not
 * be seen. */
void host_buffer_free(struct host_buffer *buffer)
{
    if (buffer->address && !buffer->arena)
        (void)host_driver()->cuMemFreeHost(buffer->address);
    else if (buffer->address &&
             moiety_host_free(buffer->arena, buffer->address,
                              MOIETY_STREAM_DONE) != MOIETY_OK)
        (void)fprintf(stderr, "host: %s\n", moiety_last_error_message());
    buffer->address = NULL;
}

uint64_t host_fill_word(uint64_t tag, size_t offset_bytes)
{
    return (tag << 32) + offset_bytes / sizeof(uint64_t);
}

void host_fill(void *address, size_t size_bytes, uint64_t tag)
{
    uint64_t *words = address;
    uint64_t first = host_fill_word(tag, 0);
    for (size_t i = 0; i < size_bytes / sizeof(*words); i++)
        words[i] = first + i;
}

size_t host_count_wrong(const void *address, size_t size_bytes, uint64_t tag)
{
    const uint64_t *words = address;
    uint64_t first = host_fill_word(tag, 0);
    size_t wrong = 0;
    for (size_t i = 0; i < size_bytes / sizeof(*words); i++)
        wrong += words[i] != first + i;
    return wrong * sizeof(*words);
}

const char *host_check_copies(void *address, size_t size_bytes,
                              CUdeviceptr there)
{
    static char reason[64];
    const struct moietyi_driver *driver = host_driver();
    CUstream stream = bench_device_streams[0];
    host_fill(address, size_bytes, CHECK_TAG);
    if (MOIETYI_CALL(driver, cuMemcpyHtoDAsync,
                     (there, address, size_bytes, stream)) != MOIETY_OK ||
        MOIETYI_CALL(driver, cuStreamSynchronize, (stream)) != MOIETY_OK)
        return moiety_last_error_message();
    memset(address, 0, size_bytes);
    if (MOIETYI_CALL(driver, cuMemcpyDtoHAsync,
                     (address, there, size_bytes, stream)) != MOIETY_OK ||
        MOIETYI_CALL(driver, cuStreamSynchronize, (stream)) != MOIETY_OK)
        return moiety_last_error_message();
    size_t wrong = host_count_wrong(address, size_bytes, CHECK_TAG);
    (void)snprintf(reason, sizeof(reason), "%zu of %zu bytes came back wrong",
                   wrong, size_bytes);
    return wrong ? reason : NULL;
}

int host_node_of(void *address)
{
    int node = -1;
    if (syscall(SYS_get_mempolicy, &node, NULL, 0, address,
                MPOL_F_NODE | MPOL_F_ADDR) != 0)
        return -1;
    return node;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the parts have in common on the device: arenas, buffers of either kind,
 * and the proof that bytes went there and came back. Streams and the context
 * are bench/base/device.h's. After a failure moiety_last_error_message() says
 * what.
 */
#ifndef MOIETY_BENCH_HOST_RIG_H_
#define MOIETY_BENCH_HOST_RIG_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <moiety/host.h>

#include "pool/driver/driver_table.h"

/* The driver, which is open. */
const struct moietyi_driver *host_driver(void);

/* Device memory. */
bool host_device_alloc(size_t size_bytes, CUdeviceptr *out);
void host_device_free(CUdeviceptr address);

/* NULL: a row of `what` says why there is none. */
moiety_host *host_arena_open(const char *what,
                             const moiety_host_options *options);
/* An arena that does not end has a row too. */
void host_arena_close(const char *what, moiety_host *arena);

/* Pinned memory: of the arena, or of the driver where that is NULL. */
struct host_buffer {
    moiety_host *arena;
    void *address; /* NULL: there is none */
    size_t size_bytes;
};

bool host_buffer_alloc(moiety_host *arena, size_t size_bytes,
                       struct host_buffer *out);
/* No work may be pending on it. */
void host_buffer_free(struct host_buffer *buffer);

/* Words that differ from their neighbours and from those of another `tag`. */
void host_fill(void *address, size_t size_bytes, uint64_t tag);
/* The word at this offset, a multiple of 8, of what host_fill() wrote. */
uint64_t host_fill_word(uint64_t tag, size_t offset_bytes);
/* Bytes of words that are not what host_fill() wrote. */
size_t host_count_wrong(const void *address, size_t size_bytes, uint64_t tag);

/* Fills the memory, copies it to the device, clears it, copies it back and
 * looks. NULL, or what was wrong. */
const char *host_check_copies(void *address, size_t size_bytes,
                              CUdeviceptr there);

/* The node that the kernel says an address is on; -1: it does not say. */
int host_node_of(void *address);

#endif

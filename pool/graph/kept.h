/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Contents of device memory that is away: in pinned memory of the host, by pieces
 * of at most 256 MiB, one behind the other. It stays for the next time, as the
 * driver takes longer to pin memory than to fill it.
 */
#ifndef BINADE_POOL_GRAPH_KEPT_H_
#define BINADE_POOL_GRAPH_KEPT_H_

#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"
#include "binade/types.h"
#include "pool/driver/context.h"

struct binadei_kept_chunk;

/* Zeroes: there is none. In its owner's storage, one thread at a time. */
struct binadei_kept {
    struct binadei_context *context;
    struct binadei_kept_chunk *first;
    uint64_t size_bytes;
};

/* Where some contents are; a multiple of 2 MiB, as is the place. */
struct binadei_kept_piece {
    binade_devptr address;
    uint64_t size_bytes;
    uint64_t kept_at;
};

/* Room for so much. The context outlives what is kept. BINADE_OK, or as the
 * driver or the host says; what was added before stays. */
BINADE_MUST_USE binade_status
binadei_kept_reserve(struct binadei_kept *kept, struct binadei_context *context,
                     uint64_t size_bytes);
/* Copies to the host, or back; waits for the copies, on a stream of their own, and
 * for nothing else. BINADE_OK, or what the driver said: then some may have been
 * copied. */
BINADE_MUST_USE binade_status binadei_kept_copy(
    const struct binadei_kept *kept, const struct binadei_kept_piece *pieces,
    uint32_t count, bool is_back);
/* Gives all of it back. */
void binadei_kept_end(struct binadei_kept *kept);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Contents of device memory that is away: in pinned memory of the host, by pieces
 * of at most 256 MiB, one behind the other. It stays for the next time, as the
 * driver takes longer to pin memory than to fill it.
 */
#ifndef MOIETY_POOL_GRAPH_KEPT_H_
#define MOIETY_POOL_GRAPH_KEPT_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/types.h"
#include "pool/driver/context.h"

struct moietyi_kept_chunk;

/* Zeroes: there is none. In its owner's storage, one thread at a time. */
struct moietyi_kept {
    struct moietyi_context *context;
    CUstream stream; /* of the copies; NULL: none so far */
    struct moietyi_kept_chunk *first;
    uint64_t size_bytes;
};

/* Where some contents are; a multiple of 2 MiB, as is the place. In a list. */
struct moietyi_kept_piece {
    const struct moietyi_kept_piece *next;
    moiety_devptr address;
    uint64_t size_bytes;
    uint64_t kept_at;
};

/* Room for so much. The context outlives what is kept. MOIETY_OK, or as the
 * driver or the host says; what was added before stays. */
MOIETY_MUST_USE moiety_status
moietyi_kept_reserve(struct moietyi_kept *kept, struct moietyi_context *context,
                     uint64_t size_bytes);
/* Copies to the host, or back; waits for the copies, on a stream of their own, and
 * for nothing else. MOIETY_OK, or what the driver said: then some may have been
 * copied, and none is under way, but where the context is lost by now. */
MOIETY_MUST_USE moiety_status
moietyi_kept_copy(struct moietyi_kept *kept,
                  const struct moietyi_kept_piece *first, bool is_back);
/* Gives all of it back. */
void moietyi_kept_end(struct moietyi_kept *kept);

#endif

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

/* Makes room for so many bytes. The context outlives it. MOIETY_OK, or the
 * error of the driver or the host; room added before stays. */
MOIETY_MUST_USE moiety_status
moietyi_kept_reserve(struct moietyi_kept *kept, struct moietyi_context *context,
                     uint64_t size_bytes);
/* Copies to the host, or back; waits only for the copies, on a stream of their
 * own. MOIETY_OK, or the driver's error: then some may have been copied, and no
 * copy is under way unless the context is lost. */
MOIETY_MUST_USE moiety_status
moietyi_kept_copy(struct moietyi_kept *kept,
                  const struct moietyi_kept_piece *first, bool is_back);
/* Gives all of it back. */
void moietyi_kept_end(struct moietyi_kept *kept);

#endif

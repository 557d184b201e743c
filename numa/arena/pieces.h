/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How large the pieces are in which an arena pins memory: each is a segment of its
 * pool, and registering one stalls other threads and processes.
 */
#ifndef MOIETY_NUMA_ARENA_PIECES_H_
#define MOIETY_NUMA_ARENA_PIECES_H_

#include "moiety/host.h"
#include "moiety/status.h"

/* Reservations are whole pages of pools. */
#define MOIETYI_PIECE_UNIT (UINT64_C(2) << 20)

static inline uint64_t moietyi_piece_round_up(uint64_t bytes)
{
    return (bytes + MOIETYI_PIECE_UNIT - 1) & ~(MOIETYI_PIECE_UNIT - 1);
}

/* Constant for an arena. In bytes, multiples of 2 MiB. */
struct moietyi_pieces {
    uint64_t first_bytes;
    uint64_t least_bytes; /* that a piece has for the sake of a short stall */
    uint64_t most_bytes;
    uint64_t stall_ns; /* that registering one may take */
};

/* Checks the options of pieces against each other. MOIETY_OK, or MOIETY_E_INVALID
 * with a message that names the field. */
MOIETY_MUST_USE moiety_status
moietyi_pieces_check(const moiety_host_options *options);
/* Derives the pieces from checked options. MOIETY_OK, or MOIETY_E_INVALID for blocks above the
 * limit, UINT64_MAX or 0 for none. */
MOIETY_MUST_USE moiety_status
moietyi_pieces_find(const moiety_host_options *options, uint64_t limit_bytes,
                    struct moietyi_pieces *out);

#endif

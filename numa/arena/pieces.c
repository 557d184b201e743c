/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/arena/pieces.h"

#include <inttypes.h>

#include "pool/base/failure.h"

#define MIB (UINT64_C(1) << 20)
#define NS_OF_MS UINT64_C(1000000)
#define STALL_MS 4U
#define STALL_MS_MAX 60000U
#define PIECE_BYTES (64 * MIB)
#define BLOCK_BYTES (8 * MIB)
/* Blocks that a piece has at least, so that its rest is small. */
#define BLOCKS 8U
#define BLOCK_BYTES_MAX ((UINT64_C(1) << 40) / BLOCKS)

moiety_status moietyi_pieces_check(const moiety_host_options *options)
{
    uint64_t largest = options->largest_segment_bytes;
    if (options->stall_ms > STALL_MS_MAX)
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option stall_ms: %u; accepted are 0 to %u",
                            (unsigned)options->stall_ms, STALL_MS_MAX);
    if (options->max_block_bytes > BLOCK_BYTES_MAX) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option max_block_bytes: %" PRIu64
                            "; accepted are 0 to 128G",
                            options->max_block_bytes);
    }
    if (largest && options->max_block_bytes > largest / BLOCKS) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option max_block_bytes: %" PRIu64
                            "; accepted is at most an eighth of "
                            "largest_segment_bytes, %" PRIu64,
                            options->max_block_bytes, largest);
    }
    return MOIETY_OK;
}

/* Pages of 1 GiB are pieces of it. */
static uint64_t most_bytes_of(const moiety_host_options *options)
{
    uint64_t bytes = options->largest_segment_bytes;
    if (bytes)
        return bytes;
    bytes = options->flags & MOIETY_HOST_HUGE_1GIB ? UINT64_C(1) << 30
                                                   : PIECE_BYTES;
    uint64_t blocks = moietyi_piece_round_up(BLOCKS * options->max_block_bytes);
    bytes = blocks > bytes ? blocks : bytes;
    return options->first_segment_bytes > bytes ? options->first_segment_bytes
                                                : bytes;
}

moiety_status moietyi_pieces_find(const moiety_host_options *options,
                                  uint64_t limit_bytes,
                                  struct moietyi_pieces *out)
{
    uint64_t block = options->max_block_bytes;
    if (limit_bytes && block > limit_bytes) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option max_block_bytes: %" PRIu64
                            "; accepted is no more than the arena may have, "
                            "%" PRIu64,
                            block, limit_bytes);
    }
    out->most_bytes = most_bytes_of(options);
    if (!block)
        block = out->most_bytes / BLOCKS < BLOCK_BYTES
                    ? out->most_bytes / BLOCKS
                    : BLOCK_BYTES;
    out->first_bytes = options->first_segment_bytes;
    if (!out->first_bytes)
        out->first_bytes = options->flags & MOIETY_HOST_HUGE_1GIB
                               ? out->most_bytes
                               : MOIETYI_PIECE_UNIT;
    out->least_bytes = moietyi_piece_round_up(block);
    if (out->least_bytes < out->first_bytes)
        out->least_bytes = out->first_bytes;
    out->stall_ns =
        NS_OF_MS * (options->stall_ms ? options->stall_ms : STALL_MS);
    return MOIETY_OK;
}

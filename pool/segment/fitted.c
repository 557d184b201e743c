/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that blocks fill. A block lies in one segment, so behind the last of
 * a segment a rest shorter than a block is left. Where the program set a limit it
 * wants that used up: a segment then has as many blocks like the one that is
 * asked for as leave the least, and the last segment has all that the limit
 * leaves. A segment has four such blocks at most, and an eighth of the limit, or
 * as much again as is reserved: a program that needs little of a large limit has
 * little.
 */
#include "pool/segment/state.h"

/* Blocks up to this are many to a segment, whatever it has. */
#define SMALL_BYTES (UINT64_C(1) << 20)
/* A rest of this part of a segment is none. */
#define LITTLE_PART 256U
/* What a segment has at most while little is reserved: of the limit, and of such
 * blocks. */
#define FEW_PART 8U
#define FEW_BLOCKS 4U
#define BLOCKS_MOST 256U

static uint64_t rest_of(uint64_t block_bytes, uint64_t pages)
{
    return pages * MOIETYI_PAGE_BYTES % block_bytes;
}

static uint64_t pages_for(uint64_t bytes)
{
    return (bytes + MOIETYI_PAGE_BYTES - 1) / MOIETYI_PAGE_BYTES;
}

/* Of a segment that requests share. */
static uint64_t most_shared_pages(const struct moietyi_segments *segments)
{
    return segments->largest_bytes / MOIETYI_PAGE_BYTES;
}

static uint64_t most_pages(const struct moietyi_segments *segments,
                           uint64_t block_bytes)
{
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    uint64_t bytes = moietyi_segments_limit(segments) / FEW_PART;
    if (bytes > FEW_BLOCKS * block_bytes)
        bytes = FEW_BLOCKS * block_bytes;
    if (bytes < reserved)
        bytes = reserved;
    uint64_t pages = bytes / MOIETYI_PAGE_BYTES;
    uint64_t shared = most_shared_pages(segments);
    return pages < shared ? pages : shared;
}

/* At least `least` pages, of which the smallest part is left. */
static uint64_t best_pages(uint64_t block_bytes, uint64_t least, uint64_t most)
{
    uint64_t best = least;
    uint64_t best_rest = rest_of(block_bytes, least);
    uint64_t first = least * MOIETYI_PAGE_BYTES / block_bytes + 1;
    for (uint64_t i = 0; i < BLOCKS_MOST; i++) {
        uint64_t pages = pages_for((first + i) * block_bytes);
        uint64_t rest = rest_of(block_bytes, pages);
        if (pages > most)
            break;
        if (rest * best < best_rest * pages) {
            best = pages;
            best_rest = rest;
        }
    }
    return best;
}

uint64_t moietyi_fitted_pages(const struct moietyi_segments *segments,
                              uint64_t block_bytes, uint64_t pages,
                              uint64_t left)
{
    if (!segments->is_limited || block_bytes <= SMALL_BYTES)
        return pages;
    if (rest_of(block_bytes, pages) > pages * MOIETYI_PAGE_BYTES / LITTLE_PART)
        pages =
            best_pages(block_bytes, pages, most_pages(segments, block_bytes));
    return left < 2 * pages && left <= most_shared_pages(segments) ? left
                                                                   : pages;
}

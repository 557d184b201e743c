/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which memory a request is served from, and the way from one to the other
 * when a block changes its size.
 */
#include "emm/nep49/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "binade/pool.h"
#include "emm/nep49/plain.h"

static bool is_for_plain(size_t size_bytes)
{
    return size_bytes < BINADE_NEP49_PINNED_BYTES_MIN;
}

static void *arena_alloc(binade_pool *pool, size_t size_bytes)
{
    binade_devptr address = 0;
    binade_status status =
        binade_alloc(pool, size_bytes, BINADE_STREAM_ANY, &address);
    /* The child of a fork inherits the handler, and did not ask for it. */
    if (status == BINADE_E_FORKED)
        return binadei_plain_alloc(size_bytes);
    return status == BINADE_OK ? (void *)(uintptr_t)address : NULL;
}

static void arena_free(binade_pool *pool, void *address)
{
    /* NumPy cannot be told; a pool that is destroyed or the parent's says so
     * and does nothing. */
    if (binade_free(pool, (uintptr_t)address, BINADE_STREAM_ANY) != BINADE_OK)
        return;
}

/* 0: it is no block of the arena's any more. */
static size_t room_of(binade_pool *pool, const void *address)
{
    size_t size_bytes = 0;
    if (binadei_is_plain(address))
        return binadei_plain_size(address);
    if (binade_usable_size(pool, (uintptr_t)address, &size_bytes) != BINADE_OK)
        return 0;
    return size_bytes;
}

/* Also false for a block that should be of the other memory. */
static bool is_good_for(const void *address, size_t room_bytes,
                        size_t size_bytes)
{
    return size_bytes <= room_bytes && size_bytes >= room_bytes / 2 &&
           is_for_plain(size_bytes) == binadei_is_plain(address);
}

void *binade_nep49_malloc(void *ctx, size_t size_bytes)
{
    return is_for_plain(size_bytes) ? binadei_plain_alloc(size_bytes)
                                    : arena_alloc(ctx, size_bytes);
}

void *binade_nep49_calloc(void *ctx, size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &total_bytes))
        return NULL;
    if (is_for_plain(total_bytes))
        return binadei_plain_alloc_zeroed(total_bytes);
    /* Pinned memory is used again, so it is never known to be zero. */
    void *address = arena_alloc(ctx, total_bytes);
    if (address)
        memset(address, 0, total_bytes);
    return address;
}

void binade_nep49_free(void *ctx, void *address, size_t size_bytes)
{
    (void)size_bytes;
    if (!address)
        return;
    if (binadei_is_plain(address))
        binadei_plain_free(address);
    else
        arena_free(ctx, address);
}

void *binade_nep49_realloc(void *ctx, void *address, size_t size_bytes)
{
    if (!address)
        return binade_nep49_malloc(ctx, size_bytes);
    size_t room_bytes = room_of(ctx, address);
    if (!room_bytes && !binadei_is_plain(address))
        return NULL;
    if (is_good_for(address, room_bytes, size_bytes))
        return address;
    void *moved = binade_nep49_malloc(ctx, size_bytes);
    if (!moved)
        return size_bytes <= room_bytes ? address : NULL;
    memcpy(moved, address, size_bytes < room_bytes ? size_bytes : room_bytes);
    binade_nep49_free(ctx, address, room_bytes);
    return moved;
}

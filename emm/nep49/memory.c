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

#include "emm/nep49/plain.h"
#include "moiety/pool.h"

static bool is_for_plain(size_t size_bytes)
{
    return size_bytes < MOIETY_NEP49_PINNED_BYTES_MIN;
}

static void *arena_alloc(moiety_pool *pool, size_t size_bytes)
{
    moiety_devptr address = 0;
    moiety_status status =
        moiety_alloc(pool, size_bytes, MOIETY_STREAM_ANY, &address);
    /* The child of a fork inherits the handler, and did not ask for it. */
    if (status == MOIETY_E_FORKED)
        return moietyi_plain_alloc(size_bytes);
    return status == MOIETY_OK ? (void *)(uintptr_t)address : NULL;
}

static void arena_free(moiety_pool *pool, void *address)
{
    /* NumPy cannot be told; a pool that is destroyed or the parent's says so
     * and does nothing. */
    if (moiety_free(pool, (uintptr_t)address, MOIETY_STREAM_ANY) != MOIETY_OK)
        return;
}

/* 0: it is no block of the arena's any more. */
static size_t room_of(moiety_pool *pool, const void *address)
{
    size_t size_bytes = 0;
    if (moietyi_is_plain(address))
        return moietyi_plain_size(address);
    if (moiety_usable_size(pool, (uintptr_t)address, &size_bytes) != MOIETY_OK)
        return 0;
    return size_bytes;
}

/* Also false for a block that should be of the other memory. */
static bool is_good_for(const void *address, size_t room_bytes,
                        size_t size_bytes)
{
    return size_bytes <= room_bytes && size_bytes >= room_bytes / 2 &&
           is_for_plain(size_bytes) == moietyi_is_plain(address);
}

void *moiety_nep49_malloc(void *ctx, size_t size_bytes)
{
    return is_for_plain(size_bytes) ? moietyi_plain_alloc(size_bytes)
                                    : arena_alloc(ctx, size_bytes);
}

void *moiety_nep49_calloc(void *ctx, size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &total_bytes))
        return NULL;
    if (is_for_plain(total_bytes))
        return moietyi_plain_alloc_zeroed(total_bytes);
    /* Pinned memory is used again, so it is never known to be zero. */
    void *address = arena_alloc(ctx, total_bytes);
    if (address)
        memset(address, 0, total_bytes);
    return address;
}

void moiety_nep49_free(void *ctx, void *address, size_t size_bytes)
{
    (void)size_bytes;
    if (!address)
        return;
    if (moietyi_is_plain(address))
        moietyi_plain_free(address);
    else
        arena_free(ctx, address);
}

void *moiety_nep49_realloc(void *ctx, void *address, size_t size_bytes)
{
    if (!address)
        return moiety_nep49_malloc(ctx, size_bytes);
    size_t room_bytes = room_of(ctx, address);
    if (!room_bytes && !moietyi_is_plain(address))
        return NULL;
    if (is_good_for(address, room_bytes, size_bytes))
        return address;
    void *moved = moiety_nep49_malloc(ctx, size_bytes);
    if (!moved)
        return size_bytes <= room_bytes ? address : NULL;
    memcpy(moved, address, size_bytes < room_bytes ? size_bytes : room_bytes);
    moiety_nep49_free(ctx, address, room_bytes);
    return moved;
}

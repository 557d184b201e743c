/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block of the C library with a header before what the caller gets. Where
 * the caller's part would begin at a multiple of 512 it begins 16 bytes later.
 */
#include "emm/nep49/plain.h"

#include <stdlib.h>

struct header {
    size_t size_bytes;    /* as asked for */
    size_t skipped_bytes; /* from malloc()'s address to this header */
};

/* So that what follows a header is aligned as malloc() aligns. */
_Static_assert(sizeof(struct header) == 16, "a header of 16 bytes");

#define SPARE_BYTES (2 * sizeof(struct header))

static struct header *header_of(const void *address)
{
    return (struct header *)(uintptr_t)address - 1;
}

static void *nep49_plain_settle(void *start, size_t size_bytes)
{
    struct header *header = start;
    if (!header)
        return NULL;
    header += !moietyi_is_plain(header + 1);
    header->size_bytes = size_bytes;
    header->skipped_bytes = (size_t)((char *)header - (char *)start);
    return header + 1;
}

void *moietyi_plain_alloc(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - SPARE_BYTES)
        return NULL;
    return nep49_plain_settle(malloc(size_bytes + SPARE_BYTES), size_bytes);
}

void *moietyi_plain_alloc_zeroed(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - SPARE_BYTES)
        return NULL;
    return nep49_plain_settle(calloc(1, size_bytes + SPARE_BYTES), size_bytes);
}

size_t moietyi_plain_size(const void *address)
{
    return header_of(address)->size_bytes;
}

void moietyi_plain_free(void *address)
{
    struct header *header = header_of(address);
    free((char *)header - header->skipped_bytes);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/stress/arena.h"

#include <stdlib.h>

#include "tests/truth/kit.h"

void arena_init(struct arena *arena, uint64_t size_bytes)
{
    kit_require(pthread_mutex_init(&arena->lock, NULL) == 0, "a mutex");
    MUST(cu.cuMemAlloc(&arena->allocation, size_bytes + ARENA_PAGE_BYTES));
    arena->base = (arena->allocation + ARENA_PAGE_BYTES - 1) /
                  ARENA_PAGE_BYTES * ARENA_PAGE_BYTES;
    arena->page_count = size_bytes / ARENA_PAGE_BYTES;
    arena->is_reserved = calloc(arena->page_count, sizeof(bool));
    kit_require(arena->is_reserved != NULL, "calloc");
}

void arena_fini(struct arena *arena)
{
    MUST(cu.cuMemFree(arena->allocation));
    free(arena->is_reserved);
}

/* The lowest run of free pages, or page_count. */
static uint64_t find_locked(const struct arena *arena, uint64_t pages)
{
    uint64_t run = 0;
    for (uint64_t page = 0; page < arena->page_count; page++) {
        run = arena->is_reserved[page] ? 0 : run + 1;
        if (run == pages)
            return page + 1 - pages;
    }
    return arena->page_count;
}

/* Returns how many of the pages were not `is_reserved` before. */
static uint64_t mark_locked(struct arena *arena, uint64_t first, uint64_t pages,
                            bool is_reserved)
{
    uint64_t changed = 0;
    for (uint64_t page = first; page < first + pages; page++) {
        changed += arena->is_reserved[page] != is_reserved;
        arena->is_reserved[page] = is_reserved;
    }
    return changed;
}

static moiety_status reserve(void *context, size_t size_bytes,
                             moiety_devptr *out)
{
    struct arena *arena = context;
    uint64_t pages = size_bytes / ARENA_PAGE_BYTES;
    pthread_mutex_lock(&arena->lock);
    uint64_t first = find_locked(arena, pages);
    bool is_found = first < arena->page_count;
    if (is_found) {
        (void)mark_locked(arena, first, pages, true);
        arena->reserved_bytes += size_bytes;
    }
    pthread_mutex_unlock(&arena->lock);
    if (!is_found)
        return MOIETY_E_NO_DEVICE_MEMORY;
    *out = arena->base + first * ARENA_PAGE_BYTES;
    return MOIETY_OK;
}

static moiety_status release(void *context, moiety_devptr address,
                             size_t size_bytes)
{
    struct arena *arena = context;
    uint64_t first = (address - arena->base) / ARENA_PAGE_BYTES;
    uint64_t pages = size_bytes / ARENA_PAGE_BYTES;
    pthread_mutex_lock(&arena->lock);
    if (first + pages > arena->page_count ||
        mark_locked(arena, first, pages, false) != pages)
        arena->bad_releases++;
    arena->reserved_bytes -= size_bytes;
    pthread_mutex_unlock(&arena->lock);
    return MOIETY_OK;
}

moiety_source arena_source(struct arena *arena)
{
    return (moiety_source){
        .struct_size = sizeof(moiety_source),
        .name = "arena",
        .context = arena,
        .reserve = reserve,
        .release = release,
    };
}

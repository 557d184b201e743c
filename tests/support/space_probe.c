/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/space_probe.h"

#include "pool/heap/heap.h"
#include "pool/heap/space.h"

_Static_assert(PROBE_PAGE_GRAINS == MOIETYI_PAGE_GRAINS, "as many");

struct moietyi_space *space_probe_create(uint32_t page_capacity)
{
    return moietyi_space_create(page_capacity);
}

void space_probe_destroy(struct moietyi_space *space)
{
    moietyi_space_destroy(space);
}

bool space_probe_take(struct moietyi_space *space, uint32_t grains,
                      uint64_t *out_start)
{
    const struct moietyi_view view = {.space = space};
    moietyi_grain out;
    if (!moietyi_view_take(&view, grains, 1, &out))
        return false;
    *out_start = out.index;
    return true;
}

bool space_probe_take_pages(struct moietyi_space *space, uint64_t pages,
                            uint64_t *out_start)
{
    const struct moietyi_view view = {.space = space};
    moietyi_grain out;
    if (!moietyi_view_take(&view, pages * MOIETYI_PAGE_GRAINS,
                           MOIETYI_PAGE_GRAINS, &out))
        return false;
    *out_start = out.index;
    return true;
}

bool space_probe_give(struct moietyi_space *space, uint64_t start,
                      uint64_t grains)
{
    return moietyi_space_give(space, moietyi_grain_at(start), grains);
}

uint64_t space_probe_free_from(const struct moietyi_space *space,
                               uint64_t start, uint64_t end)
{
    return moietyi_space_free_from(space, moietyi_grain_at(start),
                                   moietyi_grain_at(end));
}

uint32_t space_probe_longest_page_run(const struct moietyi_space *space)
{
    return moietyi_space_longest_page_run(space);
}

const char *space_probe_check(const struct moietyi_space *space,
                              uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_space_check(space, &at);
    *out_at = at.index;
    return broken;
}

struct moietyi_heap *heap_probe_create(struct moietyi_space *space)
{
    return moietyi_heap_create(space);
}

void heap_probe_destroy(struct moietyi_heap *heap)
{
    moietyi_heap_destroy(heap);
}

bool heap_probe_give(struct moietyi_heap *heap, uint64_t start, uint64_t grains)
{
    return moietyi_heap_give(heap, moietyi_grain_at(start), grains);
}

void heap_probe_close(struct moietyi_heap *heap)
{
    (void)moietyi_heap_close(heap);
}

void heap_probe_drain(struct moietyi_heap *heap)
{
    (void)moietyi_heap_drain(heap, MOIETYI_AGEING);
}

uint64_t heap_probe_free_from(const struct moietyi_heap *heap, uint64_t start,
                              uint64_t end)
{
    return moietyi_heap_free_from(heap, moietyi_grain_at(start),
                                  moietyi_grain_at(end));
}

static struct moietyi_view view_of_probe(const struct heap_probe_view *view)
{
    return (struct moietyi_view){.space = view->space,
                                 .heap = view->heap,
                                 .is_own_only = view->is_own_only};
}

bool heap_probe_view_take(const struct heap_probe_view *view, uint64_t grains,
                          uint64_t *out_start)
{
    const struct moietyi_view own = view_of_probe(view);
    moietyi_grain out;
    if (!moietyi_view_take_best(&own, grains, 1, &out))
        return false;
    *out_start = out.index;
    return true;
}

bool heap_probe_view_claim(const struct heap_probe_view *view, uint64_t start,
                           uint64_t grains)
{
    const struct moietyi_view own = view_of_probe(view);
    return moietyi_view_claim(&own, moietyi_grain_at(start), grains);
}

const char *heap_probe_check(const struct moietyi_heap *const *heap,
                             uint32_t count, uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_heap_check(heap, count, &at);
    *out_at = at.index;
    return broken;
}

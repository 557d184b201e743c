/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/standin/memory/span.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first span that ends after `address`; count when none does. */
static size_t lower_bound(const struct span_set *set, uint64_t address)
{
    size_t low = 0;
    size_t high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->spans[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void remove_at(struct span_set *set, size_t index)
{
    memmove(&set->spans[index], &set->spans[index + 1],
            (set->count - index - 1) * sizeof(set->spans[0]));
    set->count--;
}

static bool insert_at(struct span_set *set, size_t index, struct span span)
{
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? 2 * set->capacity : 16;
        struct span *spans =
            realloc(set->spans, capacity * sizeof(set->spans[0]));
        if (!spans)
            return false;
        set->spans = spans;
        set->capacity = capacity;
    }
    memmove(&set->spans[index + 1], &set->spans[index],
            (set->count - index) * sizeof(set->spans[0]));
    set->spans[index] = span;
    set->count++;
    return true;
}

/* Cuts [base, end) out of the span at `index`. */
static void span_cut(struct span_set *set, size_t index, uint64_t base,
                     uint64_t end)
{
    struct span *span = &set->spans[index];
    struct span tail = {end, span->end};
    if (base == span->base && end == span->end) {
        remove_at(set, index);
    } else if (base == span->base) {
        span->base = end;
    } else {
        span->end = base;
        if (tail.base < tail.end)
            (void)insert_at(set, index + 1, tail); /* lost: see span_give() */
    }
}

bool span_take(struct span_set *set, uint64_t size_bytes, uint64_t alignment,
               uint64_t *out_base)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct span *span = &set->spans[i];
        uint64_t base = (span->base + alignment - 1) & ~(alignment - 1);
        if (base > span->end || span->end - base < size_bytes)
            continue;
        span_cut(set, i, base, base + size_bytes);
        *out_base = base;
        return true;
    }
    return false;
}

void span_take_exactly(struct span_set *set, uint64_t base, uint64_t end)
{
    span_cut(set, lower_bound(set, base), base, end);
}

static bool may_merge_at(const struct span_set *set, uint64_t address)
{
    return !set->boundary || address % set->boundary != 0;
}

void span_give(struct span_set *set, uint64_t base, uint64_t end)
{
    size_t index = lower_bound(set, base);
    bool joins_before = index > 0 && set->spans[index - 1].end == base &&
                        may_merge_at(set, base);
    bool joins_after = index < set->count && set->spans[index].base == end &&
                       may_merge_at(set, end);
    if (joins_before && joins_after) {
        set->spans[index - 1].end = set->spans[index].end;
        remove_at(set, index);
    } else if (joins_before) {
        set->spans[index - 1].end = end;
    } else if (joins_after) {
        set->spans[index].base = base;
    } else {
        (void)insert_at(set, index, (struct span){base, end});
    }
}

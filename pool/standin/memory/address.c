/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tables of address ranges, and the addresses themselves: how they are taken
 * from the process and given back.
 */
#include "pool/standin/memory/address.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Retired reservations that are kept back from the process. */
#define RETIRED_MAX 64

struct address_table address_live;
struct address_table address_reserved;

static uint64_t next_id = 1;

static struct retired {
    uint64_t base;
    size_t size_bytes; /* 0: slot unused */
    unsigned char *shadow;
} retired[RETIRED_MAX];
static size_t retired_next; /* the slot to use next: the oldest one */

size_t address_index(const struct address_table *table, uint64_t address)
{
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->slots[middle].base > address)
            high = middle;
        else
            low = middle + 1;
    }
    if (low > 0 && address_end(table->slots[low - 1].range) > address)
        return low - 1;
    return low;
}

static bool address_make_room(struct address_table *table)
{
    if (table->count < table->capacity)
        return true;
    size_t capacity = table->capacity ? 2 * table->capacity : 64;
    struct address_slot *slots =
        realloc(table->slots, capacity * sizeof(table->slots[0]));
    if (!slots)
        return false;
    table->slots = slots;
    table->capacity = capacity;
    return true;
}

struct address_range *address_add(struct address_table *table,
                                  const struct address_range *range)
{
    struct address_range *copy = malloc(sizeof(*copy));
    if (!copy || !address_make_room(table)) {
        free(copy);
        return NULL;
    }
    *copy = *range;
    copy->id = next_id++;
    size_t index = address_index(table, copy->base);
    memmove(&table->slots[index + 1], &table->slots[index],
            (table->count - index) * sizeof(table->slots[0]));
    table->slots[index] = (struct address_slot){copy->base, copy};
    table->count++;
    return copy;
}

void address_remove(struct address_table *table, struct address_range *range)
{
    size_t index = address_index(table, range->base);
    memmove(&table->slots[index], &table->slots[index + 1],
            (table->count - index - 1) * sizeof(table->slots[0]));
    table->count--;
    free(range);
}

struct address_range *address_find(const struct address_table *table,
                                   uint64_t address)
{
    size_t index = address_index(table, address);
    if (index == table->count || table->slots[index].base > address)
        return NULL;
    return table->slots[index].range;
}

bool address_overlaps(const struct address_table *table, uint64_t base,
                      size_t size_bytes)
{
    size_t index = address_index(table, base);
    return index < table->count &&
           (table->slots[index].base < base ||
            table->slots[index].base - base < size_bytes);
}

/* Any place: takes more than is wanted and gives the ends back. */
static uint64_t address_map_aligned(size_t size_bytes, size_t alignment)
{
    size_t slack_bytes = alignment;
    if (size_bytes > SIZE_MAX - slack_bytes)
        return 0;
    unsigned char *place =
        mmap(NULL, size_bytes + slack_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return 0;
    size_t before = (alignment - (uintptr_t)place % alignment) % alignment;
    size_t after = slack_bytes - before;
    if (before)
        munmap(place, before);
    if (after)
        munmap(place + before + size_bytes, after);
    return (uintptr_t)place + before;
}

static uint64_t map_at_hint(size_t size_bytes, uint64_t hint)
{
    void *wanted = (void *)(uintptr_t)hint;
    void *place =
        mmap(wanted, size_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
             -1, 0);
    if (place == MAP_FAILED)
        return 0;
    if (place == wanted)
        return hint;
    munmap(place, size_bytes); /* a kernel that takes the flag for a hint */
    return 0;
}

static void drop_retired(struct retired *slot)
{
    if (slot->size_bytes) {
        munmap((void *)(uintptr_t)slot->base, slot->size_bytes);
        munmap(slot->shadow, slot->size_bytes);
    }
    slot->size_bytes = 0;
}

/* A program that asks for an address which it has just freed gets it. */
static void drop_retired_within(uint64_t base, size_t size_bytes)
{
    for (size_t i = 0; i < RETIRED_MAX; i++)
        if (retired[i].base < base + size_bytes &&
            base < retired[i].base + retired[i].size_bytes)
            drop_retired(&retired[i]);
}

static uint64_t try_reserve(size_t size_bytes, size_t alignment, uint64_t hint,
                            unsigned char **out_shadow)
{
    uint64_t base = 0;
    if (hint && hint % alignment == 0) {
        drop_retired_within(hint, size_bytes);
        base = map_at_hint(size_bytes, hint);
    }
    if (!base)
        base = address_map_aligned(size_bytes, alignment);
    if (!base || !out_shadow)
        return base;
    void *shadow = mmap(NULL, size_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shadow == MAP_FAILED) {
        munmap((void *)(uintptr_t)base, size_bytes);
        return 0;
    }
    *out_shadow = shadow;
    return base;
}

/* What was freed is kept as long as there are addresses. */
uint64_t address_reserve(size_t size_bytes, size_t alignment, uint64_t hint,
                         unsigned char **out_shadow)
{
    uint64_t base = try_reserve(size_bytes, alignment, hint, out_shadow);
    for (size_t i = 0; !base && i < RETIRED_MAX; i++) {
        size_t at = (retired_next + i) % RETIRED_MAX; /* the oldest first */
        if (!retired[at].size_bytes)
            continue;
        drop_retired(&retired[at]);
        base = try_reserve(size_bytes, alignment, hint, out_shadow);
    }
    return base;
}

void address_make_scratch(unsigned char *shadow, size_t size_bytes)
{
    (void)mmap(shadow, size_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void address_retire(uint64_t base, size_t size_bytes, unsigned char *shadow)
{
    struct retired *slot = &retired[retired_next];
    retired_next = (retired_next + 1) % RETIRED_MAX;
    drop_retired(slot);
    *slot = (struct retired){base, size_bytes, shadow};
    address_make_scratch(shadow, size_bytes);
}

bool address_is_retired(uint64_t address)
{
    for (size_t i = 0; i < RETIRED_MAX; i++)
        if (address - retired[i].base < retired[i].size_bytes)
            return true;
    return false;
}

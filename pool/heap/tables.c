/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The tables of an offset space, of which zero is a valid state.
 */
#include "pool/base/table.h"
#include "pool/heap/state.h"

#define GROUP_PARTS (1U << (MOIETYI_GROUP_ORDER - MOIETYI_PART_ORDER))
#define PART_BYTES (MOIETYI_PART_RECORDS * sizeof(struct moietyi_extent))
#define GROUP_EDGES_BYTES (sizeof(uint32_t) << MOIETYI_GROUP_ORDER)
#define GROUP_BYTES (GROUP_EDGES_BYTES + GROUP_PARTS * PART_BYTES)

struct layout {
    char *base;   /* NULL while only sizes are added up */
    size_t bytes; /* so far */
};

/* The next `count` items of `item_bytes`, on a page of their own. */
static void *space_place(struct layout *layout, uint64_t count,
                         size_t item_bytes)
{
    const size_t alignment = 4096;
    size_t at = layout->bytes;
    layout->bytes += (count * item_bytes + alignment - 1) & ~(alignment - 1);
    return layout->base ? layout->base + at : NULL;
}

static uint32_t groups_of(const struct moietyi_space *space)
{
    return (space->page_capacity + MOIETYI_GROUP_PAGES - 1) /
           MOIETYI_GROUP_PAGES;
}

static void space_lay_out(struct moietyi_space *space, struct layout *layout)
{
    uint64_t pages = space->page_capacity;
    uint64_t grains = pages * MOIETYI_PAGE_GRAINS;
    uint64_t groups = groups_of(space);
    space->covers = space_place(layout, pages, sizeof(*space->covers));
    space->groups = space_place(layout, groups, sizeof(*space->groups));
    space->parts =
        space_place(layout, groups * GROUP_PARTS + MOIETYI_HAND_PARTS,
                    sizeof(*space->parts));
    space->classes = space_place(layout, grains, 1);
    space->run_grains = space_place(layout, pages * MOIETYI_PAGE_CHUNKS,
                                    sizeof(*space->run_grains));
}

bool moietyi_tables_reserve(struct moietyi_space *space)
{
    struct layout layout = {NULL, 0};
    space_lay_out(space, &layout);
    space->table_bytes = layout.bytes;
    space->table = moietyi_table_reserve(layout.bytes);
    if (!space->table)
        return false;
    layout = (struct layout){space->table, 0};
    space_lay_out(space, &layout);
    return true;
}

/* --- parts --- */

static void *reserve_part(const struct moietyi_space *space, size_t bytes)
{
    void *table = moietyi_table_reserve(bytes);
    if (table && space->is_huge)
        moietyi_table_prefer_huge(table, bytes);
    return table;
}

/* Numbers for `count` parts of records; owners' lock held. False: there are none. */
static bool number_parts(struct moietyi_space *space,
                         struct moietyi_extent *records, unsigned count)
{
    if (space->part_end + count > MOIETYI_PARTS_MAX)
        return false;
    if (space->part_end == 0)
        space->extents = records;
    for (unsigned i = 0; i < count; i++) /* relaxed: see state.h. */
        atomic_store_explicit(&space->parts[space->part_end++],
                              records + (size_t)i * MOIETYI_PART_RECORDS,
                              memory_order_relaxed);
    return true;
}

static _Atomic uint32_t *space_group_at(const struct moietyi_space *space,
                                        uint32_t group)
{
    /* relaxed: see state.h. */
    return atomic_load_explicit(&space->groups[group], memory_order_relaxed);
}

static bool space_make_group(struct moietyi_space *space, uint32_t group)
{
    if (space_group_at(space, group))
        return true;
    char *table = reserve_part(space, GROUP_BYTES);
    if (!table)
        return false;
    moietyi_lock(&space->owners_lock);
    bool is_other = space_group_at(space, group) != NULL;
    bool is_new =
        !is_other &&
        number_parts(space,
                     (struct moietyi_extent *)(table + GROUP_EDGES_BYTES),
                     GROUP_PARTS);
    if (is_new) /* relaxed: see state.h. */
        atomic_store_explicit(&space->groups[group], (_Atomic uint32_t *)table,
                              memory_order_relaxed);
    moietyi_unlock(&space->owners_lock);
    if (!is_new)
        moietyi_table_release(table, GROUP_BYTES);
    return is_new || is_other;
}

bool moietyi_space_cover(struct moietyi_space *space, moietyi_page first,
                         uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    for (uint32_t i = first.index / MOIETYI_GROUP_PAGES;
         (uint64_t)i * MOIETYI_GROUP_PAGES < end; i++)
        if (!space_make_group(space, i))
            return false;
    return true;
}

bool moietyi_hand_reserve(struct moietyi_space *space, uint32_t owner)
{
    void **at = &space->hands[owner / MOIETYI_HAND_OWNERS];
    moietyi_lock(&space->owners_lock);
    bool is_there = *at != NULL;
    moietyi_unlock(&space->owners_lock);
    void *table = is_there ? NULL : reserve_part(space, PART_BYTES);
    if (!table)
        return is_there;
    moietyi_lock(&space->owners_lock);
    bool is_new = !*at && number_parts(space, table, 1);
    if (is_new)
        *at = table;
    is_there = *at != NULL;
    moietyi_unlock(&space->owners_lock);
    if (!is_new)
        moietyi_table_release(table, PART_BYTES);
    return is_there;
}

void moietyi_tables_release(const struct moietyi_space *space)
{
    for (uint32_t i = 0; i < MOIETYI_HAND_PARTS; i++)
        if (space->hands[i])
            moietyi_table_release(space->hands[i], PART_BYTES);
    for (uint32_t i = 0; space->table && i < groups_of(space); i++)
        if (space_group_at(space, i))
            moietyi_table_release((void *)space_group_at(space, i),
                                  GROUP_BYTES);
    if (space->table)
        moietyi_table_release(space->table, space->table_bytes);
}

void moietyi_space_prefer_huge(struct moietyi_space *space)
{
    moietyi_table_prefer_huge(space->table, space->table_bytes);
    moietyi_table_prefer_huge(space->hands[0], PART_BYTES);
    space->is_huge = true;
}

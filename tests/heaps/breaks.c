/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Four pages. Page 0 is held, but for two extents of one stream, of 32 and 33
 * grains with a grain between them, which are fresh, and one of 70 that is closed.
 * What is done begins in page 1 and ends with the space.
 */
#include "tests/heaps/breaks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/heap/records.h"
#include "tests/support/tools/failing_memory.h"

#define PAGES 4U
#define FIRST 100U
#define SECOND 133U
#define CLOSED 1000U
#define DONE (MOIETYI_PAGE_GRAINS + 5)
#define ANYWHERE UINT64_MAX /* what is broken is of no grain */

struct tables {
    struct moietyi_space *space;
    struct moietyi_heap *heap;
    struct moietyi_bins *bins; /* of what is fresh */
    moietyi_extent_id first;
    moietyi_extent_id second;
    moietyi_extent_id closed;
    moietyi_extent_id done;
};

static moietyi_extent_id at(const struct tables *tables, uint64_t grain)
{
    return moietyi_edge_at(tables->space, grain);
}

static void set_grains(struct tables *tables, moietyi_extent_id id,
                       uint64_t grains)
{
    moietyi_extent_of(tables->space, id)->grains = grains;
}

static void set_where(struct tables *tables, moietyi_extent_id id,
                      uint64_t start, uint32_t owner, uint32_t age)
{
    moietyi_extent_of(tables->space, id)->where =
        moietyi_where(start, owner, age);
}

/* --- the breaks --- */

static void go_beyond_the_space(struct tables *tables)
{
    set_grains(tables, tables->done, PAGES * MOIETYI_PAGE_GRAINS - DONE + 1);
}

static void have_no_grains(struct tables *tables)
{
    moietyi_bins_remove(tables->bins, tables->space, tables->first,
                        moietyi_bin_of(32));
    moietyi_bins_insert(tables->bins, tables->space, tables->first, 0);
    set_grains(tables, tables->first, 0);
}

static void have_another_owner(struct tables *tables)
{
    set_where(tables, tables->first, FIRST, MOIETYI_OWNER_DONE,
              moietyi_fresh_of(tables->heap));
}

static void have_another_age(struct tables *tables)
{
    set_where(tables, tables->first, FIRST, tables->heap->owner,
              moietyi_fresh_of(tables->heap) ^ 1);
}

static void be_no_extent(struct tables *tables)
{
    moietyi_extent_of(tables->space, tables->closed)->where = 0;
}

static void lose_first_edge(struct tables *tables)
{
    *moietyi_edge_of(tables->space, FIRST) = tables->second;
}

static void lose_last_edge(struct tables *tables)
{
    *moietyi_edge_of(tables->space, CLOSED + 69) = 0;
}

static void lose_cover(struct tables *tables)
{
    tables->space->covers[3] = 0;
}

static void lose_cover_of_next_page(struct tables *tables)
{
    tables->space->covers[2] = tables->first;
}

static void be_apart(struct tables *tables)
{
    *moietyi_edge_of(tables->space, SECOND - 1) = tables->first;
    set_grains(tables, tables->first, SECOND - FIRST);
}

static void be_in_another_bin(struct tables *tables)
{
    set_grains(tables, tables->first, 36);
}

static void break_list(struct tables *tables)
{
    moietyi_extent_of(tables->space, tables->second)->previous = tables->closed;
    moietyi_extent_of(tables->space, tables->first)->previous = tables->closed;
}

static void have_bit_of_empty_bin(struct tables *tables)
{
    tables->bins->used[4] |= 1;
}

static void lack_bit(struct tables *tables)
{
    unsigned bin = moietyi_bin_of(32);
    tables->bins->used[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

static void count_too_much(struct tables *tables)
{
    tables->heap->grains[moietyi_fresh_of(tables->heap)] += 1;
}

static void count_too_little(struct tables *tables)
{
    tables->space->done->grains[0] -= 1;
}

static void start_a_block(struct tables *tables)
{
    tables->space->classes[FIRST] = 7;
}

static void start_a_block_within(struct tables *tables)
{
    tables->space->classes[2 * MOIETYI_PAGE_GRAINS + 77] = 7;
}

static const struct {
    const char *name;
    void (*run)(struct tables *tables);
    const char *says;
    uint64_t where;
} breaks[] = {
    {"ExtentBeyondTheSpace", go_beyond_the_space, "H1:", DONE},
    {"ExtentWithoutGrains", have_no_grains, "H1:", FIRST},
    {"WordOfAnotherOwner", have_another_owner, "H2:", FIRST},
    {"WordOfAnotherAge", have_another_age, "H2:", FIRST},
    {"WordOfNoExtent", be_no_extent, "H2:", 0},
    {"FirstEdge", lose_first_edge, "H3: an edge", FIRST},
    {"LastEdge", lose_last_edge, "H3: an edge", CLOSED},
    {"CoverOfLastPage", lose_cover, "H3: a page", DONE},
    {"CoverOfNextPage", lose_cover_of_next_page, "H3: a page", DONE},
    {"NeighboursApart", be_apart, "H4:", FIRST},
    {"AnotherBin", be_in_another_bin, "H5: an extent", FIRST},
    {"List", break_list, "H5: a list", 0},
    {"BitOfEmptyBin", have_bit_of_empty_bin, "H5: a bin's bit", ANYWHERE},
    {"NoBit", lack_bit, "H5: a bin's bit", 0},
    {"SumTooLarge", count_too_much, "H5: a sum", ANYWHERE},
    {"SumTooSmall", count_too_little, "H5: a sum", ANYWHERE},
    {"BlockAtTheStart", start_a_block, "H6:", FIRST},
    {"BlockWithin", start_a_block_within, "H6:", 2 * MOIETYI_PAGE_GRAINS + 77},
};

/* --- the space --- */

/* False: it is not as the head of this file says. */
static bool set_up(struct tables *tables)
{
    tables->space = moietyi_space_create(PAGES);
    if (!tables->space)
        return false;
    const struct moietyi_view done = {tables->space, NULL, false};
    tables->heap = moietyi_heap_create(tables->space);
    if (!tables->heap)
        return false;
    bool is_right =
        moietyi_space_add(tables->space, (moietyi_page){0}, PAGES) &&
        moietyi_view_claim(&done, moietyi_grain_at(0), DONE) &&
        moietyi_heap_give(tables->heap, moietyi_grain_at(CLOSED), 70) &&
        moietyi_heap_close(tables->heap) == 70 &&
        moietyi_heap_give(tables->heap, moietyi_grain_at(FIRST), 32) &&
        moietyi_heap_give(tables->heap, moietyi_grain_at(SECOND), 33);
    tables->bins = &tables->heap->bins[moietyi_fresh_of(tables->heap)];
    tables->first = at(tables, FIRST);
    tables->second = at(tables, SECOND);
    tables->closed = at(tables, CLOSED);
    tables->done = at(tables, DONE);
    return is_right;
}

static const char *check(const struct tables *tables, uint64_t *where)
{
    /* A pool's streams have no heap before their first free. */
    const struct moietyi_heap *const heap[] = {NULL, tables->heap};
    moietyi_grain grain = {0};
    const char *says = moietyi_heap_check(heap, 2, &grain);
    if (!says)
        says = moietyi_space_check(tables->space, &grain);
    *where = grain.index;
    return says;
}

size_t heap_breaks_count(void)
{
    return sizeof(breaks) / sizeof(breaks[0]);
}

const char *heap_breaks_name(size_t index)
{
    return breaks[index].name;
}

const char *heap_breaks_run(size_t index)
{
    static char message[160];
    struct tables tables;
    uint64_t where = 0;
    memset(&tables, 0, sizeof(tables));
    message[0] = 0;
    if (!set_up(&tables) || check(&tables, &where)) {
        (void)snprintf(message, sizeof(message), "the space is broken before");
    } else {
        breaks[index].run(&tables);
        const char *says = check(&tables, &where);
        if (!says ||
            strncmp(says, breaks[index].says, strlen(breaks[index].says)) !=
                0 ||
            (breaks[index].where != ANYWHERE && where != breaks[index].where))
            (void)snprintf(message, sizeof(message),
                           "must say %s of %llu, says %s of %llu",
                           breaks[index].says,
                           (unsigned long long)breaks[index].where,
                           says ? says : "nothing", (unsigned long long)where);
    }
    free(tables.heap);
    moietyi_space_destroy(tables.space);
    return message[0] ? message : NULL;
}

/* --- tables in parts --- */

#define MANY_OWNERS (MOIETYI_HAND_OWNERS + 6)
#define MANY_PAGES 20U /* half of them in the first group */
#define MANY_FIRST (MOIETYI_GROUP_PAGES - MANY_PAGES / 2)

/* Each grain is an extent, as its neighbours are another owner's. */
static bool give_each_grain(struct moietyi_heap *const *owners, uint64_t start,
                            uint64_t end)
{
    for (uint64_t at = start; at < end; at++)
        if (!moietyi_heap_give(owners[at % 2], moietyi_grain_at(at), 1))
            return false;
    return true;
}

static const char *fill_parts(struct moietyi_space *space,
                              struct moietyi_heap *const *owners)
{
    const struct moietyi_view done = {space, NULL, false};
    const uint64_t start = (uint64_t)MANY_FIRST * MOIETYI_PAGE_GRAINS;
    const uint64_t grains = (uint64_t)MANY_PAGES * MOIETYI_PAGE_GRAINS;
    moietyi_grain at;
    if (moietyi_edge_at(space, start) || moietyi_edge_at(space, start + grains))
        return "a group that has no pages names an extent";
    if (!moietyi_space_add(space, (moietyi_page){MANY_FIRST}, MANY_PAGES) ||
        !moietyi_view_claim(&done, moietyi_grain_at(start), grains))
        return "the pages are not there";
    if (!give_each_grain(owners, start, start + grains))
        return "a grain is not taken back";
    if (atomic_load_explicit(&space->extent_end, memory_order_relaxed) <=
        MOIETYI_PART_RECORDS)
        return "one part of records was enough";
    const char *says =
        moietyi_heap_check((const struct moietyi_heap *const *)owners, 2, &at);
    for (unsigned i = 0; i < 2; i++)
        (void)moietyi_heap_drain(owners[i], MOIETYI_FRESH);
    if (!says)
        says = moietyi_space_check(space, &at);
    if (!says && moietyi_space_longest_page_run(space) != MANY_PAGES)
        says = "the pages are not whole again";
    return says;
}

const char *heap_parts_run(void)
{
    struct moietyi_heap *owners[MANY_OWNERS] = {NULL};
    struct moietyi_space *space = moietyi_space_create(2 * MOIETYI_GROUP_PAGES);
    const char *says = NULL;
    if (!space)
        return "no memory";
    for (unsigned i = 0; i < MANY_OWNERS && !says; i++)
        if (!(owners[i] = moietyi_heap_create(space)))
            says = "an owner has no hand";
    if (!says)
        says = fill_parts(space, &owners[MANY_OWNERS - 2]);
    for (unsigned i = 0; i < MANY_OWNERS; i++)
        moietyi_heap_destroy(owners[i]);
    moietyi_space_destroy(space);
    return says;
}

/* The heaps before are the first part's. */
const char *heap_failures_run(void)
{
    struct moietyi_heap *owners[MOIETYI_HAND_OWNERS] = {NULL};
    struct moietyi_space *space = moietyi_space_create(1);
    const char *says = NULL;
    unsigned count = 0;
    if (!space)
        return "no memory";
    while (count < MOIETYI_HAND_OWNERS - 1 - MOIETYI_OWNER_DONE && !says)
        if (!(owners[count++] = moietyi_heap_create(space)))
            says = "an owner has no hand";
    for (uint32_t i = 0; i < 2 * MOIETYI_OWNERS_MAX && !says; i++) {
        failing_memory_arm(i < MOIETYI_OWNERS_MAX ? 1 : 2);
        owners[count] = moietyi_heap_create(space);
        (void)failing_memory_disarm();
        if (owners[count])
            says = "a heap is made without memory";
    }
    if (!says && !(owners[count] = moietyi_heap_create(space)))
        says = "owners' numbers are lost";
    for (unsigned i = 0; i <= count; i++)
        moietyi_heap_destroy(owners[i]);
    moietyi_space_destroy(space);
    return says;
}

/* 2 TiB of offsets. */
#define LARGE_PAGES (UINT32_C(1) << 20)

const char *heap_bounds_run(void)
{
    const moietyi_grain last = {(uint64_t)LARGE_PAGES * MOIETYI_PAGE_GRAINS -
                                1};
    struct moietyi_space *space = moietyi_space_create(LARGE_PAGES);
    if (!space)
        return "no memory";
    moietyi_space_set_class(space, last, 7);
    moietyi_space_set_run_grains(space, last, UINT32_MAX);
    const char *says =
        moietyi_space_class(space, last) != 7 ||
                moietyi_space_run_grains(space, last) != UINT32_MAX
            ? "a block's metadata is not kept at the end of the space"
            : NULL;
    moietyi_space_destroy(space);
    return says;
}

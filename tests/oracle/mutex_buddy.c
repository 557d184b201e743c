/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A free block is a power of two of grains, at a multiple of its size, at most
 * a page. Its first grain knows its order and links it into that order's list.
 * An interval is cut into such blocks; each merges with its buddy for as long
 * as that is free, so that a free range that could be one block is one block.
 */
#include "tests/oracle/mutex_buddy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_ORDER 12U
#define ORDER_COUNT (PAGE_ORDER + 1)

struct mutex_buddy {
    uint64_t grain_capacity;
    uint64_t free_grains;
    /* Index + 1 of the first block of each order; 0 ends a list. */
    uint32_t head[ORDER_COUNT];
    /* Of each grain: order + 1 of the free block that starts there, or 0; and
     * its neighbours in the list, index + 1. */
    uint8_t *order_plus_one;
    uint32_t *next;
    uint32_t *previous;
    uint8_t *is_page_free; /* what runs are searched in */
    pthread_mutex_t lock;
};

struct range {
    uint64_t start;
    uint64_t end;
};

struct mutex_buddy *mutex_buddy_create(uint32_t page_capacity)
{
    if (page_capacity == 0 || page_capacity > MUTEX_BUDDY_PAGES_MAX)
        return NULL;
    struct mutex_buddy *buddy = calloc(1, sizeof(*buddy));
    if (!buddy)
        return NULL;
    size_t grains = (size_t)page_capacity * MUTEX_BUDDY_PAGE_GRAINS;
    buddy->grain_capacity = grains;
    buddy->order_plus_one = calloc(grains, 1);
    buddy->next = calloc(grains, sizeof(uint32_t));
    buddy->previous = calloc(grains, sizeof(uint32_t));
    buddy->is_page_free = calloc(page_capacity, 1);
    pthread_mutex_init(&buddy->lock, NULL);
    if (!buddy->order_plus_one || !buddy->next || !buddy->previous ||
        !buddy->is_page_free) {
        mutex_buddy_destroy(buddy);
        return NULL;
    }
    return buddy;
}

void mutex_buddy_destroy(struct mutex_buddy *buddy)
{
    if (!buddy)
        return;
    pthread_mutex_destroy(&buddy->lock);
    free(buddy->is_page_free);
    free(buddy->previous);
    free(buddy->next);
    free(buddy->order_plus_one);
    free(buddy);
}

static void push(struct mutex_buddy *buddy, uint64_t block, unsigned order)
{
    uint32_t next = buddy->head[order];
    buddy->next[block] = next;
    buddy->previous[block] = 0;
    if (next)
        buddy->previous[next - 1] = (uint32_t)block + 1;
    buddy->head[order] = (uint32_t)block + 1;
    buddy->order_plus_one[block] = (uint8_t)(order + 1);
    buddy->free_grains += UINT64_C(1) << order;
    if (order == PAGE_ORDER)
        buddy->is_page_free[block >> PAGE_ORDER] = 1;
}

static void unlink_block(struct mutex_buddy *buddy, uint64_t block,
                         unsigned order)
{
    uint32_t next = buddy->next[block];
    uint32_t previous = buddy->previous[block];
    if (next)
        buddy->previous[next - 1] = previous;
    if (previous)
        buddy->next[previous - 1] = next;
    else
        buddy->head[order] = next;
    buddy->order_plus_one[block] = 0;
    buddy->free_grains -= UINT64_C(1) << order;
    if (order == PAGE_ORDER)
        buddy->is_page_free[block >> PAGE_ORDER] = 0;
}

static bool is_free_block(const struct mutex_buddy *buddy, uint64_t block,
                          unsigned order)
{
    return buddy->order_plus_one[block] == order + 1;
}

/* The largest block that starts where the range does and fits into it. */
static unsigned first_order(struct range range)
{
    unsigned order = 63U - (unsigned)__builtin_clzll(range.end - range.start);
    if (order > PAGE_ORDER)
        order = PAGE_ORDER;
    while (range.start & ((UINT64_C(1) << order) - 1))
        order--;
    return order;
}

static void merge(struct mutex_buddy *buddy, uint64_t block, unsigned order)
{
    for (; order < PAGE_ORDER; order++) {
        uint64_t other = block ^ (UINT64_C(1) << order);
        if (!is_free_block(buddy, other, order))
            break;
        unlink_block(buddy, other, order);
        block &= ~(UINT64_C(1) << order);
    }
    push(buddy, block, order);
}

/* The range must be taken. */
static void give_range(struct mutex_buddy *buddy, struct range range)
{
    while (range.start < range.end) {
        unsigned order = first_order(range);
        merge(buddy, range.start, order);
        range.start += UINT64_C(1) << order;
    }
}

/* The order of the free block that holds all of this one; ORDER_COUNT: none. */
static unsigned covering_order(const struct mutex_buddy *buddy, uint64_t block,
                               unsigned order)
{
    for (; order < ORDER_COUNT; order++)
        if (is_free_block(buddy, block >> order << order, order))
            break;
    return order;
}

static bool has_free_part(const struct mutex_buddy *buddy, struct range range)
{
    static const uint8_t none[MUTEX_BUDDY_PAGE_GRAINS];
    while (range.start < range.end) {
        unsigned order = first_order(range);
        if (covering_order(buddy, range.start, order) < ORDER_COUNT ||
            memcmp(&buddy->order_plus_one[range.start], none,
                   (size_t)1 << order) != 0)
            return true;
        range.start += UINT64_C(1) << order;
    }
    return false;
}

static bool claim_range(struct mutex_buddy *buddy, struct range range)
{
    const uint64_t start = range.start;
    while (range.start < range.end) {
        unsigned order = first_order(range);
        unsigned above = covering_order(buddy, range.start, order);
        if (above == ORDER_COUNT) {
            give_range(buddy, (struct range){start, range.start});
            return false;
        }
        uint64_t cover = range.start >> above << above;
        uint64_t next = range.start + (UINT64_C(1) << order);
        unlink_block(buddy, cover, above);
        give_range(buddy, (struct range){cover, range.start});
        give_range(buddy, (struct range){next, cover + (UINT64_C(1) << above)});
        range.start = next;
    }
    return true;
}

static bool is_within(const struct mutex_buddy *buddy, struct range range)
{
    return range.start <= range.end && range.end <= buddy->grain_capacity;
}

static struct range range_of_pages(uint32_t first_page, uint32_t page_count)
{
    uint64_t start = (uint64_t)first_page * MUTEX_BUDDY_PAGE_GRAINS;
    return (struct range){start, start + (uint64_t)page_count *
                                             MUTEX_BUDDY_PAGE_GRAINS};
}

static bool claim_locked(struct mutex_buddy *buddy, struct range range)
{
    pthread_mutex_lock(&buddy->lock);
    bool is_claimed = is_within(buddy, range) && claim_range(buddy, range);
    pthread_mutex_unlock(&buddy->lock);
    return is_claimed;
}

static bool give_locked(struct mutex_buddy *buddy, struct range range)
{
    pthread_mutex_lock(&buddy->lock);
    bool is_taken = is_within(buddy, range) && !has_free_part(buddy, range);
    if (is_taken)
        give_range(buddy, range);
    pthread_mutex_unlock(&buddy->lock);
    return is_taken;
}

bool mutex_buddy_add(struct mutex_buddy *buddy, uint32_t first_page,
                     uint32_t page_count)
{
    return give_locked(buddy, range_of_pages(first_page, page_count));
}

bool mutex_buddy_withdraw(struct mutex_buddy *buddy, uint32_t first_page,
                          uint32_t page_count)
{
    return claim_locked(buddy, range_of_pages(first_page, page_count));
}

bool mutex_buddy_claim(struct mutex_buddy *buddy, uint64_t start,
                       uint64_t grains)
{
    return claim_locked(buddy, (struct range){start, start + grains});
}

bool mutex_buddy_give(struct mutex_buddy *buddy, uint64_t start,
                      uint64_t grains)
{
    return give_locked(buddy, (struct range){start, start + grains});
}

/* One block that is large enough, hence aligned enough, cut to size. */
static bool take_one(struct mutex_buddy *buddy, uint32_t grains,
                     uint32_t alignment, uint64_t *out_start)
{
    uint32_t room = grains > alignment ? grains : alignment;
    unsigned order = 0;
    while (UINT64_C(1) << order < room)
        order++;
    while (order < ORDER_COUNT && !buddy->head[order])
        order++;
    if (order >= ORDER_COUNT)
        return false;
    uint64_t block = buddy->head[order] - 1;
    unlink_block(buddy, block, order);
    give_range(buddy,
               (struct range){block + grains, block + (UINT64_C(1) << order)});
    *out_start = block;
    return true;
}

uint32_t mutex_buddy_take(struct mutex_buddy *buddy, uint32_t grains,
                          uint32_t count, uint32_t alignment,
                          uint64_t *out_starts)
{
    uint32_t taken = 0;
    pthread_mutex_lock(&buddy->lock);
    while (grains && taken < count &&
           take_one(buddy, grains, alignment, &out_starts[taken]))
        taken++;
    pthread_mutex_unlock(&buddy->lock);
    return taken;
}

/* The shortest run of free pages that is long enough, the lowest of these; or,
 * where `length` is 0, the longest. Its first page; `out_length` 0: none. */
static uint64_t find_run(const struct mutex_buddy *buddy, uint64_t length,
                         uint64_t *out_length)
{
    uint64_t page_count = buddy->grain_capacity / MUTEX_BUDDY_PAGE_GRAINS;
    uint64_t found = 0;
    *out_length = 0;
    for (uint64_t page = 0; page < page_count; page++) {
        uint64_t first = page;
        while (page < page_count && buddy->is_page_free[page])
            page++;
        uint64_t run = page - first;
        bool is_better = length == 0   ? run > *out_length
                         : *out_length ? run >= length && run < *out_length
                                       : run >= length;
        if (is_better) {
            found = first;
            *out_length = run;
        }
    }
    return found;
}

bool mutex_buddy_take_run(struct mutex_buddy *buddy, uint64_t grains,
                          uint64_t *out_start)
{
    if (grains == 0 || grains > buddy->grain_capacity)
        return false;
    uint64_t pages =
        (grains + MUTEX_BUDDY_PAGE_GRAINS - 1) / MUTEX_BUDDY_PAGE_GRAINS;
    uint64_t length;
    pthread_mutex_lock(&buddy->lock);
    uint64_t start = find_run(buddy, pages, &length) * MUTEX_BUDDY_PAGE_GRAINS;
    if (length) {
        (void)claim_range(buddy, (struct range){start, start + grains});
        *out_start = start;
    }
    pthread_mutex_unlock(&buddy->lock);
    return length != 0;
}

uint64_t mutex_buddy_free_grains(struct mutex_buddy *buddy)
{
    pthread_mutex_lock(&buddy->lock);
    uint64_t grains = buddy->free_grains;
    pthread_mutex_unlock(&buddy->lock);
    return grains;
}

uint32_t mutex_buddy_longest_page_run(struct mutex_buddy *buddy)
{
    uint64_t length;
    pthread_mutex_lock(&buddy->lock);
    (void)find_run(buddy, 0, &length);
    pthread_mutex_unlock(&buddy->lock);
    return (uint32_t)length;
}

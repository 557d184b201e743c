/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records that are of no extent: the space's own list, which has no lock, and what
 * each heap has of them in its hand, so that nothing fails within a call.
 */
#include "pool/heap/state.h"

#define RECORDS_REFILL 8U
#define RECORDS_MOST 56U

static moietyi_extent_id below_of(const struct moietyi_buddy *buddy,
                                  moietyi_extent_id id)
{
    /* relaxed: see extent.h. */
    return atomic_load_explicit(&moietyi_extent_of(buddy, id)->below,
                                memory_order_relaxed);
}

static void set_below(struct moietyi_buddy *buddy, moietyi_extent_id id,
                      moietyi_extent_id below)
{
    /* relaxed: see extent.h. */
    atomic_store_explicit(&moietyi_extent_of(buddy, id)->below, below,
                          memory_order_relaxed);
}

/* --- the space's list --- */

/* The head is a count of its changes and a record. A record may have come back
 * meanwhile with another one below it; then the count is another, too. */
static uint64_t head_of(uint64_t before, moietyi_extent_id id)
{
    return ((before >> 32) + 1) << 32 | id;
}

moietyi_extent_id moietyi_record_take(struct moietyi_buddy *buddy)
{
    /* HR.acquire: what is below. */
    uint64_t head = atomic_load_explicit(&buddy->spare, memory_order_acquire);
    while ((moietyi_extent_id)head) {
        moietyi_extent_id id = (moietyi_extent_id)head;
        /* HR.acquire, either way. */
        if (atomic_compare_exchange_weak_explicit(
                &buddy->spare, &head, head_of(head, below_of(buddy, id)),
                memory_order_acquire, memory_order_acquire))
            return id;
    }
    /* HR, both ways: a number that nobody else has. There is one for each grain that
     * is covered and for what is in hands; one that is new with a table comes behind
     * one of its pages, and so behind the table. */
    return atomic_fetch_add_explicit(&buddy->extent_end, 1,
                                     memory_order_acq_rel);
}

static void give_records(struct moietyi_buddy *buddy, moietyi_extent_id first,
                         moietyi_extent_id last)
{
    /* relaxed: the compare-and-swap says whether it is so. */
    uint64_t head = atomic_load_explicit(&buddy->spare, memory_order_relaxed);
    do {
        set_below(buddy, last, (moietyi_extent_id)head);
        /* HR.release */
    } while (!atomic_compare_exchange_weak_explicit(
        &buddy->spare, &head, head_of(head, first), memory_order_release,
        memory_order_relaxed));
}

/* --- hands --- */

/* All but `keep`; lock held. */
static void give_hand(struct moietyi_maps *heap, uint32_t keep)
{
    struct moietyi_buddy *buddy = heap->buddy;
    moietyi_extent_id first = heap->spare;
    moietyi_extent_id last = first;
    if (heap->spare_count <= keep || MOIETYI_HEAP_WEAK(RECORDS))
        return;
    while (--heap->spare_count > keep)
        last = below_of(buddy, last);
    heap->spare = below_of(buddy, last);
    give_records(buddy, first, last);
}

void moietyi_spare_stock(struct moietyi_maps *heap)
{
    if (heap->spare_count >= MOIETYI_RECORDS_NEEDED ||
        MOIETYI_HEAP_WEAK(RECORDS))
        return;
    while (heap->spare_count < RECORDS_REFILL)
        moietyi_spare_put(heap, moietyi_record_take(heap->buddy));
}

void moietyi_spare_trim(struct moietyi_maps *heap)
{
    if (heap->spare_count > RECORDS_MOST)
        give_hand(heap, RECORDS_MOST / 2);
}

void moietyi_spare_leave(struct moietyi_maps *heap)
{
    give_hand(heap, 0);
}

moietyi_extent_id moietyi_spare_take(struct moietyi_maps *heap)
{
    moietyi_extent_id id = heap->spare;
    heap->spare = below_of(heap->buddy, id);
    heap->spare_count--;
    return id;
}

void moietyi_spare_put(struct moietyi_maps *heap, moietyi_extent_id id)
{
    /* relaxed: under the lock of the owner in it. */
    if (!MOIETYI_HEAP_WEAK(PUT))
        atomic_store_explicit(&moietyi_extent_of(heap->buddy, id)->where, 0,
                              memory_order_relaxed);
    set_below(heap->buddy, id, heap->spare);
    heap->spare = id;
    heap->spare_count++;
}

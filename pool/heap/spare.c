/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records that are of no extent: the space's own list, which has no lock, and
 * the hand of each heap, so that nothing fails within a call.
 */
#include "pool/heap/records.h"

static moietyi_extent_id below_of(const struct moietyi_space *space,
                                  moietyi_extent_id id)
{
    /* relaxed: see extent.h. */
    return atomic_load_explicit(&moietyi_extent_of(space, id)->below,
                                memory_order_relaxed);
}

static void set_below(struct moietyi_space *space, moietyi_extent_id id,
                      moietyi_extent_id below)
{
    /* relaxed: see extent.h. */
    atomic_store_explicit(&moietyi_extent_of(space, id)->below, below,
                          memory_order_relaxed);
}

/* --- the space's list, of chains --- */

/* The head is a count of its changes and the first record of a chain. If the
 * same chain is first again with another one below, the count differs. */
static uint64_t head_of(uint64_t before, moietyi_extent_id id)
{
    return ((before >> 32) + 1) << 32 | id;
}

/* The chain behind this one, for which the length of no extent is used. */
static moietyi_extent_id next_chain_of(const struct moietyi_space *space,
                                       moietyi_extent_id first)
{
    return (moietyi_extent_id)moietyi_grains_of(space, first);
}

/* A chain that is new: see moietyi_chain_take(). */
static moietyi_extent_id make_chain(struct moietyi_space *space)
{
    /* HR, both ways: numbers that nobody else has. There is one for each grain that
     * is covered and for what is in hands; one that is new with a table comes behind
     * one of its pages, and so behind the table. */
    moietyi_extent_id first = atomic_fetch_add_explicit(
        &space->extent_end, MOIETYI_CHAIN_RECORDS, memory_order_acq_rel);
    for (uint32_t i = 0; i < MOIETYI_CHAIN_RECORDS; i++)
        set_below(space, first + i,
                  i + 1 < MOIETYI_CHAIN_RECORDS ? first + i + 1 : 0);
    return first;
}

moietyi_extent_id moietyi_chain_take(struct moietyi_space *space)
{
    /* HR.acquire: what is behind. */
    uint64_t head = atomic_load_explicit(&space->spare, memory_order_acquire);
    while ((moietyi_extent_id)head) {
        moietyi_extent_id first = (moietyi_extent_id)head;
        /* HR.acquire, either way. */
        if (atomic_compare_exchange_weak_explicit(
                &space->spare, &head,
                head_of(head, next_chain_of(space, first)),
                memory_order_acquire, memory_order_acquire))
            return first;
    }
    return make_chain(space);
}

moietyi_extent_id moietyi_chain_pop(const struct moietyi_space *space,
                                    moietyi_extent_id *first)
{
    moietyi_extent_id id = *first;
    *first = below_of(space, id);
    return id;
}

static void give_chain(struct moietyi_space *space, moietyi_extent_id first)
{
    /* relaxed: the compare-and-swap proves the value. */
    uint64_t head = atomic_load_explicit(&space->spare, memory_order_relaxed);
    do { /* relaxed: HR hands it on. */
        atomic_store_explicit(&moietyi_extent_of(space, first)->grains,
                              (moietyi_extent_id)head, memory_order_relaxed);
        /* HR.release */
    } while (!atomic_compare_exchange_weak_explicit(
        &space->spare, &head, head_of(head, first), memory_order_release,
        memory_order_relaxed));
}

/* --- hands --- */

void moietyi_spare_give(struct moietyi_heap *heap, uint32_t most)
{
    struct moietyi_space *space = heap->space;
    while (heap->spare_count >= most && !MOIETYI_HEAP_WEAK(RECORDS)) {
        moietyi_extent_id first = heap->spare;
        moietyi_extent_id last = first;
        for (uint32_t i = 1; i < MOIETYI_CHAIN_RECORDS; i++)
            last = below_of(space, last);
        heap->spare = below_of(space, last);
        heap->spare_count -= MOIETYI_CHAIN_RECORDS;
        set_below(space, last, 0);
        give_chain(space, first);
    }
}

void moietyi_spare_fill(struct moietyi_heap *heap)
{
    moietyi_extent_id first = moietyi_chain_take(heap->space);
    while (first)
        moietyi_spare_put(heap, moietyi_chain_pop(heap->space, &first));
}

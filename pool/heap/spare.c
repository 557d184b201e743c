/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The locks of heaps, and the records that a heap has in its hand. They come from
 * the space's own list before the lock is taken, so that nothing fails under it.
 */
#define _GNU_SOURCE /* PTHREAD_MUTEX_ADAPTIVE_NP */

#include "pool/heap/state.h"

#define RECORDS_REFILL 32U
#define RECORDS_MOST 256U

/* Records in a list by `next`. */
struct hand {
    moietyi_extent_id first;
    moietyi_extent_id last;
    uint32_t count;
};

/* RECORDS_REFILL, those that were used before first. */
static struct hand take_records(struct moietyi_buddy *buddy)
{
    struct hand hand = {0, 0, 0};
    moietyi_lock(&buddy->spare_lock);
    while (hand.count < RECORDS_REFILL) {
        moietyi_extent_id id = buddy->spare;
        if (id)
            buddy->spare = buddy->extents[id].next;
        else if (buddy->extent_end < buddy->extent_capacity)
            id = buddy->extent_end++;
        else
            break;
        buddy->extents[id].next = hand.first;
        hand.first = id;
        if (!hand.last)
            hand.last = id;
        hand.count++;
    }
    moietyi_unlock(&buddy->spare_lock);
    return hand;
}

static void give_records(struct moietyi_buddy *buddy, const struct hand *hand)
{
    moietyi_lock(&buddy->spare_lock);
    buddy->extents[hand->last].next = buddy->spare;
    buddy->spare = hand->first;
    moietyi_unlock(&buddy->spare_lock);
}

/* Half of the hand, or all of it; lock held. */
static struct hand split_hand(struct moietyi_maps *heap, uint32_t keep)
{
    struct moietyi_extent *extents = heap->buddy->extents;
    struct hand hand = {heap->spare, heap->spare, 1};
    while (hand.count < heap->spare_count - keep) {
        hand.last = extents[hand.last].next;
        hand.count++;
    }
    heap->spare = extents[hand.last].next;
    heap->spare_count -= hand.count;
    return hand;
}

void moietyi_heap_lock_init(struct moietyi_maps *heap)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    /* Held for less than a sleep takes. */
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&heap->lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

void moietyi_heap_lock(struct moietyi_maps *heap)
{
    struct moietyi_buddy *buddy = heap->buddy;
    for (;;) {
        moietyi_lock(&heap->lock);
        if (heap->spare_count >= MOIETYI_RECORDS_NEEDED ||
            (heap->spare_count && MOIETYI_HEAP_WEAK(RECORDS)))
            return;
        moietyi_unlock(&heap->lock);
        struct hand hand = take_records(buddy);
        moietyi_lock(&heap->lock);
        buddy->extents[hand.last].next = heap->spare;
        heap->spare = hand.first;
        heap->spare_count += hand.count;
        moietyi_unlock(&heap->lock);
    }
}

bool moietyi_heap_try_lock(struct moietyi_maps *heap)
{
    if (!moietyi_try_lock(&heap->lock))
        return false;
    if (heap->spare_count >= MOIETYI_RECORDS_NEEDED)
        return true;
    moietyi_unlock(&heap->lock);
    return false;
}

void moietyi_heap_unlock(struct moietyi_maps *heap)
{
    struct hand surplus = {0, 0, 0};
    if (heap->spare_count > RECORDS_MOST)
        surplus = split_hand(heap, RECORDS_MOST / 2);
    moietyi_unlock(&heap->lock);
    if (surplus.count)
        give_records(heap->buddy, &surplus);
}

moietyi_extent_id moietyi_spare_take(struct moietyi_maps *heap)
{
    moietyi_extent_id id = heap->spare;
    heap->spare = heap->buddy->extents[id].next;
    heap->spare_count--;
    return id;
}

void moietyi_spare_put(struct moietyi_maps *heap, moietyi_extent_id id)
{
    struct moietyi_extent *extent = &heap->buddy->extents[id];
    /* relaxed: under the lock of the owner in it. */
    if (!MOIETYI_HEAP_WEAK(PUT))
        atomic_store_explicit(&extent->where, 0, memory_order_relaxed);
    extent->next = heap->spare;
    heap->spare = id;
    heap->spare_count++;
}

void moietyi_spare_leave(struct moietyi_maps *heap)
{
    moietyi_lock(&heap->lock);
    struct hand hand = {0, 0, 0};
    if (heap->spare_count)
        hand = split_hand(heap, 0);
    moietyi_unlock(&heap->lock);
    if (hand.count)
        give_records(heap->buddy, &hand);
}

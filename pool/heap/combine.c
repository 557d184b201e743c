/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* syscall() */

#include "pool/heap/combine.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/heap/records.h"

#define SPINS_MOST 512U
#define PAUSES_MOST 16U

/* --- blocks and calls that others left --- */

/* A block of the inbox is in no table yet. If its memory is free already,
 * nothing changes: the caller that could be told is gone. Returns its
 * grains. */
static uint64_t take_in(struct moietyi_heap *heap, moietyi_extent_id id)
{
    struct moietyi_space *space = heap->space;
    const struct moietyi_held held = moietyi_held_of(heap);
    uint64_t start = moietyi_start_of(space, id);
    uint64_t grains = moietyi_grains_of(space, id);
    if (moietyi_is_free_at(&held, start, grains))
        moietyi_spare_put(heap, id);
    else
        moietyi_extent_add(&held, id, start, grains, moietyi_fresh_of(heap));
    return grains;
}

/* Lock held. */
static void take_inbox(struct moietyi_heap *heap)
{
    /* HI.acquire: the threads that freed the blocks are done with them. */
    moietyi_extent_id id =
        atomic_exchange_explicit(&heap->inbox, 0, memory_order_acquire);
    uint64_t grains = 0;
    while (id) {
        /* relaxed: by the exchange. */
        moietyi_extent_id below = atomic_load_explicit(
            &moietyi_extent_of(heap->space, id)->below, memory_order_relaxed);
        grains += take_in(heap, id);
        id = below;
    }
    /* relaxed: the sum may be too large, never too small. */
    atomic_fetch_sub_explicit(&heap->inbox_grains, grains,
                              memory_order_relaxed);
}

static inline void empty_inbox(struct moietyi_heap *heap)
{
    /* relaxed: a look, as most inboxes are empty. */
    if (atomic_load_explicit(&heap->inbox, memory_order_relaxed))
        take_inbox(heap);
}

static inline void begin(struct moietyi_heap *heap)
{
    moietyi_spare_stock(heap);
    empty_inbox(heap);
}

/* The caller may be gone with its stack from here on. */
static void finish(struct moietyi_heap_call *call)
{
    /* HC.release, and by HK to a thread that looks at the lock before it
     * sleeps. */
    atomic_store_explicit(&call->is_done, true, memory_order_release);
}

/* Runs the calls that were left, in their order; lock held. */
static void do_calls(struct moietyi_heap *heap)
{
    struct moietyi_heap_call *in_order = NULL;
    /* HI.acquire: what the callers wrote. */
    struct moietyi_heap_call *left =
        atomic_exchange_explicit(&heap->left, NULL, memory_order_acquire);
    while (left) {
        struct moietyi_heap_call *next = left->next;
        __builtin_prefetch(next, 1);
        left->next = in_order;
        in_order = left;
        left = next;
    }
    while (in_order) {
        struct moietyi_heap_call *next = in_order->next;
        begin(heap);
        in_order->run(in_order, heap);
        finish(in_order);
        in_order = next;
    }
}

static bool is_any_left(struct moietyi_heap *heap)
{
    /* HI, by order of seq_cst: we opened the lock before, and a thread that
     * leaves something looks at the lock after that. Both loads. */
    return atomic_load_explicit(&heap->left, memory_order_seq_cst) ||
           /* HI, as above. */
           atomic_load_explicit(&heap->inbox, memory_order_seq_cst);
}

/* Called once the lock is open. */
static void wake_sleepers(struct moietyi_heap *heap)
{
    /* HS, by order of seq_cst: a sleeper that is not counted yet looks at the
     * lock after this, and sees by HK that its call is done. */
    if (!atomic_load_explicit(&heap->sleepers, memory_order_seq_cst))
        return;
    /* HS.release: a thread that reads it sees that the lock was opened. */
    atomic_fetch_add_explicit(&heap->wakes, 1, memory_order_release);
    (void)syscall(SYS_futex, &heap->wakes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
                  NULL, 0);
}

void moietyi_heap_lock(struct moietyi_heap *heap)
{
    moietyi_heap_lock_take(&heap->lock);
    begin(heap);
}

bool moietyi_heap_try_lock(struct moietyi_heap *heap)
{
    if (!moietyi_heap_lock_is_open(&heap->lock) ||
        !moietyi_heap_lock_try(&heap->lock))
        return false;
    begin(heap);
    return true;
}

void moietyi_heap_unlock(struct moietyi_heap *heap)
{
    do {
        empty_inbox(heap);
        /* relaxed: a look. */
        if (atomic_load_explicit(&heap->left, memory_order_relaxed))
            do_calls(heap);
        moietyi_spare_trim(heap);
        moietyi_heap_lock_leave(&heap->lock);
        wake_sleepers(heap);
    } while (is_any_left(heap) && moietyi_heap_lock_try(&heap->lock));
}

/* Does what others left, if no other thread does. */
static void help(struct moietyi_heap *heap)
{
    /* HK; HI, by order of seq_cst: after something was left. */
    if (atomic_load_explicit(&heap->lock.state, memory_order_seq_cst) ==
            MOIETYI_HEAP_OPEN &&
        moietyi_heap_lock_try(&heap->lock))
        moietyi_heap_unlock(heap);
}

/* --- frees, which never wait --- */

/* A record of the block, in front of record `below`. */
static moietyi_extent_id write_block(struct moietyi_space *space,
                                     const struct moietyi_interval *block,
                                     struct moietyi_records *records,
                                     moietyi_extent_id below)
{
    if (!records->first)
        records->first = moietyi_chain_take(space);
    moietyi_extent_id id = moietyi_chain_pop(space, &records->first);
    struct moietyi_extent *extent = moietyi_extent_of(space, id);
    /* relaxed, all: the exchange of the inbox's head hands them on. */
    atomic_store_explicit(&extent->grains, block->grains, memory_order_relaxed);
    atomic_store_explicit(&extent->where, moietyi_where_queued(block->start),
                          memory_order_relaxed);
    atomic_store_explicit(&extent->below, below, memory_order_relaxed);
    return id;
}

static void leave_blocks(struct moietyi_heap *heap,
                         const struct moietyi_interval *blocks, uint32_t count,
                         struct moietyi_records *records)
{
    moietyi_extent_id last = write_block(heap->space, &blocks[0], records, 0);
    moietyi_extent_id first = last;
    uint64_t grains = blocks[0].grains;
    for (uint32_t i = 1; i < count; i++) {
        first = write_block(heap->space, &blocks[i], records, first);
        grains += blocks[i].grains;
    }
    atomic_fetch_add_explicit(&heap->inbox_grains, grains,
                              memory_order_relaxed);
    /* relaxed: the compare-and-swap proves the value. */
    moietyi_extent_id seen =
        atomic_load_explicit(&heap->inbox, memory_order_relaxed);
    do { /* relaxed: as above. */
        atomic_store_explicit(&moietyi_extent_of(heap->space, last)->below,
                              seen, memory_order_relaxed);
        /* HI.release, and before the look at the lock by order of seq_cst. */
    } while (!atomic_compare_exchange_weak_explicit(&heap->inbox, &seen, first,
                                                    memory_order_seq_cst,
                                                    memory_order_relaxed));
}

uint32_t moietyi_heap_free(struct moietyi_heap *heap,
                           const struct moietyi_interval *blocks,
                           uint32_t count, struct moietyi_records *records)
{
    const struct moietyi_held held = moietyi_held_of(heap);
    uint32_t twice = 0;
    if (!records) {
        moietyi_heap_lock(heap);
    } else if (!moietyi_heap_try_lock(heap)) {
        leave_blocks(heap, blocks, count, records);
        help(heap);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (moietyi_is_free_at(&held, blocks[i].start, blocks[i].grains)) {
            twice++;
            continue;
        }
        moietyi_spare_stock(heap);
        moietyi_extent_add(&held, 0, blocks[i].start, blocks[i].grains,
                           moietyi_fresh_of(heap));
    }
    moietyi_heap_unlock(heap);
    return twice;
}

/* --- calls, which wait for their result --- */

static void leave_call(struct moietyi_heap *heap,
                       struct moietyi_heap_call *call)
{
    /* relaxed: the list's own order is HI's. */
    struct moietyi_heap_call *first =
        atomic_load_explicit(&heap->left, memory_order_relaxed);
    do {
        call->next = first;
        /* HI.release, and before the look at the lock by order of seq_cst. */
    } while (!atomic_compare_exchange_weak_explicit(
        &heap->left, &first, call, memory_order_seq_cst, memory_order_relaxed));
}

static bool is_call_done(const struct moietyi_heap_call *call)
{
    /* HC.acquire */
    return atomic_load_explicit(&call->is_done, memory_order_acquire);
}

static void sleep_until_done(struct moietyi_heap *heap,
                             const struct moietyi_heap_call *call)
{
    /* HS, by order of seq_cst. */
    atomic_fetch_add_explicit(&heap->sleepers, 1, memory_order_seq_cst);
    while (true) {
        /* HS.acquire: see wake_sleepers(). */
        uint32_t wakes =
            atomic_load_explicit(&heap->wakes, memory_order_acquire);
        /* HK; HS, by order of seq_cst. */
        (void)atomic_load_explicit(&heap->lock.state, memory_order_seq_cst);
        if (is_call_done(call))
            break;
        (void)syscall(SYS_futex, &heap->wakes, FUTEX_WAIT_PRIVATE, wakes, NULL,
                      NULL, 0);
    }
    /* relaxed: a count that is too high does no harm. */
    atomic_fetch_sub_explicit(&heap->sleepers, 1, memory_order_relaxed);
}

/* The holder looks for calls after it opened the lock, so a waiter need not.
 * Waiters that looked would take the lock's line from the holder. */
static void await_call(struct moietyi_heap *heap,
                       const struct moietyi_heap_call *call)
{
    unsigned pauses = 1;
    for (unsigned i = 0; i < SPINS_MOST; i++) {
        if (is_call_done(call))
            return;
        moietyi_spin(pauses);
        if (pauses < PAUSES_MOST)
            pauses *= 2;
    }
    sleep_until_done(heap, call);
}

void moietyi_heap_do(struct moietyi_heap *heap, struct moietyi_heap_call *call)
{
    if (moietyi_heap_try_lock(heap)) {
        call->run(call, heap);
        moietyi_heap_unlock(heap);
        return;
    }
    atomic_init(&call->is_done, false);
    leave_call(heap, call);
    help(heap);
    await_call(heap, call);
}

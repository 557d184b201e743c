/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* syscall() */

#include "pool/heap/combine.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS_MOST 512U
#define PAUSES_MOST 16U

enum call_state { CALL_LEFT, CALL_SLEPT_ON, CALL_DONE };

static void finish(struct moietyi_heap_call *call)
{
    /* HC.release. The caller may be gone with its stack from here on: what is woken
     * is an address. */
    if (atomic_exchange_explicit(&call->state, CALL_DONE,
                                 memory_order_acq_rel) == CALL_SLEPT_ON)
        (void)syscall(SYS_futex, &call->state, FUTEX_WAKE_PRIVATE, 1, NULL,
                      NULL, 0);
}

/* --- what is left --- */

/* A block of the inbox is in no table yet. If its memory is free already, that stays
 * as it is: the caller is gone. Returns its grains. */
static uint64_t take_in(struct moietyi_maps *heap, moietyi_extent_id id)
{
    struct moietyi_buddy *buddy = heap->buddy;
    const struct moietyi_held held = moietyi_held_of(heap);
    uint64_t start = moietyi_start_of(buddy, id);
    uint64_t grains = moietyi_grains_of(buddy, id);
    if (moietyi_is_free_at(&held, start, grains))
        moietyi_spare_put(heap, id);
    else
        moietyi_extent_add(&held, id, start, grains, moietyi_fresh_of(heap));
    return grains;
}

/* Lock held. */
static void empty_inbox(struct moietyi_maps *heap)
{
    /* relaxed: a look, as most inboxes are empty. */
    if (!atomic_load_explicit(&heap->inbox, memory_order_relaxed))
        return;
    /* HI.acquire: who freed them is done with them. */
    moietyi_extent_id id =
        atomic_exchange_explicit(&heap->inbox, 0, memory_order_acquire);
    uint64_t grains = 0;
    while (id) {
        /* relaxed: by the exchange. */
        moietyi_extent_id below = atomic_load_explicit(
            &moietyi_extent_of(heap->buddy, id)->below, memory_order_relaxed);
        grains += take_in(heap, id);
        id = below;
    }
    /* relaxed: a sum, which is never too small. */
    atomic_fetch_sub_explicit(&heap->inbox_grains, grains,
                              memory_order_relaxed);
}

static void begin(struct moietyi_maps *heap)
{
    moietyi_spare_stock(heap);
    empty_inbox(heap);
}

/* Those that were left, in their order; lock held. */
static void do_calls(struct moietyi_maps *heap)
{
    struct moietyi_heap_call *in_order = NULL;
    /* relaxed: a look. */
    if (!atomic_load_explicit(&heap->left, memory_order_relaxed))
        return;
    /* HI.acquire: what the callers wrote. */
    struct moietyi_heap_call *left =
        atomic_exchange_explicit(&heap->left, NULL, memory_order_acquire);
    while (left) {
        struct moietyi_heap_call *next = left->next;
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

static bool is_any_left(struct moietyi_maps *heap)
{
    /* HI, by order of seq_cst: after the lock was let go of, as who leaves something
     * looks at the lock after that. Both. */
    return atomic_load_explicit(&heap->left, memory_order_seq_cst) ||
           /* HI, as above. */
           atomic_load_explicit(&heap->inbox, memory_order_seq_cst);
}

void moietyi_heap_lock(struct moietyi_maps *heap)
{
    moietyi_heap_lock_take(&heap->lock);
    begin(heap);
}

bool moietyi_heap_try_lock(struct moietyi_maps *heap)
{
    if (!moietyi_heap_lock_try(&heap->lock))
        return false;
    begin(heap);
    return true;
}

void moietyi_heap_unlock(struct moietyi_maps *heap)
{
    do {
        empty_inbox(heap);
        do_calls(heap);
        moietyi_spare_trim(heap);
        moietyi_heap_lock_leave(&heap->lock);
    } while (is_any_left(heap) && moietyi_heap_lock_try(&heap->lock));
}

/* Does all that is left, if nobody else is at it. */
static void help(struct moietyi_maps *heap)
{
    if (moietyi_heap_lock_try(&heap->lock))
        moietyi_heap_unlock(heap);
}

/* --- frees, which wait for nobody --- */

static void leave_block(struct moietyi_maps *heap, uint64_t start,
                        uint64_t grains)
{
    moietyi_extent_id id = moietyi_record_take(heap->buddy);
    struct moietyi_extent *extent = moietyi_extent_of(heap->buddy, id);
    /* relaxed, all: the exchange of the inbox's head hands them on. */
    atomic_store_explicit(&extent->grains, grains, memory_order_relaxed);
    atomic_store_explicit(&extent->where, moietyi_where_queued(start),
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&heap->inbox_grains, grains,
                              memory_order_relaxed);
    /* relaxed: the compare-and-swap says whether it is so. */
    moietyi_extent_id first =
        atomic_load_explicit(&heap->inbox, memory_order_relaxed);
    do { /* relaxed: as above. */
        atomic_store_explicit(&extent->below, first, memory_order_relaxed);
        /* HI.release, and before the look at the lock by order of seq_cst. */
    } while (!atomic_compare_exchange_weak_explicit(
        &heap->inbox, &first, id, memory_order_seq_cst, memory_order_relaxed));
}

bool moietyi_heap_free(struct moietyi_maps *heap, uint64_t start,
                       uint64_t grains)
{
    const struct moietyi_held held = moietyi_held_of(heap);
    if (!moietyi_heap_try_lock(heap)) {
        leave_block(heap, start, grains);
        help(heap);
        return true;
    }
    bool is_right = !moietyi_is_free_at(&held, start, grains);
    if (is_right)
        moietyi_extent_add(&held, 0, start, grains, moietyi_fresh_of(heap));
    moietyi_heap_unlock(heap);
    return is_right;
}

/* --- calls, which wait for what they find --- */

static void leave_call(struct moietyi_maps *heap,
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
    return atomic_load_explicit(&call->state, memory_order_acquire) ==
           CALL_DONE;
}

static void await_call(struct moietyi_maps *heap,
                       struct moietyi_heap_call *call)
{
    unsigned pauses = 1;
    for (unsigned i = 0; i < SPINS_MOST; i++) {
        if (is_call_done(call))
            return;
        if (moietyi_heap_lock_is_open(&heap->lock))
            help(heap);
        moietyi_spin(pauses);
        if (pauses < PAUSES_MOST)
            pauses *= 2;
    }
    uint32_t state = CALL_LEFT;
    /* HC: as in is_call_done(). */
    if (atomic_compare_exchange_strong_explicit(
            &call->state, &state, CALL_SLEPT_ON, memory_order_acquire,
            memory_order_acquire))
        while (!is_call_done(call))
            (void)syscall(SYS_futex, &call->state, FUTEX_WAIT_PRIVATE,
                          CALL_SLEPT_ON, NULL, NULL, 0);
}

void moietyi_heap_do(struct moietyi_maps *heap, struct moietyi_heap_call *call)
{
    if (moietyi_heap_try_lock(heap)) {
        call->run(call, heap);
        moietyi_heap_unlock(heap);
        return;
    }
    atomic_init(&call->state, CALL_LEFT);
    leave_call(heap, call);
    help(heap);
    await_call(heap, call);
}

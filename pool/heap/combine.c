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

/* Those that were left, in their order; lock held. */
static void do_left(struct moietyi_maps *heap)
{
    struct moietyi_heap_call *in_order = NULL;
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
        moietyi_heap_stock(heap);
        in_order->run(in_order, heap);
        finish(in_order);
        in_order = next;
    }
}

static bool is_any_left(struct moietyi_maps *heap)
{
    /* HI, by order of seq_cst: after the lock was let go of, as who leaves a call
     * looks at the lock after that. */
    return atomic_load_explicit(&heap->left, memory_order_seq_cst) != NULL;
}

void moietyi_heap_unlock(struct moietyi_maps *heap)
{
    do {
        do_left(heap);
        moietyi_spare_trim(heap);
        moietyi_heap_lock_leave(&heap->lock);
    } while (is_any_left(heap) && moietyi_heap_lock_try(&heap->lock));
}

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

/* Does all that is left, if nobody else is at it. */
static void help(struct moietyi_maps *heap)
{
    if (moietyi_heap_lock_try(&heap->lock))
        moietyi_heap_unlock(heap);
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
    if (moietyi_heap_lock_try(&heap->lock)) {
        moietyi_heap_stock(heap);
        call->run(call, heap);
        moietyi_heap_unlock(heap);
        return;
    }
    atomic_init(&call->state, CALL_LEFT);
    leave_call(heap, call);
    help(heap);
    await_call(heap, call);
}

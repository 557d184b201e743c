/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The lock of a heap. A hold is shorter than a sleep, so a thread spins first, and
 * sleeps only if the holder has lost its processor: to wake a thread costs the
 * holder more than all that it did. The algorithm is
 * mutex2 of U. Drepper, "Futexes Are Tricky" (2011), section 6, behind a spin.
 */
#ifndef MOIETY_POOL_HEAP_LOCK_H_
#define MOIETY_POOL_HEAP_LOCK_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/lock.h"

enum moietyi_heap_lock_state {
    MOIETYI_HEAP_OPEN,
    MOIETYI_HEAP_HELD,
    MOIETYI_HEAP_AWAITED /* held, and somebody sleeps, or did */
};

struct moietyi_heap_lock {
    /* Edge HK: unlock (release) -> lock (acquire). An unlock, and a lock that is
     * refused, are sequentially consistent for edge HI: see combine.c. */
    _Atomic uint32_t state;
};

/* A build with MOIETYI_HEAP_HOLDS=1 tells a study of each hold (bench/studies/holds.h):
 * after the lock was taken, and before it is let go of. In every other build this is
 * nothing. */
#ifndef MOIETYI_HEAP_HOLDS
#define MOIETYI_HEAP_HOLDS 0
#endif
#if MOIETYI_HEAP_HOLDS
/* The study's. */
void moietyi_heap_hold_begins(const struct moietyi_heap_lock *lock);
void moietyi_heap_hold_ends(const struct moietyi_heap_lock *lock);
#define MOIETYI_HEAP_HOLD_BEGINS(lock) moietyi_heap_hold_begins(lock)
#define MOIETYI_HEAP_HOLD_ENDS(lock) moietyi_heap_hold_ends(lock)
#else
#define MOIETYI_HEAP_HOLD_BEGINS(lock) ((void)0)
#define MOIETYI_HEAP_HOLD_ENDS(lock) ((void)0)
#endif

static inline bool moietyi_heap_lock_try(struct moietyi_heap_lock *lock)
{
    uint32_t open = MOIETYI_HEAP_OPEN;
    /* HK.acquire; HI, by order of seq_cst, where it is held. */
    if (!atomic_compare_exchange_strong_explicit(
            &lock->state, &open, MOIETYI_HEAP_HELD, memory_order_seq_cst,
            memory_order_seq_cst))
        return false;
    MOIETYI_LOCKS_COUNT(1);
    MOIETYI_HEAP_HOLD_BEGINS(lock);
    return true;
}

/* A hint. */
static inline bool
moietyi_heap_lock_is_open(const struct moietyi_heap_lock *lock)
{
    /* relaxed: a look. */
    return atomic_load_explicit(&lock->state, memory_order_relaxed) ==
           MOIETYI_HEAP_OPEN;
}

/* Leaves the bus alone for a moment. */
static inline void moietyi_spin(unsigned pauses)
{
    for (unsigned i = 0; i < pauses; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        __asm__ volatile("yield" ::: "memory");
#endif
    }
}

/* lock.c: another thread holds it. */
void moietyi_heap_lock_await(struct moietyi_heap_lock *lock);
void moietyi_heap_lock_wake(struct moietyi_heap_lock *lock);

static inline void moietyi_heap_lock_take(struct moietyi_heap_lock *lock)
{
    if (!moietyi_heap_lock_try(lock))
        moietyi_heap_lock_await(lock);
}

static inline void moietyi_heap_lock_leave(struct moietyi_heap_lock *lock)
{
    MOIETYI_LOCKS_COUNT(-1);
    MOIETYI_HEAP_HOLD_ENDS(lock);
    /* HK.release; HI, by order of seq_cst. */
    if (atomic_exchange_explicit(&lock->state, MOIETYI_HEAP_OPEN,
                                 memory_order_seq_cst) == MOIETYI_HEAP_AWAITED)
        moietyi_heap_lock_wake(lock);
}

#endif

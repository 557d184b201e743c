/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of taking a thread's caches (pool/cache/reclaim.c, thread.h)
 * where the kernel has no membarrier, for a checker of C11's memory model. Where
 * it has, the taker's system call orders the owner's steps, which no such checker
 * knows; idle.pml has that. `contents` is plain memory of the caches' owner, so
 * that an edge that is missing is a data race. The owner calls twice; the taker
 * asks once, and may be refused.
 *
 * Weakenings: -DMO_ENTER=memory_order_acq_rel, -DMO_CLAIM=memory_order_acquire,
 * -DMO_ASK=memory_order_acq_rel, -DMO_LOOK=memory_order_acquire (of the taker,
 * whether the owner is inside), -DMO_LOOK=memory_order_relaxed,
 * -DMO_LEAVE=memory_order_relaxed, -DMO_TAKE=memory_order_relaxed and
 * -DMO_SETTLE=memory_order_relaxed (of the two swaps).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_LEAVE
#define MO_LEAVE memory_order_release
#endif
#ifndef MO_LOOK
#define MO_LOOK memory_order_seq_cst
#endif
#ifndef MO_TAKE
#define MO_TAKE memory_order_acq_rel
#endif
#ifndef MO_SETTLE
#define MO_SETTLE memory_order_acq_rel
#endif
#ifndef MO_ENTER
#define MO_ENTER memory_order_seq_cst
#endif
#ifndef MO_CLAIM
#define MO_CLAIM memory_order_seq_cst
#endif
#ifndef MO_ASK
#define MO_ASK memory_order_seq_cst
#endif
#define RELAXED memory_order_relaxed
#define ASKED 2U
#define TAKEN 4U

static atomic_uint is_inside;
static atomic_uint claim;
static unsigned contents;

static bool goes_on_with_its_own(void)
{
    atomic_exchange_explicit(&is_inside, 1, MO_ENTER);
    if (!atomic_load_explicit(&claim, MO_CLAIM))
        return true;
    return !(atomic_fetch_and_explicit(&claim, 0, MO_SETTLE) & TAKEN);
}

static void *owner(void *unused)
{
    bool is_own = true;
    for (unsigned i = 0; i < 2; i++) {
        is_own = goes_on_with_its_own() && is_own;
        if (is_own)
            contents++;
        atomic_store_explicit(&is_inside, 0, MO_LEAVE);
    }
    return unused;
}

static void *taker(void *unused)
{
    atomic_fetch_or_explicit(&claim, ASKED, MO_ASK);
    if (atomic_load_explicit(&is_inside, MO_LOOK))
        return unused;
    unsigned seen = ASKED;
    if (atomic_compare_exchange_strong_explicit(&claim, &seen, TAKEN, MO_TAKE,
                                                RELAXED))
        contents++;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, owner, NULL);
    pthread_create(&threads[1], NULL, taker, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}

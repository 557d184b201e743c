/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of capture guards against recorders of context events
 * (pool/stream/capture_guard.c), for a checker of C11's memory model. What a
 * capture does and what the recording of an event does is plain memory, so that
 * both at once is a data race. Two recorders, one guard.
 *
 * Weakenings: -DMO_RECORDER=memory_order_acq_rel, -DMO_GUARD=..., the counts
 * before the looks; -DMO_GUARD_LOOK=memory_order_acquire, -DMO_WAIT=..., the
 * looks; -DMO_RECORDER_END=memory_order_relaxed, -DMO_GUARD_END=..., the counts
 * taken off.
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#ifndef MO_RECORDER
#define MO_RECORDER memory_order_seq_cst
#endif
#ifndef MO_GUARD_LOOK
#define MO_GUARD_LOOK memory_order_seq_cst
#endif
#ifndef MO_RECORDER_END
#define MO_RECORDER_END memory_order_seq_cst
#endif
#ifndef MO_GUARD
#define MO_GUARD memory_order_seq_cst
#endif
#ifndef MO_WAIT
#define MO_WAIT memory_order_seq_cst
#endif
#ifndef MO_GUARD_END
#define MO_GUARD_END memory_order_seq_cst
#endif

static atomic_uint guards;
static atomic_uint recorders;
static unsigned capture;
static unsigned seen[2];

static void record(unsigned index)
{
    atomic_fetch_add_explicit(&recorders, 1, MO_RECORDER);
    if (atomic_load_explicit(&guards, MO_GUARD_LOOK) == 0)
        seen[index] = capture;
    atomic_fetch_sub_explicit(&recorders, 1, MO_RECORDER_END);
}

static void *low_recorder(void *unused)
{
    record(0);
    return unused;
}

static void *high_recorder(void *unused)
{
    record(1);
    return unused;
}

static void *guard(void *unused)
{
    atomic_fetch_add_explicit(&guards, 1, MO_GUARD);
    while (atomic_load_explicit(&recorders, MO_WAIT) != 0)
        continue;
    capture = 1;
    atomic_fetch_sub_explicit(&guards, 1, MO_GUARD_END);
    return unused;
}

int main(void)
{
    void *(*const starts[])(void *) = {guard, low_recorder, high_recorder};
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert(capture == 1 && seen[0] <= 1 && seen[1] <= 1);
    return 0;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of a slot that is closed (pool/stream/stream_state.c,
 * event.c, call.c), for a checker of C11's memory model. The stream is plain
 * memory that its destruction writes, and the final event is plain memory too,
 * so that a use of either that is not ordered is a data race. Two slow paths
 * record on the stream while a third thread retires it.
 *
 * With -DSWEEP two slots are closed, and a third thread sweeps: who sees how
 * far the attention word has moved on finds as many slots closed. Each closer
 * sweeps as well, for the value that it moved the word to.
 *
 * Weakenings: -DMO_PIN=memory_order_acq_rel, -DMO_CLOSE=memory_order_release,
 * the stores before the looks; -DMO_CLOSED_LOOK=memory_order_acquire,
 * -DMO_WAIT=..., the looks; -DMO_UNPIN=memory_order_relaxed;
 * -DMO_FINAL=memory_order_relaxed, -DMO_FINAL_LOOK=...; with SWEEP
 * -DMO_MOVE=memory_order_relaxed, -DMO_MOVE=memory_order_release,
 * -DMO_ATTENTION=memory_order_relaxed, -DMOVE_FIRST (the word moves before the
 * slot is closed).
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_PIN
#define MO_PIN memory_order_seq_cst
#endif
#ifndef MO_CLOSED_LOOK
#define MO_CLOSED_LOOK memory_order_seq_cst
#endif
#ifndef MO_UNPIN
#define MO_UNPIN memory_order_seq_cst
#endif
#ifndef MO_CLOSE
#define MO_CLOSE memory_order_seq_cst
#endif
#ifndef MO_WAIT
#define MO_WAIT memory_order_seq_cst
#endif
#ifndef MO_FINAL
#define MO_FINAL memory_order_release
#endif
#ifndef MO_FINAL_LOOK
#define MO_FINAL_LOOK memory_order_acquire
#endif
#ifndef MO_MOVE
#define MO_MOVE memory_order_acq_rel
#endif
#ifndef MO_ATTENTION
#define MO_ATTENTION memory_order_acquire
#endif

#ifdef SWEEP

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_closed[2];
static atomic_uint attention;

/* A guard's mark, which changes no count, comes in between. */
static void mark(void)
{
    atomic_fetch_or_explicit(&attention, 4, memory_order_relaxed);
}

static void sweep(unsigned seen)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 2; i++)
        count += atomic_load_explicit(&is_closed[i], memory_order_acquire);
    assert(count >= (seen & 3));
}

static unsigned move_on(void)
{
    return atomic_fetch_add_explicit(&attention, 1, MO_MOVE) + 1;
}

static void close_slot(atomic_bool *slot)
{
    pthread_mutex_lock(&slots_lock);
    atomic_store_explicit(slot, true, MO_CLOSE);
    pthread_mutex_unlock(&slots_lock);
}

static void retire(atomic_bool *slot)
{
#ifdef MOVE_FIRST
    unsigned now = move_on();
    close_slot(slot);
#else
    close_slot(slot);
    unsigned now = move_on();
#endif
    sweep(now);
}

static void *first(void *unused)
{
    retire(&is_closed[0]);
    return unused;
}

static void *second(void *unused)
{
    retire(&is_closed[1]);
    return unused;
}

static void *third(void *unused)
{
    mark();
    sweep(atomic_load_explicit(&attention, MO_ATTENTION));
    return unused;
}

#else

static atomic_uint pins;
static atomic_bool is_closed;
static unsigned event;
static _Atomic(unsigned *) final_event;
static unsigned stream = 1;

static void *slow_path(void *unused)
{
    atomic_fetch_add_explicit(&pins, 1, MO_PIN);
    bool was_closed = atomic_load_explicit(&is_closed, MO_CLOSED_LOOK);
    if (!was_closed)
        assert(stream == 1);
    atomic_fetch_sub_explicit(&pins, 1, MO_UNPIN);
    if (was_closed) {
        const unsigned *final =
            atomic_load_explicit(&final_event, MO_FINAL_LOOK);
        assert(!final || *final == 1);
    }
    return unused;
}

static void *retirer(void *unused)
{
    atomic_store_explicit(&is_closed, true, MO_CLOSE);
    while (atomic_load_explicit(&pins, MO_WAIT) != 0)
        continue;
    event = stream;
    atomic_store_explicit(&final_event, &event, MO_FINAL);
    stream = 2;
    return unused;
}

#define first retirer
#define second slow_path
#define third slow_path
#endif

int main(void)
{
    void *(*const starts[])(void *) = {first, second, third};
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

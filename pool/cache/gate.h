/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The final scan: may a search that found nothing be called exhaustion? Memory
 * can be free and yet be seen by nobody, while another thread moves it: between a
 * cache and a heap, or between the heaps of two streams. And a hole can move: be
 * given behind a search and taken again before it.
 *
 * Edge IN. Every call that is no hit is a slow path: its thread state's counter
 * is odd meanwhile. The thread that searches for the last time closes the gate.
 * An slow path that would take memory looks at the gate after it has counted
 * itself, and if it is closed steps out again and waits; one that gives goes
 * on. So when the searcher has seen, after closing the gate, all counters even,
 * nothing is taken any more, and what it finds neither free nor in anyone's
 * hands is not there, provided that the counters have not moved when it has
 * looked. Otherwise it looks again.
 *
 * Nobody waits here for good: a thread that has waited at the gate for long
 * opens it, and the one that closed it finds out and has proved nothing.
 *
 * tests/models/exhaustion.pml is this protocol, gate_mo.c its memory orders.
 */
#ifndef MOIETY_POOL_CACHE_GATE_H_
#define MOIETY_POOL_CACHE_GATE_H_

#include "pool/cache/state.h"

/* Steps out of a slow path while the pool is stopped: see
 * pool/observe/heap/stop_world.h. */
void moietyi_slow_path_wait(struct moietyi_thread_state *thread_state);

/* Counts it in. False: the pool is stopped, and the slow path must step out. */
static inline bool
moietyi_slow_path_count(struct moietyi_thread_state *thread_state)
{
    /* relaxed: only the owner writes. */
    uint64_t before =
        atomic_load_explicit(&thread_state->slow_path, memory_order_relaxed);
    if (before % 2)
        return true;
    /* IN.seq_cst, and so is the look at the gate that follows in a taker: one
     * of the two sees the other. */
    (void)atomic_exchange_explicit(&thread_state->slow_path, before + 1,
                                   memory_order_seq_cst);
    /* IN.seq_cst: as for the gate. */
    return atomic_load_explicit(&thread_state->engine->stop,
                                memory_order_seq_cst) %
               2 ==
           0;
}

static inline void
moietyi_slow_path_begin(struct moietyi_thread_state *thread_state)
{
    if (!moietyi_slow_path_count(thread_state))
        moietyi_slow_path_wait(thread_state);
}

static inline void
moietyi_slow_path_end(struct moietyi_thread_state *thread_state)
{
    /* relaxed: only the owner writes. */
    uint64_t before =
        atomic_load_explicit(&thread_state->slow_path, memory_order_relaxed);
    /* IN.release: a thread that sees the even number sees all that was
     * moved. */
    if (before % 2)
        atomic_store_explicit(&thread_state->slow_path, before + 1,
                              memory_order_release);
}

/* Whether no thread but `except` is inside, and the sum of all slow paths so
 * far, which each one raises. Takes the registry's lock. */
bool moietyi_slow_paths_are_over(struct moietyi_engine *engine,
                                 const struct moietyi_thread_state *except,
                                 uint64_t *out_sum);

/* Whether a thread is inside: a slow path, a callback, or the source's work.
 * Takes the registry's lock. Hits are not seen. */
bool moietyi_engine_is_used(struct moietyi_engine *engine);

/* Whether the gate is open; inside a slow path that is to take memory. */
static inline bool moietyi_gate_is_open(struct moietyi_engine *engine)
{
    /* IN.seq_cst: after the slow path has begun. */
    return atomic_load_explicit(&engine->gate, memory_order_seq_cst) % 2 == 0;
}

/* Waits for the gate, outside of slow paths. After a long wait it opens the
 * gate itself. */
void moietyi_gate_wait(struct moietyi_engine *engine);
/* False: another thread has closed it. */
bool moietyi_gate_try_close(struct moietyi_engine *engine,
                            uint64_t *out_ticket);
/* False: it was not closed with this ticket all the time. */
bool moietyi_gate_open(struct moietyi_engine *engine, uint64_t ticket);

#endif

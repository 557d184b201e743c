/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/cache/gate.h"

#include "pool/base/clock.h"
#include "pool/cache/registry.h"
#include "pool/cache/thread.h"

/* Longer than a look takes, unless its thread loses its processor. */
#define PATIENCE_NS UINT64_C(100000000)
#define NAP_NS 20000L
#define NAP_MOST_NS 500000L

/* The sum of all slow paths so far; registry's lock. */
static uint64_t count_slow_paths(const struct moietyi_engine *engine,
                                 const struct moietyi_thread_state *except,
                                 bool *out_are_over)
{
    bool are_over = true;
    uint64_t sum = engine->gone_slow_paths;
    for (const struct moietyi_thread_state *thread_state =
             engine->thread_states;
         thread_state; thread_state = thread_state->of_pool) {
        if (thread_state == except)
            continue;
        /* IN.seq_cst: after the gate's swap; it acquires: an ended slow path is
         * seen whole. */
        uint64_t slow_path = atomic_load_explicit(&thread_state->slow_path,
                                                  memory_order_seq_cst);
        are_over = are_over && slow_path % 2 == 0;
        sum += slow_path;
    }
    *out_are_over = are_over;
    return sum;
}

bool moietyi_slow_paths_are_over(struct moietyi_engine *engine,
                                 const struct moietyi_thread_state *except,
                                 uint64_t *out_sum)
{
    bool are_over;
    moietyi_registry_lock();
    *out_sum =
        count_slow_paths(engine, except, &are_over) + engine->abandoned_count;
    moietyi_registry_unlock();
    return are_over;
}

static bool is_used_by(const struct moietyi_thread_state *thread_state)
{
    const struct moiety_pool *pool = thread_state->engine->pool;
    /* IN.seq_cst: after the pool was marked; a call that begins later sees the
     * mark. OU.acquire: a thread that left a callback has begun a slow path
     * before, which the next sum shows. */
    return atomic_load_explicit(&thread_state->slow_path,
                                memory_order_seq_cst) %
               2 ||
           atomic_load_explicit(&thread_state->is_calling_back,
                                memory_order_acquire) ||
           (thread_state->thread &&
            moietyi_thread_serving(thread_state->thread) == pool);
}

/* Threads that end meanwhile are not calls. */
static bool calls_are_over(struct moietyi_engine *engine, uint64_t *out_sum)
{
    bool are_over;
    moietyi_registry_lock();
    *out_sum = count_slow_paths(engine, NULL, &are_over);
    moietyi_registry_unlock();
    return are_over;
}

bool moietyi_engine_is_used(struct moietyi_engine *engine)
{
    uint64_t before;
    uint64_t after;
    bool is_used =
        !calls_are_over(engine, &before) ||
        /* IN.acquire: a thread that has stopped escalating began a slow path
         * before. */
        atomic_load_explicit(&engine->escalating_count, memory_order_acquire) ||
        moietyi_segments_are_growing(engine->segments);
    moietyi_registry_lock();
    for (const struct moietyi_thread_state *thread_state =
             engine->thread_states;
         thread_state && !is_used; thread_state = thread_state->of_pool)
        is_used = is_used_by(thread_state);
    moietyi_registry_unlock();
    /* An escalating thread that left its slow path for a while is seen there,
     * or has begun a slow path since. */
    return is_used || !calls_are_over(engine, &after) || before != after;
}

/* Waits, because the thread that stops the pool reads what these slow paths
 * would change. */
static void wait_for_stop(struct moietyi_engine *engine)
{
    long nap_ns = NAP_NS;
    /* IN.seq_cst: the reading is over. */
    while (atomic_load_explicit(&engine->stop, memory_order_seq_cst) % 2)
        moietyi_nap_longer(&nap_ns, NAP_MOST_NS);
}

void moietyi_slow_path_wait(struct moietyi_thread_state *thread_state)
{
    do {
        moietyi_slow_path_end(thread_state);
        wait_for_stop(thread_state->engine);
    } while (!moietyi_slow_path_count(thread_state));
}

void moietyi_gate_wait(struct moietyi_engine *engine)
{
    /* IN.seq_cst, here and below: one order for all of the gate's changes. */
    uint64_t ticket = atomic_load_explicit(&engine->gate, memory_order_seq_cst);
    uint64_t end_ns = moietyi_now_ns() + PATIENCE_NS;
    long nap_ns = NAP_NS;
    if (ticket % 2 == 0)
        return;
    /* IN.seq_cst: as above. */
    while (atomic_load_explicit(&engine->gate, memory_order_seq_cst) ==
           ticket) {
        if (moietyi_now_ns() >= end_ns) {
            /* IN.seq_cst: opened by a swap. The searcher opens it by a swap
             * too, so only one of the two succeeds. */
            (void)atomic_compare_exchange_strong_explicit(
                &engine->gate, &ticket, ticket + 1, memory_order_seq_cst,
                memory_order_seq_cst);
            return;
        }
        moietyi_nap_longer(&nap_ns, NAP_MOST_NS);
    }
}

bool moietyi_gate_try_close(struct moietyi_engine *engine, uint64_t *out_ticket)
{
    /* IN.seq_cst: only the start of the swap. */
    uint64_t open = atomic_load_explicit(&engine->gate, memory_order_seq_cst);
    /* IN.seq_cst: before the look at the counters. */
    if (open % 2 || !atomic_compare_exchange_strong_explicit(
                        &engine->gate, &open, open + 1, memory_order_seq_cst,
                        memory_order_seq_cst))
        return false;
    *out_ticket = open + 1;
    return true;
}

bool moietyi_gate_open(struct moietyi_engine *engine, uint64_t ticket)
{
    /* IN.seq_cst: a swap that fails says that a waiter had opened it. */
    return atomic_compare_exchange_strong_explicit(
        &engine->gate, &ticket, ticket + 1, memory_order_seq_cst,
        memory_order_seq_cst);
}

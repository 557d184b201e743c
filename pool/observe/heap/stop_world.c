/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/observe/heap/stop_world.h"

#include <sched.h>

#include "pool/base/barrier.h"
#include "pool/base/clock.h"
#include "pool/cache/gate.h"
#include "pool/cache/registry.h"

/* How long calls that were under way are waited for. */
#define SETTLE_NS UINT64_C(50000000)
#define YIELDS 64U
#define NAP_NS 50000L

/* The registry's lock held. */
static void ask_all(struct moietyi_engine *engine)
{
    for (struct moietyi_thread_state *thread_state = engine->thread_states;
         thread_state; thread_state = thread_state->of_pool) {
        if (!thread_state->thread)
            continue;
        /* CL.seq_cst: before the barrier. An owner who sees it sees the
         * attention word. */
        (void)atomic_fetch_or_explicit(&thread_state->thread->revocation,
                                       MOIETYI_REVOKE_ASKED,
                                       memory_order_seq_cst);
    }
}

/* After the barrier: whether no thread is in a hit. */
static bool are_hits_over(struct moietyi_engine *engine,
                          const struct moietyi_thread_state *except)
{
    bool are_over = true;
    moietyi_registry_lock();
    for (const struct moietyi_thread_state *thread_state =
             engine->thread_states;
         thread_state; thread_state = thread_state->of_pool) {
        /* OU.acquire: what its hits did. CL.seq_cst: after the barrier. */
        if (thread_state != except && thread_state->thread &&
            atomic_load_explicit(&thread_state->thread->is_inside,
                                 memory_order_seq_cst) == 1)
            are_over = false;
    }
    moietyi_registry_unlock();
    return are_over;
}

static bool stop_world_wait_for_rest(const struct moietyi_call *call)
{
    uint64_t sum;
    uint64_t end_ns = moietyi_now_ns() + SETTLE_NS;
    for (unsigned i = 0;
         !are_hits_over(call->engine, call->thread_state) ||
         !moietyi_slow_paths_are_over(call->engine, call->thread_state, &sum);
         i++) {
        if (moietyi_now_ns() >= end_ns)
            return false;
        if (i < YIELDS)
            (void)sched_yield();
        else
            moietyi_nap(NAP_NS);
    }
    return true;
}

/* A full barrier in all running threads; where the kernel has none, each thread
 * has its own. */
static bool stop_world_pass_barrier(void)
{
    return !moietyi_barrier_is_there() || moietyi_barrier_all();
}

bool moietyi_stop_world(struct moietyi_call *call)
{
    struct moietyi_engine *engine = call->engine;
    moietyi_slow_path_end(call->thread_state);
    pthread_mutex_lock(&engine->stop_lock);
    /* IN.seq_cst: odd from here on. Only the lock's holder changes it. */
    (void)atomic_fetch_add_explicit(&engine->stop, 1, memory_order_seq_cst);
    /* AT.seq_cst: before the asking, with which it becomes visible. */
    atomic_fetch_or_explicit(&call->pool->attention, MOIETYI_ATTENTION_STOPPED,
                             memory_order_seq_cst);
    moietyi_registry_lock();
    ask_all(engine);
    moietyi_registry_unlock();
    if (stop_world_pass_barrier() && stop_world_wait_for_rest(call))
        return true;
    moietyi_start_world(call);
    return false;
}

void moietyi_start_world(struct moietyi_call *call)
{
    struct moietyi_engine *engine = call->engine;
    /* AT.release: what was read was read before hits write again. A thread that
     * sees it late makes one call more that is no hit. */
    atomic_fetch_and_explicit(&call->pool->attention,
                              ~MOIETYI_ATTENTION_STOPPED, memory_order_release);
    /* IN.seq_cst: even again; a thread that waits for it sees that the reading
     * is over. */
    (void)atomic_fetch_add_explicit(&engine->stop, 1, memory_order_seq_cst);
    pthread_mutex_unlock(&engine->stop_lock);
}

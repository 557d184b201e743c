/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The one place that may say that memory is exhausted: see pool/cache/gate.h.
 * What the gate holds back is other threads' allocations that are no hits, and
 * trims; frees go on. As what a thread holds is finite, so are the frees that
 * can disturb a look, and the gate stays closed until one is undisturbed.
 */
#include <sched.h>

#include "pool/base/clock.h"
#include "pool/cache/gate.h"
#include "pool/climb.h"

/* How long the gate is closed at most, give or take a look: for operations that
 * were inside, whose threads may have to wait for a processor. */
#define CLOSED_NS UINT64_C(20000000)
#define YIELDS 64U
#define NAP_NS 50000L

/* Returns whether all others were outside at one moment after the gate closed,
 * and the sum of operations then. */
static bool wait_for_rest(const struct binadei_call *call, uint64_t end_ns,
                          uint64_t *out_sum)
{
    for (unsigned i = 0;
         !binadei_operations_are_over(call->engine, call->member, out_sum);
         i++) {
        if (binadei_now_ns() >= end_ns)
            return false;
        if (i < YIELDS)
            (void)sched_yield();
        else
            binadei_nap(NAP_NS);
    }
    return true;
}

static bool search(struct binadei_climb *climb)
{
    struct binadei_call *call = climb->call;
    (void)binadei_reclaim_orphans(call);
    (void)binadei_reclaim_own(call);
    (void)binadei_reclaim_idle(call);
    (void)binadei_reclaim_done(call);
    return binadei_take_last(call, climb->request, &climb->address);
}

/* Memory whose owner has gone, which could not be adopted just now. */
static bool has_orphans(const struct binadei_call *call)
{
    /* relaxed: a look. */
    return atomic_load_explicit(&call->engine->orphans, memory_order_relaxed) !=
           NULL;
}

/* One look behind the closed gate. */
static enum binadei_verdict look(struct binadei_climb *climb, uint64_t end_ns)
{
    const struct binadei_call *call = climb->call;
    uint64_t before;
    uint64_t after;
    bool is_resting = wait_for_rest(call, end_ns, &before);
    if (search(climb))
        return BINADEI_FOUND;
    binadei_oom_look(climb);
    /* IN: where the search found a word empty because somebody inside moved what
     * was in it, the next look finds that one's counter moved. The search reads
     * words relaxed, so this is what acquires from the mover's swap. */
    atomic_thread_fence(memory_order_acquire);
    bool is_over =
        binadei_operations_are_over(call->engine, call->member, &after);
    return is_resting && is_over && before == after &&
                   !binadei_may_grow(climb) && !has_orphans(call)
               ? BINADEI_EXHAUSTED
               : BINADEI_UNDECIDED;
}

enum binadei_verdict binadei_last_look(struct binadei_climb *climb)
{
    struct binadei_call *call = climb->call;
    uint64_t ticket;
    if (binadei_grow_again(climb))
        return BINADEI_FOUND;
    while (!binadei_gate_try_close(&call->engine->gate, &ticket))
        binadei_call_pass_gate(call);
    uint64_t end_ns = binadei_now_ns() + CLOSED_NS;
    enum binadei_verdict verdict;
    do {
        verdict = look(climb, end_ns);
    } while (verdict == BINADEI_UNDECIDED && !binadei_may_grow(climb) &&
             binadei_now_ns() < end_ns);
    bool is_mine = binadei_gate_open(&call->engine->gate, ticket);
    return verdict == BINADEI_EXHAUSTED && !is_mine ? BINADEI_UNDECIDED
                                                    : verdict;
}

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

/* Whether all were outside, and nothing was moved since the sum was `before`. */
static bool is_undisturbed(const struct binadei_call *call, uint64_t before)
{
    uint64_t after;
    /* IN: where the search found a word empty because somebody inside moved what
     * was in it, the next look finds that one's counter moved. The search reads
     * words relaxed, so this is what acquires from the mover's swap. */
    atomic_thread_fence(memory_order_acquire);
    return binadei_operations_are_over(call->engine, call->member, &after) &&
           before == after;
}

/* One look behind the closed gate. */
static enum binadei_verdict look(struct binadei_climb *climb, uint64_t end_ns)
{
    const struct binadei_call *call = climb->call;
    uint64_t postponed = call->member->postponed;
    uint64_t before;
    bool is_resting = wait_for_rest(call, end_ns, &before);
    if (search(climb))
        return BINADEI_FOUND;
    if (is_resting && is_undisturbed(call, before) &&
        !binadei_may_grow(climb) && call->member->postponed == postponed) {
        /* The report is of the same moment, or there is another look. */
        binadei_oom_look(climb);
        if (is_undisturbed(call, before))
            return BINADEI_EXHAUSTED;
    }
    return BINADEI_UNDECIDED;
}

enum binadei_verdict binadei_last_look(struct binadei_climb *climb)
{
    struct binadei_call *call = climb->call;
    uint64_t ticket;
    if (binadei_grow_again(climb))
        return BINADEI_FOUND;
    while (!binadei_gate_try_close(call->engine, &ticket))
        binadei_call_pass_gate(call);
    uint64_t end_ns = binadei_now_ns() + CLOSED_NS;
    enum binadei_verdict verdict;
    do {
        verdict = look(climb, end_ns);
    } while (verdict == BINADEI_UNDECIDED && !binadei_may_grow(climb) &&
             binadei_now_ns() < end_ns);
    bool is_mine = binadei_gate_open(call->engine, ticket);
    return verdict == BINADEI_EXHAUSTED && !is_mine ? BINADEI_UNDECIDED
                                                    : verdict;
}

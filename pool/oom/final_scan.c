/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The only place that may declare memory exhausted: see pool/cache/gate.h. The
 * gate holds back allocations of other threads that are no hits, and trims;
 * frees go on. A thread holds a finite number of blocks, so only so many frees
 * can disturb a look, and the gate stays closed until one look is undisturbed.
 */
#include <sched.h>

#include "pool/base/clock.h"
#include "pool/cache/gate.h"
#include "pool/oom/escalation.h"

/* How long the gate is closed at most, plus one look. Slow paths that were
 * inside may have to wait for a processor. */
#define CLOSED_NS UINT64_C(20000000)
#define YIELDS 64U
#define NAP_NS 50000L
#define NAP_MOST_NS 500000L
/* After a look the gate stays open for so many times as long as it was closed,
 * so that a failing allocation does not stop the others. */
#define OPEN_FOR_CLOSED 3U
/* How long a thread waits for that, at most: others' looks may come first. */
#define TURN_NS UINT64_C(200000000)

/* Returns whether all others were outside at one moment after the gate closed,
 * and the sum of slow paths then. */
static bool final_scan_wait_for_rest(const struct moietyi_call *call,
                                     uint64_t end_ns, uint64_t *out_sum)
{
    for (unsigned i = 0; !moietyi_slow_paths_are_over(
             call->engine, call->thread_state, out_sum);
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

static bool final_scan_search(struct moietyi_escalation *escalation)
{
    struct moietyi_call *call = escalation->call;
    (void)moietyi_reclaim_abandoned(call);
    (void)moietyi_reclaim_own(call);
    (void)moietyi_steal_caches(call);
    (void)moietyi_reclaim_done(call);
    if (escalation->may_wait)
        (void)moietyi_reclaim_idle_streams(call);
    return moietyi_take_last(call, escalation->request, &escalation->address);
}

/* Whether all were outside, and no memory moved since the sum was `before`. */
static bool is_undisturbed(const struct moietyi_call *call, uint64_t before)
{
    uint64_t after;
    /* IN: if the search found a place empty because a thread inside moved its
     * memory, the next look finds that thread's counter changed. The search
     * reads sums and hints relaxed, so it acquires here as well as by locks. */
    atomic_thread_fence(memory_order_acquire);
    return moietyi_slow_paths_are_over(call->engine, call->thread_state,
                                       &after) &&
           before == after;
}

/* One look behind the closed gate. */
static enum moietyi_verdict
final_scan_again(struct moietyi_escalation *escalation, uint64_t end_ns)
{
    const struct moietyi_call *call = escalation->call;
    uint64_t postponed = call->thread_state->postponed;
    uint64_t before;
    bool is_resting = final_scan_wait_for_rest(call, end_ns, &before);
    if (final_scan_search(escalation))
        return MOIETYI_FOUND;
    if (is_resting && is_undisturbed(call, before) &&
        !moietyi_may_grow(escalation) &&
        call->thread_state->postponed == postponed &&
        /* What another thread's growth has left may be enough. */
        !moietyi_segments_are_growing(escalation->body->segments) &&
        /* Wholly free segments must have gone back and been asked for again. */
        !moietyi_may_regrow(escalation)) {
        /* The report is of the same moment, or there is another look. */
        moietyi_oom_look(escalation);
        if (is_undisturbed(call, before))
            return MOIETYI_EXHAUSTED;
    }
    return MOIETYI_UNDECIDED;
}

/* Waits until the gate may be closed. Returns whether memory was free first. */
static bool is_found_before_turn(struct moietyi_escalation *escalation,
                                 uint64_t turn_end_ns)
{
    const _Atomic uint64_t *next_scan_ns =
        &escalation->call->engine->next_scan_ns;
    long nap_ns = NAP_NS;
    uint64_t now_ns = moietyi_now_ns();
    /* relaxed: advice. */
    while (now_ns < turn_end_ns &&
           now_ns < atomic_load_explicit(next_scan_ns, memory_order_relaxed)) {
        moietyi_call_nap(escalation->call, &nap_ns, NAP_MOST_NS);
        if (moietyi_take(escalation->call, escalation->request,
                         &escalation->address))
            return true;
        now_ns = moietyi_now_ns();
    }
    return false;
}

/* Returns whether memory was free before the gate could be closed. */
static bool is_found_before_close(struct moietyi_escalation *escalation,
                                  uint64_t *out_ticket)
{
    uint64_t turn_end_ns = moietyi_now_ns() + TURN_NS;
    for (;;) {
        if (is_found_before_turn(escalation, turn_end_ns))
            return true;
        if (moietyi_gate_try_close(escalation->call->engine, out_ticket))
            return false;
        moietyi_call_pass_gate(escalation->call);
    }
}

/* False: another thread opened it before. */
static bool open_gate(struct moietyi_engine *engine, uint64_t ticket,
                      uint64_t closed_at_ns)
{
    uint64_t now_ns = moietyi_now_ns();
    /* relaxed: advice. */
    atomic_store_explicit(&engine->next_scan_ns,
                          now_ns + OPEN_FOR_CLOSED * (now_ns - closed_at_ns),
                          memory_order_relaxed);
    return moietyi_gate_open(engine, ticket);
}

enum moietyi_verdict moietyi_final_scan(struct moietyi_escalation *escalation)
{
    struct moietyi_call *call = escalation->call;
    uint64_t ticket;
    if (moietyi_grow_again(escalation) ||
        is_found_before_close(escalation, &ticket))
        return MOIETYI_FOUND;
    uint64_t closed_at_ns = moietyi_now_ns();
    uint64_t end_ns = closed_at_ns + CLOSED_NS;
    enum moietyi_verdict verdict;
    do {
        verdict = final_scan_again(escalation, end_ns);
    } while (verdict == MOIETYI_UNDECIDED && !moietyi_may_grow(escalation) &&
             !moietyi_may_regrow(escalation) && moietyi_now_ns() < end_ns);
    bool is_mine = open_gate(call->engine, ticket, closed_at_ns);
    return verdict == MOIETYI_EXHAUSTED && !is_mine ? MOIETYI_UNDECIDED
                                                    : verdict;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The steps before a failure, each counted. Steps that get memory for this
 * caller only come before steps that cost others time. The program's callbacks
 * and waiting for events are last. Segments go back to the driver, which may
 * stall the process, only if the driver refuses more memory.
 *
 * Others keep their hits meanwhile, except for blocks that are taken out of
 * their caches; an escalating thread that waits takes them once a millisecond.
 */
#include "pool/oom/escalate.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/cache/magazine.h"
#include "pool/core/recorded.h"
#include "pool/oom/escalation.h"
#include "pool/oom/give_back.h"
#include "pool/oom/others.h"
#include "pool/oom/watermark.h"
#include "pool/stream/epoch.h"

/* At first a thread yields: others free something soon, or never. */
#define NAP_NS 1000L
#define NAP_MOST_NS 1000000L
#define LOOK_NAP_MOST_NS 10000000L
/* Less than this part of what is reserved is little. */
#define LITTLE_PART 32U
/* At least how long an escalating thread looks again because others are at
 * work; and at most how long it waits for their caches. */
#define SETTLE_NS UINT64_C(200000000)
#define LOOKS_MOST 1000U
/* How long a thread looks for memory that others drain. */
#define OTHERS_NS UINT64_C(50000)
#define OTHERS_APART_NS UINT64_C(2000)

_Static_assert(MOIETY_OOM_STEPS == (int)MOIETYI_COUNT_ESCALATION_END -
                                       (int)MOIETYI_COUNT_ESCALATION,
               "a step has no count");

static enum moietyi_verdict verdict_of(bool is_found)
{
    return is_found ? MOIETYI_FOUND : MOIETYI_EXHAUSTED;
}

/* The only way of an old driver; it takes as long as the device works. */
static bool escalate_to_synchronise(struct moietyi_escalation *escalation)
{
    return escalation->may_wait && escalation->body->options.wait_ms &&
           moietyi_reclaim_synchronise(escalation->call);
}

/* Whether other threads escalate too. */
static bool are_others_at_it(const struct moietyi_escalation *escalation)
{
    const struct moietyi_engine *engine = escalation->call->engine;
    /* relaxed: a hint. */
    return atomic_load_explicit(&engine->escalating_count,
                                memory_order_relaxed) > 1;
}

/* If many threads escalate at once, one of them records and drains for all; the
 * others look again for a while before they take steps that cost more. */
static enum moietyi_verdict
escalate_to_done(struct moietyi_escalation *escalation)
{
    const struct moietyi_streams *streams = &escalation->call->engine->streams;
    uint64_t end_ns = moietyi_now_ns() + OTHERS_NS;
    bool is_any = moietyi_reclaim_done(escalation->call);
    bool is_crowd = escalation->may_wait && escalation->call->is_pressed &&
                    are_others_at_it(escalation);
    if ((is_any || is_crowd) && moietyi_escalation_take_last(escalation))
        return MOIETYI_FOUND;
    while (is_crowd && moietyi_now_ns() < end_ns) {
        moietyi_yield_for(OTHERS_APART_NS);
        is_any = moietyi_reclaim_poll(escalation->call);
        if (moietyi_escalation_take(escalation))
            return MOIETYI_FOUND;
        is_crowd = are_others_at_it(escalation) &&
                   (is_any || moietyi_epochs_are_in_flight(streams));
    }
    return verdict_of(escalate_to_synchronise(escalation) &&
                      moietyi_escalation_take(escalation));
}

/* The calling thread's. */
static enum moietyi_verdict
escalate_to_own_cache(struct moietyi_escalation *escalation)
{
    (void)moietyi_reclaim_own(escalation->call);
    /* Blocks that left the cache may wait for all work instead of an event. */
    (void)escalate_to_synchronise(escalation);
    return verdict_of(moietyi_escalation_take_last(escalation));
}

static enum moietyi_verdict
abandoned_caches(struct moietyi_escalation *escalation)
{
    if (!moietyi_reclaim_abandoned(escalation->call))
        return MOIETYI_EXHAUSTED;
    (void)moietyi_reclaim_done(escalation->call);
    (void)escalate_to_synchronise(escalation);
    return verdict_of(moietyi_escalation_take_last(escalation));
}

static enum moietyi_verdict idle_threads(struct moietyi_escalation *escalation)
{
    if (!moietyi_steal_caches(escalation->call))
        return MOIETYI_EXHAUSTED;
    (void)moietyi_reclaim_done(escalation->call);
    (void)escalate_to_synchronise(escalation);
    return verdict_of(moietyi_escalation_take_last(escalation));
}

/* Memory that was freed meanwhile may be in pieces that can move, even if none
 * can be given back. */
static bool may_move(const struct moietyi_escalation *escalation)
{
    return moietyi_segments_are_mapped(escalation->body->segments);
}

static enum moietyi_verdict trim(struct moietyi_escalation *escalation)
{
    struct moietyi_given_back given;
    moiety_status status = moietyi_give_back(escalation->call, 0, &given);
    escalation->is_held_up = given.is_held_up;
    moietyi_escalation_note(escalation, MOIETY_HISTORY_TRIM, status,
                            given.bytes);
    escalation->report.steps[MOIETY_OOM_TRIM].gave_bytes += given.bytes;
    return given.bytes || may_move(escalation)
               ? moietyi_escalation_run(escalation, MOIETY_OOM_GROW,
                                        moietyi_escalation_grow)
               : MOIETYI_EXHAUSTED;
}

static enum moietyi_verdict
escalate_to_hand_over(struct moietyi_escalation *escalation)
{
    return verdict_of(moietyi_hand_over(escalation->call, escalation->request,
                                        &escalation->address));
}

static uint64_t wait_ns(const struct moietyi_escalation *escalation)
{
    return escalation->body->options.wait_ms * UINT64_C(1000000);
}

/* The most bytes that the pool could give back, or move, once the device
 * rests. */
static uint64_t own_idle_bytes(const struct moietyi_escalation *escalation)
{
    return may_move(escalation)
               ? moietyi_space_free_grains(escalation->body->space) *
                     MOIETYI_GRAIN_BYTES
               : moietyi_segments_whole_bytes(escalation->body->segments);
}

/* Whether memory that only the device's work keeps from going back, here and in
 * other pools, would leave room: below the limit, and in the device if that was
 * short. */
static bool may_held_up_help(const struct moietyi_escalation *escalation)
{
    const struct moietyi_others *others = &escalation->others;
    uint64_t bytes = moietyi_escalation_bytes(escalation);
    uint64_t room = moietyi_limit_of(escalation->body);
    uint64_t kept = moietyi_segments_reserved_bytes(escalation->body->segments);
    uint64_t idle = own_idle_bytes(escalation);
    kept = kept > idle ? kept - idle : 0;
    return ((escalation->is_held_up && idle) || others->held_up_bytes) &&
           room > kept && room - kept >= bytes &&
           (!escalation->is_driver_short ||
            moietyi_others_may_do(others, idle, bytes));
}

/* As long as the option says, while any memory may still become free. */
static bool may_wait_on(const struct moietyi_escalation *escalation)
{
    return (moietyi_epochs_are_pending(&escalation->body->engine->streams) ||
            may_held_up_help(escalation)) &&
           !moietyi_is_overdue(escalation->wait_end_ns);
}

/* Wholly free segments go back to the source, which may return the memory in
 * one piece. */
static bool is_regrown(struct moietyi_escalation *escalation)
{
    if (!may_move(escalation) &&
        (!moietyi_segments_whole_bytes(escalation->body->segments) ||
         (escalation->is_held_up &&
          !moietyi_reclaim_is_device_idle(escalation->call))))
        return false;
    return moietyi_escalation_is_found(escalation, MOIETY_OOM_TRIM, trim);
}

/* Asks one pool after the other, as long as the driver has too little. */
static enum moietyi_verdict
escalate_to_others(struct moietyi_escalation *escalation)
{
    struct moietyi_others *others = &escalation->others;
    moiety_status status = MOIETY_OK;
    bool is_found = false;
    while (!is_found && escalation->is_driver_short &&
           moietyi_others_ask(escalation->call, others, &status)) {
        escalation->refused_at_bytes = UINT64_MAX;
        is_found = moietyi_grow_again(escalation);
    }
    escalation->report.other_pool_count = others->pool_count;
    escalation->report.other_pool_bytes = others->bytes;
    if (status == MOIETY_OK)
        return verdict_of(is_found);
    escalation->refusal = status;
    return MOIETYI_BROKEN;
}

/* Asks the pools again that kept memory because the device worked. */
static enum moietyi_verdict
escalate_to_others_again(struct moietyi_escalation *escalation)
{
    return moietyi_others_begin_again(escalation->call, &escalation->others)
               ? escalate_to_others(escalation)
               : MOIETYI_EXHAUSTED;
}

/* Asks each event and each stream once. An event that could not be recorded
 * before may be by now, and others may have freed memory that this thread never
 * saw. */
static bool is_over_for(struct moietyi_escalation *escalation)
{
    struct moietyi_call *call = escalation->call;
    (void)moietyi_steal_caches_at_times(call);
    (void)moietyi_reclaim_own(call);
    (void)moietyi_reclaim_idle_streams(call);
    return moietyi_escalation_take_last(escalation) || is_regrown(escalation);
}

/* A pool that may not wait asks at least once. */
static enum moietyi_verdict
wait_for_events(struct moietyi_escalation *escalation)
{
    long nap_ns = NAP_NS;
    while (!is_over_for(escalation)) {
        enum moietyi_verdict verdict = escalate_to_others_again(escalation);
        if (verdict != MOIETYI_EXHAUSTED)
            return verdict;
        if (!may_wait_on(escalation))
            return MOIETYI_EXHAUSTED;
        moietyi_call_nap(escalation->call, &nap_ns, NAP_MOST_NS);
    }
    return MOIETYI_FOUND;
}

/* Repeats the scan until others were seen at rest, or for long enough. */
static enum moietyi_verdict final_scans(struct moietyi_escalation *escalation)
{
    uint64_t patience_ns = wait_ns(escalation);
    uint64_t end_ns =
        moietyi_now_ns() + (patience_ns < SETTLE_NS ? SETTLE_NS : patience_ns);
    long nap_ns = NAP_NS;
    enum moietyi_verdict verdict = moietyi_final_scan(escalation);
    for (unsigned i = 1; verdict == MOIETYI_UNDECIDED && i < LOOKS_MOST &&
                         !moietyi_is_overdue(end_ns);
         i++) {
        moietyi_call_nap(escalation->call, &nap_ns, NAP_MOST_NS);
        verdict = moietyi_escalation_take(escalation) || is_regrown(escalation)
                      ? MOIETYI_FOUND
                      : moietyi_final_scan(escalation);
    }
    escalation->report.is_exact = verdict == MOIETYI_EXHAUSTED;
    if (verdict == MOIETYI_UNDECIDED)
        moietyi_oom_look(escalation);
    return verdict;
}

static bool is_enough(const struct moietyi_escalation *escalation,
                      uint64_t bytes)
{
    return bytes >= escalation->request->size.grains * MOIETYI_GRAIN_BYTES;
}

/* Memory that was freed since the last question about events, as the scan saw
 * it: they were over, and yet there is work to wait for again. */
static bool may_wait_again(const struct moietyi_escalation *escalation)
{
    return is_enough(escalation, escalation->report.retiring_bytes) &&
           !moietyi_is_overdue(escalation->wait_end_ns);
}

/* Threads give up what the scan saw in their caches at their next call. If they
 * make none soon, they are idle. */
static bool may_others_give(const struct moietyi_escalation *escalation)
{
    return is_enough(escalation, escalation->report.cached_others_bytes +
                                     escalation->report.retiring_bytes) &&
           !moietyi_is_overdue(escalation->others_end_ns);
}

static enum moietyi_verdict wait_and_scan(struct moietyi_escalation *escalation)
{
    long nap_ns = NAP_NS;
    uint64_t now_ns = moietyi_now_ns();
    uint64_t patience_ns = wait_ns(escalation);
    escalation->wait_end_ns = now_ns + patience_ns;
    escalation->others_end_ns =
        now_ns + (patience_ns < SETTLE_NS ? patience_ns : SETTLE_NS);
    for (;;) {
        enum moietyi_verdict verdict = moietyi_escalation_run(
            escalation, MOIETY_OOM_WAIT, wait_for_events);
        if (verdict == MOIETYI_FOUND || verdict == MOIETYI_BROKEN)
            return verdict;
        if (moietyi_escalation_is_found(escalation, MOIETY_OOM_LAST_LOOK,
                                        final_scans))
            return MOIETYI_FOUND;
        if (!may_wait_on(escalation) && !may_wait_again(escalation) &&
            !may_others_give(escalation))
            return MOIETYI_EXHAUSTED;
        /* Each scan holds others up. */
        moietyi_call_nap(escalation->call, &nap_ns, LOOK_NAP_MOST_NS);
        if (moietyi_escalation_take(escalation))
            return MOIETYI_FOUND;
    }
}

static bool escalation_is_exhausted(moiety_status status)
{
    return status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_NO_PINNED_MEMORY ||
           status == MOIETY_E_NO_HOST_MEMORY || status == MOIETY_OK;
}

static moiety_status fail(struct moietyi_escalation *escalation)
{
    moietyi_count(escalation->call->thread_state, MOIETYI_COUNT_OOMS, 1);
    return moietyi_oom_report(escalation, escalation->refusal == MOIETY_OK
                                              ? MOIETY_E_NO_DEVICE_MEMORY
                                              : escalation->refusal);
}

static bool may_hand_over(const struct moietyi_escalation *escalation)
{
    return (escalation->body->options.flags & MOIETY_POOL_REUSE_DEPENDENCIES) !=
           0;
}

/* The steps that cost others time. */
static moiety_status escalate_to_the_end(struct moietyi_escalation *escalation)
{
    if (moietyi_escalation_is_found(escalation, MOIETY_OOM_TRIM, trim))
        return MOIETY_OK;
    enum moietyi_verdict verdict = escalate_to_others(escalation);
    if (verdict == MOIETYI_BROKEN)
        return escalation->refusal;
    if (verdict == MOIETYI_FOUND ||
        (may_hand_over(escalation) &&
         moietyi_escalation_is_found(escalation, MOIETY_OOM_HAND_OVER,
                                     escalate_to_hand_over)))
        return MOIETY_OK;
    if (moietyi_has_callbacks(escalation))
        verdict = moietyi_escalation_run(escalation, MOIETY_OOM_CALLBACKS,
                                         moietyi_call_back);
    if (verdict != MOIETYI_FOUND && verdict != MOIETYI_BROKEN)
        verdict = wait_and_scan(escalation);
    if (verdict == MOIETYI_BROKEN)
        return escalation->refusal;
    return verdict == MOIETYI_FOUND ? MOIETY_OK : fail(escalation);
}

/* Looks at free memory of all threads. A pool that reaches this step has caches
 * that are too large for its limit. */
static bool is_cached(struct moietyi_escalation *escalation)
{
    escalation->call->is_pressed = true;
    moietyi_bounds_shrink(escalation->call->thread_state);
    return moietyi_escalation_is_found(escalation, MOIETY_OOM_OWN_CACHE,
                                       escalate_to_own_cache) ||
           moietyi_escalation_is_found(escalation, MOIETY_OOM_ORPHANS,
                                       abandoned_caches) ||
           moietyi_escalation_is_found(escalation, MOIETY_OOM_IDLE_THREADS,
                                       idle_threads);
}

/* Growing was refused. */
static moiety_status escalate_on(struct moietyi_escalation *escalation)
{
    escalation->begin_ns = moietyi_now_ns();
    moietyi_count(escalation->call->thread_state, MOIETYI_COUNT_RETRIES, 1);
    if (is_cached(escalation))
        return MOIETY_OK;
    return escalation->may_wait
               ? escalate_to_the_end(escalation)
               : moietyi_fail(MOIETY_E_WOULD_BLOCK,
                              "%zu bytes: nothing is free without waiting",
                              escalation->request->size_bytes);
}

static enum moietyi_verdict kept_back(struct moietyi_escalation *escalation)
{
    (void)moietyi_reclaim_own(escalation->call);
    return verdict_of(moietyi_escalation_take(escalation));
}

/* Looks at the thread's own caches. If they gave little, the thread keeps them
 * until the pool has grown: their hits are worth more than a segment costs. In
 * mapped pools they are always taken, because a cached block keeps a whole
 * piece from moving. */
static bool is_kept_back(struct moietyi_escalation *escalation)
{
    uint64_t reserved =
        moietyi_segments_reserved_bytes(escalation->body->segments);
    struct moietyi_thread_state *thread_state = escalation->call->thread_state;
    if (thread_state->poor_at_bytes == reserved && !may_move(escalation))
        return false;
    uint64_t before_bytes = thread_state->given_bytes;
    bool is_there = moietyi_escalation_is_found(
        escalation, MOIETY_OOM_OWN_CACHE, kept_back);
    if (thread_state->given_bytes - before_bytes < reserved / LITTLE_PART)
        thread_state->poor_at_bytes = reserved;
    return is_there;
}

/* Above the watermark, the pool grows only if no cache has memory. */
static bool is_grown(struct moietyi_escalation *escalation)
{
    bool is_free = !moietyi_watermark_is_exceeded_by(
        escalation->body, moietyi_escalation_bytes(escalation));
    const struct moietyi_segments *segments = escalation->body->segments;
    uint64_t before_bytes = moietyi_segments_reserved_bytes(segments);
    if (is_free ? is_kept_back(escalation) : is_cached(escalation))
        return true;
    if (!moietyi_escalation_is_found(escalation, MOIETY_OOM_GROW,
                                     moietyi_escalation_grow))
        return false;
    /* Memory that moved is no growth. */
    if (is_free && moietyi_segments_reserved_bytes(segments) != before_bytes)
        moietyi_bounds_note_growth(escalation->call->engine);
    return true;
}

/* The driver has refused more, or the limit would, so memory that streams freed
 * is drained at once. */
static bool is_short(const struct moietyi_escalation *escalation)
{
    uint64_t limit = moietyi_limit_of(escalation->body);
    uint64_t reserved =
        moietyi_segments_reserved_bytes(escalation->body->segments);
    /* relaxed: see body.h. */
    return atomic_load_explicit(&escalation->body->is_refused,
                                memory_order_relaxed) ||
           limit < reserved ||
           limit - reserved < moietyi_escalation_bytes(escalation);
}

static __attribute__((noinline)) moiety_status
escalate(struct moietyi_call *call, const struct moietyi_request *request,
         bool may_wait, moiety_devptr *out)
{
    struct moietyi_escalation escalation = {.call = call,
                                            .body = call->pool->body,
                                            .request = request,
                                            .may_wait = may_wait};
    moiety_status status = MOIETY_OK;
    atomic_uint *escalating_count = &call->engine->escalating_count;
    /* relaxed: the slow path's end, before it is outside, releases it. */
    atomic_fetch_add_explicit(escalating_count, 1, memory_order_relaxed);
    call->is_pressed |= is_short(&escalation);
    if (!moietyi_escalation_is_found(&escalation, MOIETY_OOM_DONE,
                                     escalate_to_done) &&
        !is_grown(&escalation)) {
        status = escalation_is_exhausted(escalation.refusal) ||
                         escalation.refusal == MOIETY_E_WOULD_BLOCK
                     ? escalate_on(&escalation)
                     : escalation.refusal;
    }
    /* IN.release: the slow path around this one began before. */
    atomic_fetch_sub_explicit(escalating_count, 1, memory_order_release);
    if (status == MOIETY_OK)
        *out = escalation.address;
    return status;
}

/* The context was found lost during the search for a block. */
static moiety_status give_lost(struct moietyi_call *call, moiety_devptr address)
{
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    if (status == MOIETY_OK)
        status = moietyi_put(call, &block, address);
    return status == MOIETY_OK
               ? moietyi_context_refuse(call->engine->streams.own_context)
               : status;
}

static moiety_status take_or_escalate(struct moietyi_call *call,
                                      const struct moietyi_request *request,
                                      bool may_wait, moiety_devptr *out)
{
    call->may_wait = may_wait;
    if (may_wait) {
        moietyi_call_pass_gate(call);
        moietyi_reclaim_own_stream(call);
        moietyi_steal_resting_caches(call);
    } else if (!moietyi_gate_is_open(call->engine)) {
        return moietyi_fail(MOIETY_E_WOULD_BLOCK,
                            "%zu bytes: another thread searches for the last "
                            "time",
                            request->size_bytes);
    }
    return moietyi_take_free(call, request, out)
               ? MOIETY_OK
               : escalate(call, request, may_wait, out);
}

moiety_status moietyi_alloc_escalating(struct moietyi_call *call,
                                       const struct moietyi_request *request,
                                       bool may_wait, moiety_devptr *out)
{
    moiety_devptr address = 0;
    if (moietyi_is_lost(call->pool))
        return moietyi_context_refuse(call->engine->streams.own_context);
    moiety_status status = take_or_escalate(call, request, may_wait, &address);
    if (status != MOIETY_OK)
        return status;
    if (moietyi_is_lost(call->pool))
        return give_lost(call, address);
    *out = address;
    return MOIETY_OK;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What all steps are made of: another look, a step's counts, and growing, which
 * each is tried after again.
 */
#include "pool/oom/escalation.h"

#include <inttypes.h>

#include "pool/base/log.h"
#include "pool/cache/gate.h"
#include "pool/core/recorded.h"

#define GROW_TRIES 64

bool binadei_escalation_take(struct binadei_escalation *escalation)
{
    return binadei_take(escalation->call, escalation->request,
                        &escalation->address);
}

bool binadei_escalation_take_last(struct binadei_escalation *escalation)
{
    return binadei_take_last(escalation->call, escalation->request,
                             &escalation->address);
}

enum binadei_verdict
binadei_escalation_run(struct binadei_escalation *escalation, unsigned step,
                       binadei_step_fn *function)
{
    struct binadei_thread_state *thread_state = escalation->call->thread_state;
    binade_oom_step *counts = &escalation->report.steps[step];
    uint64_t before_bytes = thread_state->given_bytes;
    binadei_count(thread_state, BINADEI_COUNT_ESCALATION + step, 1);
    counts->tries++;
    enum binadei_verdict verdict = function(escalation);
    counts->gave_bytes += thread_state->given_bytes - before_bytes;
    return verdict;
}

bool binadei_escalation_is_found(struct binadei_escalation *escalation,
                                 unsigned step, binadei_step_fn *function)
{
    return binadei_escalation_run(escalation, step, function) == BINADEI_FOUND;
}

void binadei_escalation_note(const struct binadei_escalation *escalation,
                             binade_history_kind kind, binade_status status,
                             uint64_t bytes)
{
    const struct binadei_note note = {
        .kind = kind, .status = status, .size_bytes = bytes};
    binadei_note(escalation->call, &note);
}

uint64_t binadei_escalation_bytes(const struct binadei_escalation *escalation)
{
    return escalation->request->size.grains * BINADEI_GRAIN_BYTES;
}

/* Outside of slow paths: it waits for other growers, and for the source. */
static binade_status grow_outside(struct binadei_escalation *escalation,
                                  uint64_t bytes)
{
    struct binadei_segments *segments = escalation->body->segments;
    binadei_slow_path_end(escalation->call->thread_state);
    binade_status status = escalation->may_wait
                               ? binadei_segments_grow(segments, bytes)
                               : binadei_segments_try_grow(segments, bytes);
    binadei_call_resume(escalation->call);
    if (escalation->may_wait)
        binadei_call_pass_gate(escalation->call);
    return status;
}

/* Mapped memory moves from map to map, so within the slow path; outside of it
 * while another thread grows, after which this one searches again. */
static binade_status grow_inside(struct binadei_escalation *escalation,
                                 uint64_t bytes)
{
    struct binadei_call *call = escalation->call;
    binade_status status = binadei_extend_for(call, bytes);
    if (status != BINADE_E_BUSY || !escalation->may_wait)
        return status;
    binadei_slow_path_end(call->thread_state);
    binadei_segments_await_growth(escalation->body->segments);
    binadei_call_resume(call);
    binadei_call_pass_gate(call);
    return BINADE_OK;
}

/* Once, until the pool has grown again. */
static bool is_new_shortage(struct binadei_pool_body *body, uint32_t bit)
{
    atomic_uint *told = &body->told_short;
    /* relaxed, both: see body.h. */
    return !(atomic_load_explicit(told, memory_order_relaxed) & bit) &&
           !(atomic_fetch_or_explicit(told, bit, memory_order_relaxed) & bit);
}

static void log_growth(const struct binadei_escalation *escalation,
                       binade_status status, uint64_t bytes)
{
    struct binadei_pool_body *body = escalation->body;
    bool is_of_device = escalation->is_driver_short;
    if (status == BINADE_OK)
        /* relaxed: see body.h. */
        atomic_store_explicit(&body->told_short, 0, memory_order_relaxed);
    bool is_short = status == BINADE_E_NO_DEVICE_MEMORY ||
                    status == BINADE_E_NO_PINNED_MEMORY;
    uint32_t level = is_of_device ? BINADE_LOG_WARNING : BINADE_LOG_INFO;
    if (!is_short || !binadei_log_wants(level) ||
        !is_new_shortage(body, is_of_device ? BINADEI_SHORT_OF_DEVICE
                                            : BINADEI_SHORT_OF_LIMIT))
        return;
    binadei_log(level,
                "pool %p: %s no room for %" PRIu64 " bytes more; %" PRIu64
                " are reserved of a limit of %" PRIu64,
                (void *)body->pool,
                is_of_device ? "the driver has" : "the limit leaves", bytes,
                binadei_segments_reserved_bytes(body->segments),
                binadei_limit_of(body));
}

static binade_status grow_once(struct binadei_escalation *escalation)
{
    uint64_t bytes = binadei_escalation_bytes(escalation);
    struct binadei_segments *segments = escalation->body->segments;
    uint64_t before_bytes = binadei_segments_reserved_bytes(segments);
    uint64_t refusals = binadei_segments_refusals(segments);
    binade_status status = binadei_segments_are_mapped(segments)
                               ? grow_inside(escalation, bytes)
                               : grow_outside(escalation, bytes);
    uint64_t after_bytes = binadei_segments_reserved_bytes(segments);
    uint64_t more_bytes =
        after_bytes > before_bytes ? after_bytes - before_bytes : 0;
    if (status == BINADE_OK)
        escalation->report.steps[BINADE_OOM_GROW].gave_bytes += more_bytes;
    /* It may have waited for others who grew. */
    escalation->refused_at_bytes =
        after_bytes > before_bytes ? after_bytes : before_bytes;
    escalation->is_driver_short =
        status == BINADE_E_NO_DEVICE_MEMORY &&
        binadei_segments_refusals(segments) != refusals;
    log_growth(escalation, status, bytes);
    binadei_escalation_note(escalation, BINADE_HISTORY_GROW, status,
                            status == BINADE_OK ? more_bytes : bytes);
    return status;
}

/* Until the source refuses: others may take what was added. */
enum binadei_verdict
binadei_escalation_grow(struct binadei_escalation *escalation)
{
    for (unsigned i = 0; i < GROW_TRIES; i++) {
        escalation->refusal = grow_once(escalation);
        if (escalation->refusal != BINADE_OK)
            return BINADEI_EXHAUSTED;
        if (binadei_escalation_take(escalation))
            return BINADEI_FOUND;
    }
    return BINADEI_EXHAUSTED;
}

bool binadei_may_grow(const struct binadei_escalation *escalation)
{
    return escalation->refusal == BINADE_OK ||
           binadei_segments_reserved_bytes(escalation->body->segments) <
               escalation->refused_at_bytes;
}

bool binadei_grow_again(struct binadei_escalation *escalation)
{
    return binadei_may_grow(escalation) &&
           binadei_escalation_is_found(escalation, BINADE_OOM_GROW,
                                       binadei_escalation_grow);
}

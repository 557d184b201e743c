/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What all steps are made of: another look, a step's counts, and growing, which
 * each is tried after again.
 */
#include "pool/oom/escalation.h"

#include <inttypes.h>
#include <stdio.h>

#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/cache/gate.h"
#include "pool/core/recorded.h"

#define GROW_TRIES 64

bool moietyi_escalation_take(struct moietyi_escalation *escalation)
{
    return moietyi_take(escalation->call, escalation->request,
                        &escalation->address);
}

bool moietyi_escalation_take_last(struct moietyi_escalation *escalation)
{
    return moietyi_take_last(escalation->call, escalation->request,
                             &escalation->address);
}

enum moietyi_verdict
moietyi_escalation_run(struct moietyi_escalation *escalation, unsigned step,
                       moietyi_step_fn *function)
{
    struct moietyi_thread_state *thread_state = escalation->call->thread_state;
    moiety_oom_step *counts = &escalation->report.steps[step];
    uint64_t before_bytes = thread_state->given_bytes;
    moietyi_count(thread_state, MOIETYI_COUNT_ESCALATION + step, 1);
    counts->tries++;
    enum moietyi_verdict verdict = function(escalation);
    counts->gave_bytes += thread_state->given_bytes - before_bytes;
    return verdict;
}

bool moietyi_escalation_is_found(struct moietyi_escalation *escalation,
                                 unsigned step, moietyi_step_fn *function)
{
    return moietyi_escalation_run(escalation, step, function) == MOIETYI_FOUND;
}

void moietyi_escalation_note(const struct moietyi_escalation *escalation,
                             moiety_history_kind kind, moiety_status status,
                             uint64_t bytes)
{
    const struct moietyi_note note = {
        .kind = kind, .status = status, .size_bytes = bytes};
    moietyi_note(escalation->call, &note);
}

uint64_t moietyi_escalation_bytes(const struct moietyi_escalation *escalation)
{
    return escalation->request->size.grains * MOIETYI_GRAIN_BYTES;
}

/* Outside of slow paths: it waits for other growers, and for the source. */
static moiety_status grow_outside(struct moietyi_escalation *escalation,
                                  uint64_t bytes)
{
    struct moietyi_segments *segments = escalation->body->segments;
    moietyi_slow_path_end(escalation->call->thread_state);
    moiety_status status = escalation->may_wait
                               ? moietyi_segments_grow(segments, bytes)
                               : moietyi_segments_try_grow(segments, bytes);
    moietyi_call_resume(escalation->call);
    if (escalation->may_wait)
        moietyi_call_pass_gate(escalation->call);
    return status;
}

/* Mapped memory moves from heap to heap, so within the slow path; outside of it
 * while another thread grows, after which this one searches again. */
static moiety_status grow_inside(struct moietyi_escalation *escalation,
                                 uint64_t bytes)
{
    struct moietyi_call *call = escalation->call;
    moiety_status status = moietyi_extend_for(call, bytes);
    if (status != MOIETY_E_WOULD_BLOCK || !escalation->may_wait)
        return status;
    moietyi_slow_path_end(call->thread_state);
    moietyi_segments_await_growth(escalation->body->segments);
    moietyi_call_resume(call);
    moietyi_call_pass_gate(call);
    return MOIETY_OK;
}

/* Once, until the pool has grown again. */
static bool is_new_shortage(struct moietyi_pool_body *body, uint32_t bit)
{
    atomic_uint *told = &body->told_short;
    /* relaxed, both: see body.h. */
    return !(atomic_load_explicit(told, memory_order_relaxed) & bit) &&
           !(atomic_fetch_or_explicit(told, bit, memory_order_relaxed) & bit);
}

static void log_growth(const struct moietyi_escalation *escalation,
                       moiety_status status, uint64_t bytes)
{
    struct moietyi_pool_body *body = escalation->body;
    bool is_of_device = escalation->is_driver_short;
    if (status == MOIETY_OK)
        /* relaxed: see body.h. */
        atomic_store_explicit(&body->told_short, 0, memory_order_relaxed);
    bool is_short = status == MOIETY_E_NO_DEVICE_MEMORY ||
                    status == MOIETY_E_NO_PINNED_MEMORY;
    uint32_t level = is_of_device ? MOIETY_LOG_WARNING : MOIETY_LOG_INFO;
    if (!is_short || !moietyi_log_wants(level) ||
        !is_new_shortage(body, is_of_device ? MOIETYI_SHORT_OF_DEVICE
                                            : MOIETYI_SHORT_OF_LIMIT))
        return;
    moietyi_log(level,
                "pool %p: %s no room for %" PRIu64 " bytes more; %" PRIu64
                " are reserved of a limit of %" PRIu64,
                (void *)body->pool,
                is_of_device ? "the driver has" : "the limit leaves", bytes,
                moietyi_segments_reserved_bytes(body->segments),
                moietyi_limit_of(body));
}

static bool escalation_is_short(moiety_status status)
{
    return status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_NO_PINNED_MEMORY ||
           status == MOIETY_E_NO_HOST_MEMORY;
}

static void note_refusal(const struct moietyi_escalation *escalation,
                         uint64_t more_bytes)
{
    /* relaxed: see body.h. */
    if (more_bytes || escalation->is_driver_short)
        atomic_store_explicit(&escalation->body->is_refused, !more_bytes,
                              memory_order_relaxed);
}

static moiety_status grow_once(struct moietyi_escalation *escalation)
{
    uint64_t bytes = moietyi_escalation_bytes(escalation);
    struct moietyi_segments *segments = escalation->body->segments;
    uint64_t before_bytes = moietyi_segments_reserved_bytes(segments);
    uint64_t refusals = moietyi_segments_refusals(segments);
    moiety_status status = moietyi_segments_are_mapped(segments)
                               ? grow_inside(escalation, bytes)
                               : grow_outside(escalation, bytes);
    uint64_t after_bytes = moietyi_segments_reserved_bytes(segments);
    uint64_t more_bytes =
        after_bytes > before_bytes ? after_bytes - before_bytes : 0;
    if (status == MOIETY_OK)
        escalation->report.steps[MOIETY_OOM_GROW].gave_bytes += more_bytes;
    /* It may have waited for other growers. */
    escalation->refused_at_bytes =
        after_bytes > before_bytes ? after_bytes : before_bytes;
    escalation->is_driver_short =
        status == MOIETY_E_NO_DEVICE_MEMORY &&
        moietyi_segments_refusals(segments) != refusals;
    if (escalation_is_short(status))
        (void)snprintf(escalation->report.grow_reason,
                       sizeof(escalation->report.grow_reason), "%s",
                       moietyi_failure_message());
    note_refusal(escalation, more_bytes);
    log_growth(escalation, status, bytes);
    moietyi_escalation_note(escalation, MOIETY_HISTORY_GROW, status,
                            status == MOIETY_OK ? more_bytes : bytes);
    return status;
}

/* Until the source refuses: others may take what was added. */
enum moietyi_verdict
moietyi_escalation_grow(struct moietyi_escalation *escalation)
{
    for (unsigned i = 0; i < GROW_TRIES; i++) {
        escalation->refusal = grow_once(escalation);
        if (escalation->refusal != MOIETY_OK)
            return MOIETYI_EXHAUSTED;
        if (moietyi_escalation_take(escalation))
            return MOIETYI_FOUND;
    }
    return MOIETYI_EXHAUSTED;
}

bool moietyi_may_grow(const struct moietyi_escalation *escalation)
{
    return escalation->refusal == MOIETY_OK ||
           moietyi_segments_reserved_bytes(escalation->body->segments) <
               escalation->refused_at_bytes;
}

bool moietyi_may_regrow(const struct moietyi_escalation *escalation)
{
    return !escalation->is_held_up &&
           moietyi_segments_whole_bytes(escalation->body->segments) != 0;
}

bool moietyi_grow_again(struct moietyi_escalation *escalation)
{
    return moietyi_may_grow(escalation) &&
           moietyi_escalation_is_found(escalation, MOIETY_OOM_GROW,
                                       moietyi_escalation_grow);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What all steps are made of: another look, a step's counts, and growing, which
 * each is tried after again.
 */
#include "pool/oom/climb.h"

#include "pool/cache/gate.h"
#include "pool/core/recorded.h"

#define GROW_TRIES 64

bool binadei_climb_take(struct binadei_climb *climb)
{
    return binadei_take(climb->call, climb->request, &climb->address);
}

bool binadei_climb_take_last(struct binadei_climb *climb)
{
    return binadei_take_last(climb->call, climb->request, &climb->address);
}

enum binadei_verdict binadei_climb_run(struct binadei_climb *climb,
                                       unsigned step, binadei_step_fn *function)
{
    struct binadei_member *member = climb->call->member;
    binade_oom_step *counts = &climb->report.steps[step];
    uint64_t before_bytes = member->given_bytes;
    binadei_count(member, BINADEI_COUNT_LADDER + step, 1);
    counts->tries++;
    enum binadei_verdict verdict = function(climb);
    counts->gave_bytes += member->given_bytes - before_bytes;
    return verdict;
}

bool binadei_climb_is_found(struct binadei_climb *climb, unsigned step,
                            binadei_step_fn *function)
{
    return binadei_climb_run(climb, step, function) == BINADEI_FOUND;
}

void binadei_climb_note(const struct binadei_climb *climb,
                        binade_history_kind kind, binade_status status,
                        uint64_t bytes)
{
    const struct binadei_note note = {
        .kind = kind, .status = status, .size_bytes = bytes};
    binadei_note(climb->call, &note);
}

uint64_t binadei_climb_bytes(const struct binadei_climb *climb)
{
    return climb->request->size.grains * BINADEI_GRAIN_BYTES;
}

/* Outside of operations: it waits for other growers, and for the source. */
static binade_status grow_once(struct binadei_climb *climb)
{
    uint64_t bytes = binadei_climb_bytes(climb);
    struct binadei_segments *segments = climb->body->segments;
    uint64_t before_bytes = binadei_segments_reserved_bytes(segments);
    binadei_operation_end(climb->call->member);
    binade_status status = climb->may_wait
                               ? binadei_segments_grow(segments, bytes)
                               : binadei_segments_try_grow(segments, bytes);
    binadei_call_resume(climb->call);
    if (climb->may_wait)
        binadei_call_pass_gate(climb->call);
    uint64_t after_bytes = binadei_segments_reserved_bytes(segments);
    uint64_t more_bytes =
        after_bytes > before_bytes ? after_bytes - before_bytes : 0;
    if (status == BINADE_OK)
        climb->report.steps[BINADE_OOM_GROW].gave_bytes += more_bytes;
    climb->refused_at_bytes = before_bytes;
    binadei_climb_note(climb, BINADE_HISTORY_GROW, status,
                       status == BINADE_OK ? more_bytes : bytes);
    return status;
}

/* Until the source refuses: others may take what was added. */
enum binadei_verdict binadei_climb_grow(struct binadei_climb *climb)
{
    for (unsigned i = 0; i < GROW_TRIES; i++) {
        climb->refusal = grow_once(climb);
        if (climb->refusal != BINADE_OK)
            return BINADEI_EXHAUSTED;
        if (binadei_climb_take(climb))
            return BINADEI_FOUND;
    }
    return BINADEI_EXHAUSTED;
}

bool binadei_may_grow(const struct binadei_climb *climb)
{
    return climb->refusal == BINADE_OK ||
           binadei_segments_reserved_bytes(climb->body->segments) <
               climb->refused_at_bytes;
}

bool binadei_grow_again(struct binadei_climb *climb)
{
    return binadei_may_grow(climb) &&
           binadei_climb_is_found(climb, BINADE_OOM_GROW, binadei_climb_grow);
}

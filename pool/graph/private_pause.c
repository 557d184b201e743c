/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pause and resume of an arena. The thread that has set the phase has the arena's
 * handles for itself: nothing is taken then, and what is freed changes maps only.
 * The lock is not held meanwhile, as the driver is called.
 */
#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/core/work.h"
#include "pool/graph/privates.h"
#include "pool/oom/others.h"
#include "pool/segment/segment.h"
#include "pool/stream/epoch.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 500000L

/* What a thread needs to know of the handles. */
struct pause {
    struct binadei_call *call;
    struct binadei_private *arena;
    binadei_page *firsts;              /* of all */
    struct binadei_kept_piece *copies; /* of those that have contents */
    uint32_t piece_count;
    uint32_t copy_count;
    uint32_t page_count;
    uint64_t copy_bytes;
};

static void pause_free(struct pause *pause)
{
    free(pause->firsts);
    free(pause->copies);
}

static bool has_contents(const struct binadei_private *arena,
                         const struct binadei_private_piece *piece)
{
    uint64_t start = piece->first.index * (uint64_t)BINADEI_PAGE_GRAINS;
    uint64_t grains = piece->page_count * (uint64_t)BINADEI_PAGE_GRAINS;
    return binadei_buddy_free_from(arena->halves[piece->side].done,
                                   binadei_grain_at(start),
                                   binadei_grain_at(start + grains)) != grains;
}

/* Lock held. */
static void pause_note(struct pause *pause, struct binadei_private_piece *piece)
{
    pause->firsts[pause->piece_count++] = piece->first;
    pause->page_count += piece->page_count;
    if (!piece->is_kept)
        return;
    uint64_t bytes = piece->page_count * (uint64_t)BINADEI_PAGE_BYTES;
    pause->copies[pause->copy_count++] = (struct binadei_kept_piece){
        binadei_address_of(pause->call->engine->lookup,
                           binadei_grain_at(piece->first.index *
                                            (uint64_t)BINADEI_PAGE_GRAINS)),
        bytes, piece->kept_at};
    pause->copy_bytes += bytes;
}

/* Lock held. The list stays as it is while the phase is what it was set to. */
static binade_status pause_list(struct pause *pause)
{
    size_t count = 1;
    for (const struct binadei_private_piece *at = pause->arena->pieces; at;
         at = at->next)
        count++;
    pause->firsts = calloc(count, sizeof(*pause->firsts));
    pause->copies = calloc(count, sizeof(*pause->copies));
    if (!pause->firsts || !pause->copies)
        return binadei_private_no_memory();
    for (struct binadei_private_piece *at = pause->arena->pieces; at;
         at = at->next)
        pause_note(pause, at);
    return BINADE_OK;
}

/* Lock held: which have contents, and where those go. */
static void plan_contents(struct binadei_private *arena, bool is_keeping)
{
    uint64_t kept_at = 0;
    for (struct binadei_private_piece *at = arena->pieces; at; at = at->next) {
        at->is_kept = is_keeping && has_contents(arena, at);
        at->kept_at = kept_at;
        if (at->is_kept)
            kept_at += at->page_count * (uint64_t)BINADEI_PAGE_BYTES;
    }
}

static void set_phase(const struct pause *pause,
                      enum binadei_private_phase phase)
{
    pthread_mutex_lock(&pause->arena->lock);
    pause->arena->phase = phase;
    pthread_mutex_unlock(&pause->arena->lock);
}

/* --- pause --- */

/* Lock held. */
static binade_status check_pause(const struct binadei_private *arena)
{
    if (!(arena->flags & BINADE_PRIVATE_PAUSABLE))
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the private arena was not made to be paused");
    if (arena->phase != BINADEI_PRIVATE_RUNNING)
        return binadei_fail(BINADE_E_BUSY,
                            "the private arena is paused, or another thread "
                            "pauses or resumes it");
    return arena->open_count
               ? binadei_fail(BINADE_E_CAPTURING,
                              "a capture scope of the private arena is open")
               : BINADE_OK;
}

static binade_status begin_pause(struct pause *pause,
                                 const struct binadei_private_ref *ref,
                                 bool is_keeping)
{
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK)
        return status;
    status = check_pause(ref->arena);
    if (status == BINADE_OK) {
        plan_contents(ref->arena, is_keeping);
        status = pause_list(pause);
    }
    if (status == BINADE_OK)
        ref->arena->phase = BINADEI_PRIVATE_PAUSING;
    binadei_private_leave(ref->arena);
    return status;
}

/* For an event of each context behind all that is queued now. */
static binade_status await_work(struct binadei_call *call)
{
    const struct binadei_patience patience = binadei_patience_from_now(call);
    return binadei_wait_for_work(call, &patience);
}

static binade_status keep_contents(struct pause *pause)
{
    struct binadei_kept *kept = &pause->arena->kept;
    binade_status status = binadei_kept_reserve(
        kept, pause->call->engine->streams.own_context, pause->copy_bytes);
    return status == BINADE_OK ? binadei_kept_copy(kept, pause->copies,
                                                   pause->copy_count, false)
                               : status;
}

static binade_status leave_memory(struct pause *pause, bool *out_are_away)
{
    const struct binadei_handles held = {pause->firsts, pause->piece_count};
    binade_status status = keep_contents(pause);
    return status == BINADE_OK
               ? binadei_segments_vacate(pause->call->engine->segments, &held,
                                         out_are_away)
               : status;
}

static binade_status pause_now(struct pause *pause)
{
    struct binadei_call *call = pause->call;
    bool are_away = false;
    binade_status status = await_work(call);
    BINADEI_STEP("private.mapped.pausing");
    if (status == BINADE_OK) {
        binadei_slow_path_end(call->thread_state);
        status = leave_memory(pause, &are_away);
        binadei_call_resume(call);
        binadei_call_pass_gate(call);
    }
    /* The pool counts an arena's pages as blocks in use. */
    if (are_away)
        binadei_private_count_return(call, pause->page_count);
    set_phase(pause,
              are_away ? BINADEI_PRIVATE_PAUSED : BINADEI_PRIVATE_RUNNING);
    return status;
}

binade_status binadei_private_pause(struct binadei_call *call,
                                    const struct binadei_private_ref *ref,
                                    uint32_t flags)
{
    struct pause pause = {.call = call, .arena = ref->arena};
    if (binadei_is_lost(call->pool))
        return binadei_context_refuse(call->engine->streams.own_context);
    binade_status status =
        begin_pause(&pause, ref, (flags & BINADE_PAUSE_KEEP_CONTENTS) != 0);
    if (status == BINADE_OK)
        status = pause_now(&pause);
    pause_free(&pause);
    return status;
}

/* --- resume --- */

static binade_status begin_resume(struct pause *pause,
                                  const struct binadei_private_ref *ref)
{
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK)
        return status;
    if (ref->arena->phase == BINADEI_PRIVATE_RUNNING)
        status =
            binadei_fail(BINADE_E_INVALID, "the private arena is not paused");
    else if (ref->arena->phase != BINADEI_PRIVATE_PAUSED) {
        status = binadei_fail(BINADE_E_BUSY,
                              "another thread pauses or resumes the private "
                              "arena");
    } else {
        status = pause_list(pause);
    }
    if (status == BINADE_OK)
        ref->arena->phase = BINADEI_PRIVATE_RESUMING;
    binadei_private_leave(ref->arena);
    return status;
}

static binade_status refill_once(const struct pause *pause)
{
    struct binadei_call *call = pause->call;
    const struct binadei_handles held = {pause->firsts, pause->piece_count};
    binadei_slow_path_end(call->thread_state);
    binade_status status =
        binadei_segments_refill(call->engine->segments, &held);
    binadei_call_resume(call);
    binadei_call_pass_gate(call);
    return status;
}

/* As an allocation has it: what is free goes back to the driver first, also what
 * becomes free soon. */
static binade_status refill(const struct pause *pause)
{
    struct binadei_call *call = pause->call;
    uint64_t wait_ns = call->pool->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns = binadei_now_ns() + wait_ns;
    long nap_ns = NAP_NS;
    bool is_first = true;
    struct binadei_others others = {0};
    uint64_t refusals = binadei_segments_refusals(call->engine->segments);
    binade_status status = refill_once(pause);
    while (status == BINADE_E_NO_DEVICE_MEMORY) {
        if (binadei_private_make_room(call, is_first) ||
            binadei_others_help(call, refusals, &others, &status)) {
            status = refill_once(pause);
        } else {
            if (!binadei_epochs_are_pending(&call->engine->streams) ||
                binadei_now_ns() >= end_ns)
                break;
            binadei_call_nap(call, &nap_ns, NAP_MOST_NS);
        }
        is_first = false;
    }
    return status;
}

/* Outside of slow paths: copies take their time. */
static binade_status contents_back(const struct pause *pause)
{
    struct binadei_call *call = pause->call;
    const struct binadei_handles held = {pause->firsts, pause->piece_count};
    bool are_away;
    binadei_slow_path_end(call->thread_state);
    binade_status status = binadei_kept_copy(&pause->arena->kept, pause->copies,
                                             pause->copy_count, true);
    /* What was kept is there; the memory that has half of it may go. */
    if (status != BINADE_OK)
        (void)binadei_segments_vacate(call->engine->segments, &held, &are_away);
    binadei_call_resume(call);
    binadei_call_pass_gate(call);
    return status;
}

binade_status binadei_private_resume(struct binadei_call *call,
                                     const struct binadei_private_ref *ref)
{
    struct pause pause = {.call = call, .arena = ref->arena};
    if (binadei_is_lost(call->pool))
        return binadei_context_refuse(call->engine->streams.own_context);
    binade_status status = begin_resume(&pause, ref);
    if (status == BINADE_OK) {
        status = refill(&pause);
        BINADEI_STEP("private.mapped.refilled");
        if (status == BINADE_OK)
            status = contents_back(&pause);
        if (status == BINADE_OK) {
            binadei_count(call->thread_state, BINADEI_COUNT_ALLOCS,
                          pause.page_count);
            binadei_count(call->thread_state, BINADEI_COUNT_ALLOC_BYTES,
                          pause.page_count * (uint64_t)BINADEI_PAGE_BYTES);
        }
        set_phase(&pause, status == BINADE_OK ? BINADEI_PRIVATE_RUNNING
                                              : BINADEI_PRIVATE_PAUSED);
    }
    pause_free(&pause);
    return status;
}

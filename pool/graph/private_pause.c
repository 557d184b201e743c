/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pause and resume of an arena. The thread that has set the phase has the arena's
 * handles for itself: nothing is taken then, and what is freed changes heaps only.
 * The lock is not held meanwhile, as the driver is called.
 */
#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/core/work.h"
#include "pool/graph/privates.h"
#include "pool/segment/segment.h"

/* What a thread needs to know of the handles. */
struct pause {
    struct moietyi_call *call;
    struct moietyi_private *arena;
    const struct moietyi_kept_piece *copies; /* of those with contents */
    uint32_t page_count;
    uint64_t copy_bytes;
};

static bool has_contents(const struct moietyi_private *arena,
                         const struct moietyi_private_piece *piece)
{
    uint64_t start = piece->handle.first.index * (uint64_t)MOIETYI_PAGE_GRAINS;
    uint64_t grains = piece->page_count * (uint64_t)MOIETYI_PAGE_GRAINS;
    return moietyi_space_free_from(arena->halves[piece->side].done,
                                   moietyi_grain_at(start),
                                   moietyi_grain_at(start + grains)) != grains;
}

/* Lock held. The list stays as it is while the phase is what it was set to. */
static void pause_list(struct pause *pause)
{
    for (struct moietyi_handle *at = pause->arena->pieces; at; at = at->next) {
        struct moietyi_private_piece *piece = moietyi_private_piece_of(at);
        pause->page_count += piece->page_count;
        if (!piece->is_kept)
            continue;
        piece->copy.next = pause->copies;
        pause->copies = &piece->copy;
        pause->copy_bytes += piece->copy.size_bytes;
    }
}

/* Lock held: which have contents, and where those go. */
static void plan_contents(const struct moietyi_lookup *lookup,
                          struct moietyi_private *arena, bool is_keeping)
{
    uint64_t kept_at = 0;
    for (struct moietyi_handle *at = arena->pieces; at; at = at->next) {
        struct moietyi_private_piece *piece = moietyi_private_piece_of(at);
        piece->is_kept = is_keeping && has_contents(arena, piece);
        piece->copy = (struct moietyi_kept_piece){
            .address = moietyi_address_of(
                lookup, moietyi_grain_at(at->first.index *
                                         (uint64_t)MOIETYI_PAGE_GRAINS)),
            .size_bytes = piece->page_count * (uint64_t)MOIETYI_PAGE_BYTES,
            .kept_at = kept_at};
        kept_at += piece->is_kept ? piece->copy.size_bytes : 0;
    }
}

static void set_phase(const struct pause *pause,
                      enum moietyi_private_phase phase)
{
    pthread_mutex_lock(&pause->arena->lock);
    pause->arena->phase = phase;
    pthread_mutex_unlock(&pause->arena->lock);
}

/* --- pause --- */

/* Lock held. */
static moiety_status check_pause(const struct moietyi_private *arena)
{
    if (!(arena->flags & MOIETY_PRIVATE_PAUSABLE))
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the private arena was not made to be paused");
    if (arena->phase != MOIETYI_PRIVATE_RUNNING)
        return moietyi_private_refuse_paused(arena);
    return arena->open_count
               ? moietyi_fail(MOIETY_E_CAPTURING,
                              "a capture scope of the private arena is open")
               : MOIETY_OK;
}

static moiety_status begin_pause(struct pause *pause,
                                 const struct moietyi_private_ref *ref,
                                 bool is_keeping)
{
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK)
        return status;
    status = check_pause(ref->arena);
    if (status == MOIETY_OK) {
        plan_contents(pause->call->engine->lookup, ref->arena, is_keeping);
        pause_list(pause);
        ref->arena->phase = MOIETYI_PRIVATE_PAUSING;
    }
    moietyi_private_leave(ref->arena);
    return status;
}

/* For an event of each context behind all that is queued now. */
static moiety_status await_work(struct moietyi_call *call)
{
    const struct moietyi_patience patience = moietyi_patience_from_now(call);
    return moietyi_wait_for_work(call, &patience);
}

static moiety_status keep_contents(struct pause *pause)
{
    struct moietyi_kept *kept = &pause->arena->kept;
    moiety_status status = moietyi_kept_reserve(
        kept, pause->call->engine->streams.own_context, pause->copy_bytes);
    return status == MOIETY_OK ? moietyi_kept_copy(kept, pause->copies, false)
                               : status;
}

static moiety_status leave_memory(struct pause *pause, bool *out_are_away)
{
    moiety_status status = keep_contents(pause);
    return status == MOIETY_OK
               ? moietyi_segments_vacate(pause->call->engine->segments,
                                         pause->arena->pieces, out_are_away)
               : status;
}

static moiety_status pause_now(struct pause *pause)
{
    struct moietyi_call *call = pause->call;
    bool are_away = false;
    moiety_status status = await_work(call);
    MOIETYI_STEP("private.mapped.pausing");
    if (status == MOIETY_OK) {
        moietyi_slow_path_end(call->thread_state);
        status = leave_memory(pause, &are_away);
        moietyi_call_resume(call);
        moietyi_call_pass_gate(call);
    }
    /* The pool counts an arena's pages as blocks in use. */
    if (are_away)
        moietyi_private_count_return(call, pause->page_count);
    set_phase(pause,
              are_away ? MOIETYI_PRIVATE_PAUSED : MOIETYI_PRIVATE_RUNNING);
    return status;
}

moiety_status moietyi_private_pause(struct moietyi_call *call,
                                    const struct moietyi_private_ref *ref,
                                    uint32_t flags)
{
    struct pause pause = {.call = call, .arena = ref->arena};
    if (moietyi_is_lost(call->pool))
        return moietyi_context_refuse(call->engine->streams.own_context);
    moiety_status status =
        begin_pause(&pause, ref, (flags & MOIETY_PAUSE_KEEP_CONTENTS) != 0);
    if (status == MOIETY_OK)
        status = pause_now(&pause);
    return status;
}

/* --- resume --- */

struct resume {
    const struct moietyi_handle *held;
    const struct moietyi_private_asking *asking;
};

static moiety_status begin_resume(struct pause *pause,
                                  const struct moietyi_private_ref *ref)
{
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK)
        return status;
    if (ref->arena->phase == MOIETYI_PRIVATE_RUNNING)
        status =
            moietyi_fail(MOIETY_E_INVALID, "the private arena is not paused");
    else if (ref->arena->phase != MOIETYI_PRIVATE_PAUSED) {
        status = moietyi_private_refuse_paused(ref->arena);
    } else {
        pause_list(pause);
        ref->arena->phase = MOIETYI_PRIVATE_RESUMING;
    }
    moietyi_private_leave(ref->arena);
    return status;
}

/* Not again where limit and device have too little: each try that fails creates
 * what there is, and destroys it. */
static moiety_status refill_once(struct moietyi_call *call, const void *context)
{
    const struct resume *resume = context;
    struct moietyi_segments *segments = call->engine->segments;
    moiety_status status = MOIETY_E_NO_DEVICE_MEMORY;
    moietyi_slow_path_end(call->thread_state);
    if (!resume->asking->round_count ||
        moietyi_segments_have_room(segments, resume->held))
        status = moietyi_segments_refill(segments, resume->held);
    moietyi_call_resume(call);
    moietyi_call_pass_gate(call);
    return status;
}

/* Others may pause or free as long as this one waits. */
static moiety_status refill(const struct pause *pause)
{
    struct moietyi_private_asking asking = {.call = pause->call,
                                            .is_patient = true};
    const struct resume resume = {.held = pause->arena->pieces,
                                  .asking = &asking};
    moiety_status status =
        moietyi_private_insist(&asking, refill_once, &resume);
    return status == MOIETY_E_NO_DEVICE_MEMORY
               ? moietyi_fail(
                     status,
                     "the private arena wants %llu bytes, which others "
                     "have",
                     (unsigned long long)pause->page_count * MOIETYI_PAGE_BYTES)
               : status;
}

/* The message of the copy stays. */
static void empty_again(const struct pause *pause)
{
    struct moietyi_failure why;
    moietyi_failure_keep(&why);
    moietyi_segments_empty(pause->call->engine->segments, pause->arena->pieces);
    moietyi_failure_restore(&why);
}

/* Outside of slow paths: copies take their time. Only then is the memory there for
 * others: what was kept outlives a copy that fails. */
static moiety_status contents_back(const struct pause *pause)
{
    struct moietyi_call *call = pause->call;
    moietyi_slow_path_end(call->thread_state);
    moiety_status status =
        moietyi_kept_copy(&pause->arena->kept, pause->copies, true);
    if (status == MOIETY_OK)
        moietyi_segments_restore(call->engine->segments, pause->arena->pieces);
    else if (!moietyi_is_lost(call->pool))
        empty_again(pause);
    moietyi_call_resume(call);
    moietyi_call_pass_gate(call);
    return status;
}

moiety_status moietyi_private_resume(struct moietyi_call *call,
                                     const struct moietyi_private_ref *ref)
{
    struct pause pause = {.call = call, .arena = ref->arena};
    if (moietyi_is_lost(call->pool))
        return moietyi_context_refuse(call->engine->streams.own_context);
    moiety_status status = begin_resume(&pause, ref);
    if (status == MOIETY_OK) {
        status = refill(&pause);
        MOIETYI_STEP("private.mapped.refilled");
        if (status == MOIETY_OK)
            status = contents_back(&pause);
        if (status == MOIETY_OK)
            moietyi_private_count_pages(call, pause.page_count);
        set_phase(&pause, status == MOIETY_OK ? MOIETYI_PRIVATE_RUNNING
                                              : MOIETYI_PRIVATE_PAUSED);
    }
    return status;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Arenas whose memory is handles of their own
 * (docs/dev/adr/0028-held-handles.md): a growth is one handle, which is all of
 * one half, and goes as it came.
 */
#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/graph/privates.h"
#include "pool/oom/give_back.h"
#include "pool/segment/segment.h"
#include "pool/stream/epoch.h"

/* A handle costs the driver the same at any size, so a growth is an eighth of what
 * the arena has, but at most 256 MiB. */
#define STEP_PART 8U
#define STEP_PAGES_MOST 128U
#define NAP_NS 20000L
#define NAP_MOST_NS 1000000L

moiety_status moietyi_private_refuse_paused(const struct moietyi_private *arena)
{
    return arena->phase == MOIETYI_PRIVATE_PAUSED
               ? moietyi_fail(MOIETY_E_PAUSED,
                              "the private arena is paused: resume it first")
               : moietyi_fail(MOIETY_E_IN_USE,
                              "another thread pauses or resumes the private "
                              "arena");
}

moiety_status moietyi_private_check_end(const struct moietyi_private *arena)
{
    return arena->phase == MOIETYI_PRIVATE_RUNNING ||
                   (arena->phase == MOIETYI_PRIVATE_PAUSED &&
                    !arena->live_count)
               ? MOIETY_OK
               : moietyi_private_refuse_paused(arena);
}

uint32_t moietyi_private_step(const struct moietyi_private *arena,
                              uint32_t page_count)
{
    uint64_t step = arena->reserved_bytes / MOIETYI_PAGE_BYTES / STEP_PART;
    if (!moietyi_private_has_pieces(arena))
        return page_count;
    if (step > STEP_PAGES_MOST)
        step = STEP_PAGES_MOST;
    return step > page_count ? (uint32_t)step : page_count;
}

/* --- from the pool --- */

/* The request of a growth. */
struct hold {
    uint32_t page_count;
    bool may_wait;
    moietyi_page *out;
};

/* Outside of the slow path: it waits for growers and the driver. */
static moiety_status hold_once(struct moietyi_call *call, const void *context)
{
    const struct hold *hold = context;
    uint64_t passed_epoch = moietyi_epochs_passed(&call->engine->streams);
    moietyi_slow_path_end(call->thread_state);
    moiety_status status =
        moietyi_segments_hold(call->engine->segments, hold->page_count,
                              passed_epoch, hold->may_wait, hold->out);
    moietyi_call_resume(call);
    if (hold->may_wait)
        moietyi_call_pass_gate(call);
    return status;
}

static bool make_room(struct moietyi_call *call, bool is_first)
{
    struct moietyi_given_back given;
    (void)moietyi_reclaim_own(call);
    if (is_first)
        (void)moietyi_steal_caches(call);
    else
        (void)moietyi_steal_caches_at_times(call);
    (void)moietyi_reclaim_done(call);
    (void)moietyi_give_back(call, 0, &given);
    return given.bytes != 0;
}

/* One round: true where the driver has got memory back. Each other pool is visited
 * once. */
static bool is_more_free(struct moietyi_private_asking *asking,
                         moiety_status *status)
{
    bool is_first = !asking->round_count++;
    return ((is_first || !asking->is_late) &&
            make_room(asking->call, is_first)) ||
           moietyi_others_help(asking->call, asking->refusals, &asking->others,
                               status);
}

static bool private_may_wait_on(const struct moietyi_private_asking *asking)
{
    return !asking->is_late &&
           (asking->is_patient ||
            (moietyi_epochs_are_pending(&asking->call->engine->streams) &&
             !asking->call->is_capturing));
}

moiety_status moietyi_private_insist(struct moietyi_private_asking *asking,
                                     moietyi_private_ask *ask,
                                     const void *context)
{
    struct moietyi_call *call = asking->call;
    uint64_t wait_ns = call->pool->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns = moietyi_now_ns() + (asking->is_hasty ? 0 : wait_ns);
    long nap_ns = NAP_NS;
    asking->refusals = moietyi_segments_refusals(call->engine->segments);
    moiety_status status = ask(call, context);
    while (status == MOIETY_E_NO_DEVICE_MEMORY) {
        asking->is_late = moietyi_is_overdue(end_ns);
        bool is_more = is_more_free(asking, &status);
        if (status != MOIETY_E_NO_DEVICE_MEMORY ||
            (!is_more && !private_may_wait_on(asking)))
            break;
        if (!is_more)
            moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
        status = ask(call, context);
    }
    return status;
}

moiety_status moietyi_private_hold(struct moietyi_call *call,
                                   uint32_t page_count, bool is_least,
                                   bool may_wait, moietyi_page *out)
{
    const struct hold hold = {page_count, may_wait, out};
    struct moietyi_private_asking asking = {.call = call,
                                            .is_hasty = !is_least};
    moiety_status status =
        may_wait ? moietyi_private_insist(&asking, hold_once, &hold)
                 : hold_once(call, &hold);
    if (status == MOIETY_OK)
        moietyi_private_count_pages(call, page_count);
    return status;
}

/* The pool counts the pages of arenas as blocks in use: as one each, since they
 * go back in other pieces than they come. */
void moietyi_private_count_pages(struct moietyi_call *call, uint32_t page_count)
{
    moietyi_count(call->thread_state, MOIETYI_COUNT_ALLOCS, page_count);
    moietyi_count(call->thread_state, MOIETYI_COUNT_ALLOC_BYTES,
                  page_count * (uint64_t)MOIETYI_PAGE_BYTES);
}

/* --- the list of them --- */

bool moietyi_private_note_piece(struct moietyi_private *arena, unsigned side,
                                moietyi_page first, uint32_t page_count)
{
    struct moietyi_private_piece *piece = calloc(1, sizeof(*piece));
    if (!piece)
        return false;
    piece->handle = (struct moietyi_handle){arena->pieces, first};
    piece->page_count = page_count;
    piece->side = side;
    arena->pieces = &piece->handle;
    return true;
}

void moietyi_private_forget_piece(struct moietyi_private *arena,
                                  moietyi_page first)
{
    struct moietyi_handle **at = &arena->pieces;
    while (*at && (*at)->first.index != first.index)
        at = &(*at)->next;
    struct moietyi_handle *handle = *at;
    if (!handle)
        return;
    *at = handle->next;
    free(moietyi_private_piece_of(handle));
}

uint32_t moietyi_private_remove_piece(struct moietyi_private *arena,
                                      unsigned side, moietyi_page *out_first)
{
    struct moietyi_space *done = arena->halves[side].done;
    for (struct moietyi_handle *at = arena->pieces; at; at = at->next) {
        uint32_t page_count = moietyi_private_piece_of(at)->page_count;
        if (moietyi_private_piece_of(at)->side != side ||
            !moietyi_space_remove(done, at->first, page_count))
            continue;
        *out_first = at->first;
        moietyi_private_forget_piece(arena, at->first);
        return page_count;
    }
    return 0;
}

void moietyi_private_free_pieces(struct moietyi_private *arena)
{
    while (arena->pieces)
        moietyi_private_forget_piece(arena, arena->pieces->first);
}

void moietyi_private_drop_pieces(struct moietyi_call *call,
                                 struct moietyi_handle *pieces)
{
    if (!pieces)
        return;
    moietyi_slow_path_end(call->thread_state);
    moietyi_segments_drop(call->engine->segments, pieces);
    while (pieces) {
        struct moietyi_handle *handle = pieces;
        pieces = handle->next;
        free(moietyi_private_piece_of(handle));
    }
    moietyi_call_resume(call);
    moietyi_call_pass_gate(call);
}

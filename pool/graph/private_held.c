/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Arenas whose memory is handles of their own (docs/adr/0028-held-handles.md): a
 * growth is one handle, which is all of one half, and goes as it came.
 */
#include <stdlib.h>

#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/graph/privates.h"
#include "pool/oom/others.h"
#include "pool/segment/segment.h"
#include "pool/stream/epoch.h"

/* A handle costs the driver the same at any size, so a growth is an eighth of what
 * the arena has, but at most 256 MiB. */
#define STEP_PART 8U
#define STEP_PAGES_MOST 128U

bool binadei_private_may_end(const struct binadei_private *arena)
{
    return arena->phase == BINADEI_PRIVATE_RUNNING ||
           (arena->phase == BINADEI_PRIVATE_PAUSED && !arena->live_count);
}

uint32_t binadei_private_step(const struct binadei_private *arena,
                              uint32_t page_count)
{
    uint64_t step = arena->reserved_bytes / BINADEI_PAGE_BYTES / STEP_PART;
    if (!binadei_private_has_pieces(arena))
        return page_count;
    if (step > STEP_PAGES_MOST)
        step = STEP_PAGES_MOST;
    return step > page_count ? (uint32_t)step : page_count;
}

/* --- from the pool --- */

/* Outside of the slow path: it waits for growers and the driver. */
static binade_status hold_once(struct binadei_call *call, uint32_t page_count,
                               bool may_wait, binadei_page *out)
{
    uint64_t passed_epoch = binadei_epochs_passed(&call->engine->streams);
    binadei_slow_path_end(call->thread_state);
    binade_status status = binadei_segments_hold(
        call->engine->segments, page_count, passed_epoch, may_wait, out);
    binadei_call_resume(call);
    if (may_wait)
        binadei_call_pass_gate(call);
    return status;
}

bool binadei_private_make_room(struct binadei_call *call, bool is_first)
{
    uint64_t bytes = 0;
    (void)binadei_reclaim_own(call);
    if (is_first)
        (void)binadei_steal_caches(call);
    (void)binadei_reclaim_done(call);
    (void)binadei_trim_for(call, 0, &bytes);
    return bytes != 0;
}

binade_status binadei_private_hold(struct binadei_call *call,
                                   uint32_t page_count, bool may_wait,
                                   binadei_page *out)
{
    const struct binadei_segments *segments = call->engine->segments;
    struct binadei_others others = {0};
    uint64_t refusals = binadei_segments_refusals(segments);
    binade_status status = hold_once(call, page_count, may_wait, out);
    if (status == BINADE_E_NO_DEVICE_MEMORY && may_wait &&
        binadei_private_make_room(call, true))
        status = hold_once(call, page_count, may_wait, out);
    while (may_wait && binadei_others_help(call, refusals, &others, &status)) {
        refusals = binadei_segments_refusals(segments);
        status = hold_once(call, page_count, may_wait, out);
    }
    if (status == BINADE_OK) {
        binadei_count(call->thread_state, BINADEI_COUNT_ALLOCS, page_count);
        binadei_count(call->thread_state, BINADEI_COUNT_ALLOC_BYTES,
                      page_count * (uint64_t)BINADEI_PAGE_BYTES);
    }
    return status;
}

/* --- the list of them --- */

bool binadei_private_note_piece(struct binadei_private *arena, unsigned side,
                                binadei_page first, uint32_t page_count)
{
    struct binadei_private_piece *piece = calloc(1, sizeof(*piece));
    if (!piece)
        return false;
    piece->first = first;
    piece->page_count = page_count;
    piece->side = side;
    piece->next = arena->pieces;
    arena->pieces = piece;
    return true;
}

void binadei_private_forget_piece(struct binadei_private *arena,
                                  binadei_page first)
{
    struct binadei_private_piece **at = &arena->pieces;
    while (*at && (*at)->first.index != first.index)
        at = &(*at)->next;
    struct binadei_private_piece *piece = *at;
    if (!piece)
        return;
    *at = piece->next;
    free(piece);
}

uint32_t binadei_private_remove_piece(struct binadei_private *arena,
                                      unsigned side, binadei_page *out_first)
{
    struct binadei_buddy *done = arena->halves[side].done;
    for (struct binadei_private_piece *at = arena->pieces; at; at = at->next) {
        uint32_t page_count = at->page_count;
        if (at->side != side ||
            !binadei_buddy_remove(done, at->first, page_count))
            continue;
        *out_first = at->first;
        binadei_private_forget_piece(arena, at->first);
        return page_count;
    }
    return 0;
}

void binadei_private_free_pieces(struct binadei_private *arena)
{
    while (arena->pieces)
        binadei_private_forget_piece(arena, arena->pieces->first);
}

void binadei_private_drop_pieces(struct binadei_call *call,
                                 struct binadei_private_piece *pieces)
{
    if (!pieces)
        return;
    binadei_slow_path_end(call->thread_state);
    while (pieces) {
        struct binadei_private_piece *piece = pieces;
        const struct binadei_handles held = {&piece->first, 1};
        pieces = piece->next;
        binadei_segments_drop(call->engine->segments, &held);
        free(piece);
    }
    binadei_call_resume(call);
    binadei_call_pass_gate(call);
}

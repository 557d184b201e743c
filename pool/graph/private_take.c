/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an arena serves, and what changes its length. Memory comes into it by whole
 * pages that are done. What a call needs besides (events, pages, waiting) it does
 * between two looks under the lock.
 */
#include "pool/graph/privates.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/uses.h"
#include "pool/core/body.h"
#include "pool/graph/scopes.h"
#include "pool/oom/escalate.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 500000L

/* --- what a call wants --- */

struct want {
    struct moietyi_call *call;
    const struct moietyi_private_ref *ref;
    const struct moietyi_request *request;
    struct moietyi_private_key key;
    enum moietyi_private_side side;
    bool may_wait;
};

static uint32_t private_pages_of(const struct want *want)
{
    return (uint32_t)((want->request->size.grains + MOIETYI_PAGE_GRAINS - 1) /
                      MOIETYI_PAGE_GRAINS);
}

/* Lock held: a block begins there. */
static moiety_devptr private_hand_out(const struct want *want,
                                      moietyi_grain start)
{
    struct moietyi_private *arena = want->ref->arena;
    struct moietyi_engine *engine = want->call->engine;
    moiety_devptr address = moietyi_address_of(engine->lookup, start);
    moietyi_mark_block(engine, start, want->request);
    /* No cache takes it. */
    moietyi_space_set_class(engine->streams.space, start,
                            moietyi_space_class(engine->streams.space, start) |
                                MOIETYI_BYTE_SPECIAL);
    moietyi_note_stream(want->call, address);
    if (want->key.scope)
        moietyi_half_note_fresh(&arena->halves[want->side], want->key.scope,
                                start);
    arena->live_count++;
    moietyi_private_count_live(arena, want->request->size.grains *
                                          MOIETYI_GRAIN_BYTES);
    return address;
}

/* Lock held. 0: nothing in the half would do. */
static moiety_devptr take_here(const struct want *want)
{
    moietyi_grain start;
    return moietyi_half_take(&want->ref->arena->halves[want->side], &want->key,
                             want->request->size.grains, &start)
               ? private_hand_out(want, start)
               : 0;
}

/* A step that may have found a block: then `out` is not 0. */
static moiety_status private_look(const struct want *want, moiety_devptr *out)
{
    moiety_status status = moietyi_private_enter_running(want->ref);
    if (status != MOIETY_OK)
        return status;
    *out = take_here(want);
    moietyi_private_leave(want->ref->arena);
    return MOIETY_OK;
}

/* --- growing --- */

/* Lock held. The pages are the half's from now on; false: no memory. */
static bool private_add(const struct want *want, moietyi_page first,
                        uint32_t page_count)
{
    struct moietyi_private *arena = want->ref->arena;
    if (moietyi_private_has_pieces(arena) &&
        !moietyi_private_note_piece(arena, want->side, first, page_count))
        return false;
    if (!moietyi_space_add(arena->halves[want->side].done, first, page_count)) {
        moietyi_private_forget_piece(arena, first);
        return false;
    }
    moietyi_private_set_marks(want->call->pool->body->privates, first,
                              page_count,
                              moietyi_private_mark_of(arena, want->side));
    if (first.index + page_count > arena->page_end)
        arena->page_end = first.index + page_count;
    return true;
}

/* Lock held. From the other half. */
static moiety_devptr borrow(const struct want *want)
{
    struct moietyi_private *arena = want->ref->arena;
    unsigned other = MOIETYI_PRIVATE_SIDES - 1 - want->side;
    uint32_t page_count = private_pages_of(want);
    moietyi_page first;
    /* A handle is all of one half: it goes as it came. */
    if (moietyi_private_has_pieces(arena) ||
        !moietyi_private_may_lend(arena, other) ||
        !moietyi_half_remove(&arena->halves[other], page_count, &first))
        return 0;
    if (private_add(want, first, page_count))
        return take_here(want);
    /* It does not fail: they were there. */
    (void)moietyi_space_add(arena->halves[other].done, first, page_count);
    return 0;
}

/* Pages that are done, and of no block. */
static moiety_status private_escalate(const struct want *want,
                                      uint32_t page_count, moietyi_page *out)
{
    struct moietyi_call *call = want->call;
    struct moietyi_cache *pop = call->pop;
    size_t bytes = page_count * MOIETYI_PAGE_BYTES;
    const struct moietyi_request request = {moietyi_size_of_bytes(bytes), bytes,
                                            MOIETYI_PAGE_GRAINS, true};
    moiety_devptr address = 0;
    moietyi_grain start = {0};
    /* Memory that the stream freed outside of the arena is not the arena's. */
    call->pop = call->thread_state->done;
    moiety_status status =
        moietyi_alloc_escalating(call, &request, want->may_wait, &address);
    call->pop = pop;
    if (status != MOIETY_OK)
        return status;
    (void)moietyi_grain_of(call->engine->lookup, address, &start);
    (void)moietyi_space_end_class(call->engine->streams.space, start);
    /* It counts as one block so far: see moietyi_private_count_pages(). */
    moietyi_count(call->thread_state, MOIETYI_COUNT_ALLOCS, page_count - 1);
    *out = moietyi_page_of_grain(start);
    return MOIETY_OK;
}

/* Of pages that came from the pool. False: they are not the arena's, for want of
 * memory, or because it is gone or paused. */
static bool take_new(const struct want *want, moietyi_page first,
                     uint32_t page_count, moiety_devptr *out,
                     moiety_status *out_status)
{
    struct moietyi_private *arena = want->ref->arena;
    *out_status = moietyi_private_enter_running(want->ref);
    if (*out_status != MOIETY_OK)
        return false;
    bool is_added = private_add(want, first, page_count);
    if (is_added)
        *out = take_here(want);
    if (is_added && arena->reserved_bytes > arena->reserved_peak_bytes)
        arena->reserved_peak_bytes = arena->reserved_bytes;
    moietyi_private_leave(arena);
    if (!*out)
        *out_status = moietyi_private_no_memory();
    return is_added;
}

/* How an arena grows: as it was decided under its lock, since another arena may
 * be in its place by the time the pages are had. */
struct growth {
    uint32_t page_count;
    bool is_piece; /* a handle of its own */
};

/* What was reserved for pages that the arena has not got, also if it was paused
 * meanwhile. */
static void private_unreserve(const struct want *want, uint32_t page_count)
{
    struct moietyi_private *arena = want->ref->arena;
    pthread_mutex_lock(&arena->lock);
    if (arena->number == want->ref->number)
        arena->reserved_bytes -= page_count * (uint64_t)MOIETYI_PAGE_BYTES;
    pthread_mutex_unlock(&arena->lock);
}

/* Of the pool, what the arena has room for; that is taken off it again where it
 * fails. */
static moiety_status private_grow_by(const struct want *want,
                                     const struct growth *growth,
                                     moiety_devptr *out)
{
    const uint32_t page_count = growth->page_count;
    moietyi_page first;
    MOIETYI_STEP("private.growing");
    moiety_status status =
        growth->is_piece
            ? moietyi_private_hold(want->call, page_count,
                                   page_count == private_pages_of(want),
                                   want->may_wait, &first)
            : private_escalate(want, page_count, &first);
    MOIETYI_STEP("private.escalated");
    bool is_had = status == MOIETY_OK;
    if (is_had && take_new(want, first, page_count, out, &status))
        return status;
    if (is_had)
        moietyi_private_give_pages(want->call, first, page_count);
    private_unreserve(want, page_count);
    return status;
}

/* By that many, or if the arena may not have them by no more than `least`. Lock
 * held. */
static moiety_status private_reserve_step(struct moietyi_private *arena,
                                          uint32_t least, uint32_t *page_count)
{
    if (*page_count > least &&
        moietyi_private_reserve(
            arena, *page_count * (uint64_t)MOIETYI_PAGE_BYTES) == MOIETY_OK)
        return MOIETY_OK;
    *page_count = least;
    return moietyi_private_reserve(arena, least * (uint64_t)MOIETYI_PAGE_BYTES);
}

static moiety_status private_grow_once(const struct want *want, bool is_step,
                                       struct growth *growth,
                                       moiety_devptr *out)
{
    struct moietyi_private *arena = want->ref->arena;
    uint32_t least = private_pages_of(want);
    moiety_status status = moietyi_private_enter_running(want->ref);
    if (status != MOIETY_OK)
        return status;
    growth->page_count = is_step ? moietyi_private_step(arena, least) : least;
    growth->is_piece = moietyi_private_has_pieces(arena);
    *out = borrow(want);
    if (!*out)
        status = private_reserve_step(arena, least, &growth->page_count);
    moietyi_private_leave(arena);
    if (*out || status != MOIETY_OK)
        return status;
    return private_grow_by(want, growth, out);
}

static bool private_is_short(moiety_status status)
{
    return status == MOIETY_E_BUDGET || status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_NO_PINNED_MEMORY;
}

static moiety_status private_grow(const struct want *want, moiety_devptr *out)
{
    struct growth growth = {0};
    moiety_status status = private_grow_once(want, true, &growth, out);
    return private_is_short(status) &&
                   growth.page_count > private_pages_of(want)
               ? private_grow_once(want, false, &growth, out)
               : status;
}

/* --- taking --- */

static bool is_waiting(const struct moietyi_private_ref *ref)
{
    bool is_any = false;
    if (moietyi_private_enter(ref) != MOIETY_OK)
        return false;
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES; i++)
        is_any |= moietyi_half_waiting_grains(&ref->arena->halves[i]) != 0;
    moietyi_private_leave(ref->arena);
    return is_any;
}

/* Growing was refused: what was freed in the arena may be done soon. In a capture
 * no event can be recorded that would say so. */
static moiety_status private_wait(const struct want *want,
                                  moiety_status refused, moiety_devptr *out)
{
    struct moietyi_call *call = want->call;
    uint64_t wait_ns = call->pool->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns = moietyi_now_ns() + wait_ns;
    long nap_ns = NAP_NS;
    moiety_status status = refused;
    while (private_is_short(status) && want->may_wait && !call->is_capturing &&
           is_waiting(want->ref) && !moietyi_is_overdue(end_ns)) {
        moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
        if (!moietyi_private_poll(call, want->ref->arena, true))
            continue;
        moiety_status looked = private_look(want, out);
        if (looked != MOIETY_OK || *out)
            return looked;
        status = private_grow(want, out);
    }
    if (private_is_short(status) && !want->may_wait && !call->is_capturing &&
        is_waiting(want->ref)) {
        return moietyi_fail(MOIETY_E_WOULD_BLOCK,
                            "%zu bytes: nothing is free in the arena without "
                            "waiting",
                            want->request->size_bytes);
    }
    return status;
}

static moiety_status graph_private_take(const struct want *want,
                                        moiety_devptr *out)
{
    moiety_status status = private_look(want, out);
    if (status != MOIETY_OK || *out)
        return status;
    if (moietyi_private_poll(want->call, want->ref->arena, false))
        status = private_look(want, out);
    if (status != MOIETY_OK || *out)
        return status;
    status = private_grow(want, out);
    return status == MOIETY_OK ? status : private_wait(want, status, out);
}

moiety_status moietyi_private_take(struct moietyi_call *call,
                                   const struct moietyi_private_ref *ref,
                                   moiety_scope scope,
                                   const struct moietyi_request *request,
                                   bool may_wait, moiety_devptr *out)
{
    const struct want want = {.call = call,
                              .ref = ref,
                              .request = request,
                              .key = {moietyi_private_note_of(call), scope},
                              .side = scope ? MOIETYI_PRIVATE_GRAPHS
                                            : MOIETYI_PRIVATE_PLAIN,
                              .may_wait = may_wait};
    moiety_devptr address = 0;
    if (moietyi_is_lost(call->pool))
        return moietyi_context_refuse(call->engine->streams.own_context);
    moiety_status status = graph_private_take(&want, &address);
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

/* Lock held. Which half all these grains are of, or MOIETYI_PRIVATE_SIDES. */
static unsigned private_side_of(const struct want *want, moietyi_grain start)
{
    uint64_t end = start.index + want->request->size.grains;
    unsigned side = 0;
    while (side < MOIETYI_PRIVATE_SIDES &&
           !moietyi_private_has_marks(
               want->call, start.index, end,
               moietyi_private_mark_of(want->ref->arena, side)))
        side++;
    return side;
}

/* Lock held. */
static moiety_status private_claim(const struct want *want, moietyi_grain start)
{
    struct moietyi_private *arena = want->ref->arena;
    unsigned side = private_side_of(want, start);
    if (side == MOIETYI_PRIVATE_SIDES)
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "the bytes are not all of one half of the arena");
    moiety_status status = moietyi_half_claim(&arena->halves[side], start,
                                              want->request->size.grains);
    if (status == MOIETY_OK)
        (void)private_hand_out(want, start);
    return status;
}

moiety_status moietyi_private_take_at(struct moietyi_call *call,
                                      const struct moietyi_private_ref *ref,
                                      moiety_devptr address,
                                      const struct moietyi_request *request)
{
    const struct want want = {.call = call, .ref = ref, .request = request};
    moietyi_grain start;
    if (moietyi_is_lost(call->pool))
        return moietyi_context_refuse(call->engine->streams.own_context);
    if (!moietyi_grain_of(call->engine->lookup, address, &start))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    moiety_status status = moietyi_private_enter_running(ref);
    if (status != MOIETY_OK)
        return status;
    status = private_claim(&want, start);
    moietyi_private_leave(ref->arena);
    return status;
}

/* --- blocks that change their length where they lie --- */

/* The arena of a block that no capture got, with its lock held after MOIETY_OK. */
static moiety_status private_resize_enter(const struct moietyi_call *call,
                                          const struct moietyi_block *block,
                                          struct moietyi_private **out,
                                          uint32_t *out_mark)
{
    struct moietyi_privates *privates = call->pool->body->privates;
    moietyi_page page = moietyi_page_of_grain(block->start);
    struct moietyi_private *arena =
        moietyi_privates_owner(privates, block->start);
    *out = arena;
    if (!arena)
        return moietyi_fail(
            MOIETY_E_IN_USE,
            "another thread destroys the block's private arena");
    pthread_mutex_lock(&arena->lock);
    *out_mark = moietyi_private_mark_at(privates, page);
    bool is_plain =
        *out_mark == moietyi_private_mark_of(arena, MOIETYI_PRIVATE_PLAIN);
    if (is_plain && arena->phase == MOIETYI_PRIVATE_RUNNING)
        return MOIETY_OK;
    moiety_status status =
        arena->phase == MOIETYI_PRIVATE_RUNNING
            ? moietyi_fail(MOIETY_E_IN_USE, "a capture of the private arena "
                                            "has the block")
            : moietyi_private_refuse_paused(arena);
    pthread_mutex_unlock(&arena->lock);
    return status;
}

moiety_status moietyi_private_grow(struct moietyi_call *call,
                                   const struct moietyi_block *block,
                                   uint64_t grains)
{
    const struct moietyi_private_key key = {moietyi_private_note_of(call), 0};
    uint64_t end = block->start.index + block->grains;
    uint64_t more = grains - block->grains;
    uint32_t mark = 0;
    struct moietyi_private *arena = NULL;
    moiety_status status = private_resize_enter(call, block, &arena, &mark);
    if (status != MOIETY_OK)
        return status;
    bool is_grown = moietyi_private_has_marks(call, end, end + more, mark) &&
                    moietyi_half_extend(&arena->halves[MOIETYI_PRIVATE_PLAIN],
                                        &key, moietyi_grain_at(end), more);
    if (is_grown) {
        moietyi_block_mark(call, block, grains);
        moietyi_private_count_live(arena, more * MOIETYI_GRAIN_BYTES);
    }
    pthread_mutex_unlock(&arena->lock);
    return is_grown ? MOIETY_OK
                    : moietyi_fail(MOIETY_E_NO_ROOM,
                                   "the private arena has no room behind the "
                                   "block");
}

moiety_status moietyi_private_cut(struct moietyi_call *call,
                                  const struct moietyi_block *block,
                                  uint64_t grains)
{
    const struct moietyi_private_key nobody = {0};
    const struct moietyi_private_key key = {moietyi_private_note_of(call), 0};
    moietyi_grain end = {block->start.index + grains};
    uint64_t less = block->grains - grains;
    uint32_t mark;
    bool is_used = moietyi_is_used(
        call->engine, moietyi_address_of(call->engine->lookup, block->start));
    struct moietyi_private *arena;
    moiety_status status = private_resize_enter(call, block, &arena, &mark);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_half *half = &arena->halves[MOIETYI_PRIVATE_PLAIN];
    moietyi_block_mark(call, block, grains);
    arena->live_bytes -= less * MOIETYI_GRAIN_BYTES;
    if (!is_used && call->push->stream_state->kind == MOIETYI_STREAM_STATE_DONE)
        moietyi_half_give_done(half, end, less);
    else
        moietyi_half_give(half, is_used ? &nobody : &key, end, less);
    pthread_mutex_unlock(&arena->lock);
    return MOIETY_OK;
}

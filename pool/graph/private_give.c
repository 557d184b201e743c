/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is freed into an arena, and what an arena gives back: whole pages that are
 * done, or at its end everything; and what the scopes of captures mean to it.
 */
#include "pool/graph/privates.h"

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/uses.h"
#include "pool/core/body.h"
#include "pool/graph/scopes.h"
#include "pool/tenant/directory.h"

/* --- frees --- */

/* How a block was freed. */
struct freed {
    const struct binadei_block *block;
    struct binadei_private_key key;
    bool is_done; /* nothing is pending on it */
};

/* In a capture: whether the capture's scope is one of the arena that gave this
 * block to a capture, and nobody else uses it or has it kept. */
static bool is_captures_own(struct binadei_call *call, binade_devptr address,
                            const struct binadei_private *arena, uint32_t mark,
                            struct freed *freed)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    binade_scope scope;
    if (mark != binadei_private_mark_of(arena, BINADEI_PRIVATE_GRAPHS) ||
        binadei_scope_of(call, &scope) != BINADE_OK || !scope ||
        binadei_scope_arena(scopes, scope) != arena ||
        binadei_is_used(call->engine, address) ||
        binadei_scopes_has(scopes, address))
        return false;
    freed->key =
        (struct binadei_private_key){binadei_private_note_of(call), scope};
    return true;
}

/* Outside of captures: what the block waits for. */
static binade_status begin_wait(struct binadei_call *call,
                                binade_devptr address, CUevent event,
                                bool is_plain, struct freed *freed)
{
    struct binadei_wait wait;
    bool is_used = binadei_is_used(call->engine, address);
    binade_status status = binadei_wait_begin(call, address, event, &wait);
    freed->is_done = status == BINADE_OK && !wait.number;
    if (is_plain && !event && !is_used)
        freed->key.note = binadei_private_note_of(call);
    return status;
}

/* Lock held. A tenant has the block no more. */
static void end_tag(const struct binadei_call *call,
                    const struct binadei_block *block)
{
    struct binadei_tags *tags = binadei_tags(call->engine);
    binadei_tag tag = binadei_tag_of(tags, block->start);
    if (!tag)
        return;
    binadei_tag_set(tags, block->start, 0);
    binadei_account_release(&binadei_tenant_of_tag(tag)->account,
                            call->thread->number,
                            block->grains * BINADEI_GRAIN_BYTES);
}

/* Lock held. */
static binade_status private_free_give(struct binadei_call *call,
                                       struct binadei_private *arena,
                                       unsigned side, const struct freed *freed,
                                       binade_devptr address)
{
    struct binadei_half *half = &arena->halves[side];
    binadei_grain start = freed->block->start;
    uint64_t grains = freed->block->grains;
    if (!binadei_buddy_end_class(call->engine->streams.buddy, start))
        return binadei_fail(BINADE_E_INVALID,
                            "the block at 0x%llx was freed before", address);
    end_tag(call, freed->block);
    arena->live_count--;
    arena->live_bytes -= grains * BINADEI_GRAIN_BYTES;
    if (freed->is_done)
        binadei_half_give_done(half, start, grains);
    else
        binadei_half_give(half, &freed->key, start, grains);
    return BINADE_OK;
}

/* The arena was released since: the block is an ordinary one. */
static void give_ordinary(struct binadei_call *call, const struct freed *freed,
                          binade_devptr address)
{
    binadei_count(call->thread_state, BINADEI_COUNT_FREES, 1);
    binadei_count(call->thread_state, BINADEI_COUNT_FREE_BYTES,
                  freed->block->grains * BINADEI_GRAIN_BYTES);
    binadei_flush_block(call->thread_state,
                        freed->is_done ? call->engine->streams.done
                                       : call->engine->streams.any,
                        address);
}

binade_status binadei_privates_free(struct binadei_call *call,
                                    const struct binadei_block *block,
                                    binade_devptr address, CUevent event,
                                    bool *out_is_private)
{
    struct binadei_privates *privates = call->pool->body->privates;
    struct freed freed = {.block = block};
    binadei_page page = binadei_page_of_grain(block->start);
    uint32_t mark = binadei_private_mark_at(privates, page);
    *out_is_private = false;
    if (!mark || binadei_is_lost(call->pool))
        return BINADE_OK;
    struct binadei_private *arena =
        binadei_private_at(privates, (mark - 1) / BINADEI_PRIVATE_SIDES);
    unsigned side = (mark - 1) % BINADEI_PRIVATE_SIDES;
    binade_status status = BINADE_OK;
    if (call->is_capturing &&
        !is_captures_own(call, address, arena, mark, &freed))
        return BINADE_OK;
    if (!call->is_capturing)
        status = begin_wait(call, address, event, side == BINADEI_PRIVATE_PLAIN,
                            &freed);
    if (status != BINADE_OK)
        return status;
    *out_is_private = true;
    BINADEI_STEP("private.freed");
    pthread_mutex_lock(&arena->lock);
    bool is_its = binadei_private_mark_at(privates, page) == mark;
    if (is_its)
        status = private_free_give(call, arena, side, &freed, address);
    pthread_mutex_unlock(&arena->lock);
    if (!is_its)
        give_ordinary(call, &freed, address);
    return status;
}

/* --- giving back --- */

/* Lock held. Whole pages that are done in a half, as many as lie together. */
static uint32_t remove_pages(struct binadei_call *call,
                             struct binadei_private *arena, unsigned side,
                             binadei_page *out_first)
{
    struct binadei_half *half = &arena->halves[side];
    uint32_t page_count = 0;
    if (!half->done || !binadei_private_may_lend(arena, side))
        return 0;
    if (binadei_private_has_pieces(arena)) {
        page_count = binadei_private_remove_piece(arena, side, out_first);
    } else {
        page_count = binadei_half_longest(half);
        if (page_count && !binadei_half_remove(half, page_count, out_first))
            return 0;
    }
    if (!page_count)
        return 0;
    binadei_private_set_marks(call->pool->body->privates, *out_first,
                              page_count, 0);
    arena->reserved_bytes -= page_count * (uint64_t)BINADEI_PAGE_BYTES;
    return page_count;
}

static binade_status shrink_half(struct binadei_call *call,
                                 const struct binadei_private_ref *ref,
                                 unsigned side, uint64_t *bytes)
{
    uint32_t page_count;
    do {
        binadei_page first;
        binade_status status = binadei_private_enter_running(ref);
        if (status != BINADE_OK)
            return status;
        page_count = remove_pages(call, ref->arena, side, &first);
        binadei_private_leave(ref->arena);
        if (page_count)
            binadei_private_give_pages(call, first, page_count);
        *bytes += page_count * (uint64_t)BINADEI_PAGE_BYTES;
    } while (page_count);
    return BINADE_OK;
}

binade_status binadei_private_shrink(struct binadei_call *call,
                                     const struct binadei_private_ref *ref,
                                     uint64_t *out_bytes)
{
    struct binadei_kept kept;
    *out_bytes = 0;
    binade_status status = binadei_private_enter_running(ref);
    if (status != BINADE_OK)
        return status;
    /* No thread pauses it, so nobody needs what is left of the last time. */
    kept = ref->arena->kept;
    ref->arena->kept = (struct binadei_kept){0};
    binadei_private_leave(ref->arena);
    binadei_kept_end(&kept);
    if (!binadei_is_lost(call->pool))
        (void)binadei_private_poll(call, ref->arena, false);
    for (unsigned i = 0; i < BINADEI_PRIVATE_SIDES && status == BINADE_OK; i++)
        status = shrink_half(call, ref, i, out_bytes);
    return status;
}

/* Of the free memory of some pages of a half, interval by interval. */
typedef void give_fn(struct binadei_call *call, struct binadei_half *half,
                     binadei_grain start, uint64_t grains);

static void to_any(struct binadei_call *call, struct binadei_half *half,
                   binadei_grain start, uint64_t grains)
{
    (void)half;
    binadei_flush_grains(call->thread_state, call->engine->streams.any, start,
                         grains);
}

static void to_pending(struct binadei_call *call, struct binadei_half *half,
                       binadei_grain start, uint64_t grains)
{
    static const struct binadei_private_key nobody;
    (void)call;
    binadei_half_give(half, &nobody, start, grains);
}

/* Lock held. From `at` on, what is free goes to `hand`; past a block, if one
 * begins there. Returns where it ends. */
static uint64_t pass(struct binadei_call *call, struct binadei_half *half,
                     uint64_t at, uint64_t end, bool is_done_only,
                     give_fn *hand)
{
    const struct binadei_engine *engine = call->engine;
    binadei_grain start = binadei_grain_at(at);
    uint8_t byte = binadei_buddy_class(engine->streams.buddy, start);
    if (byte)
        return at + binadei_block_grains(engine, start, byte);
    uint64_t grains =
        binadei_half_pull(half, start, binadei_grain_at(end), is_done_only);
    if (grains)
        hand(call, half, start, grains);
    return at + (grains ? grains : 1);
}

/* Lock held. All pages of one half, run by run. */
static void pass_pages(struct binadei_call *call, struct binadei_private *arena,
                       unsigned side, bool is_done_only, give_fn *hand)
{
    const struct binadei_privates *privates = call->pool->body->privates;
    const uint32_t mark = binadei_private_mark_of(arena, side);
    uint64_t at = 0;
    for (uint32_t page = 0; page < arena->page_end; page++) {
        uint64_t start = (uint64_t)page * BINADEI_PAGE_GRAINS;
        if (binadei_private_mark_at(privates, (binadei_page){page}) != mark)
            continue;
        /* A block may go on from the page before. */
        if (at < start)
            at = start;
        while (at < start + BINADEI_PAGE_GRAINS)
            at = pass(call, &arena->halves[side], at,
                      start + BINADEI_PAGE_GRAINS, is_done_only, hand);
    }
}

/* Lock held. Its blocks are the pool's, which counts them one by one again. */
static void recount(struct binadei_call *call,
                    const struct binadei_private *arena, uint32_t page_count)
{
    binadei_private_count_return(call, page_count);
    binadei_count(call->thread_state, BINADEI_COUNT_ALLOCS, arena->live_count);
    binadei_count(call->thread_state, BINADEI_COUNT_ALLOC_BYTES,
                  arena->live_bytes);
}

static bool is_page_of(const struct binadei_private *arena, uint32_t mark)
{
    return mark && (mark - 1) / BINADEI_PRIVATE_SIDES == arena->place;
}

/* Lock held. While what they have free is the arena's yet. */
static uint32_t count_pages(const struct binadei_privates *privates,
                            const struct binadei_private *arena)
{
    uint32_t page_count = 0;
    for (uint32_t i = 0; i < arena->page_end; i++)
        page_count += is_page_of(
            arena, binadei_private_mark_at(privates, (binadei_page){i}));
    return page_count;
}

/* Lock held. Its pages are its own no more. Those that were free may be another
 * arena's by now, under that one's lock. */
static void disown(const struct binadei_privates *privates,
                   const struct binadei_private *arena)
{
    for (uint32_t i = 0; i < arena->page_end; i++) {
        uint32_t mark = binadei_private_mark_at(privates, (binadei_page){i});
        if (is_page_of(arena, mark))
            binadei_private_clear_mark(privates, (binadei_page){i}, mark);
    }
}

/* Lock held. Its free memory and its blocks are the pool's. */
static void give_all(struct binadei_call *call, struct binadei_private *arena)
{
    const struct binadei_privates *privates = call->pool->body->privates;
    uint32_t page_count = count_pages(privates, arena);
    for (unsigned i = 0; i < BINADEI_PRIVATE_SIDES; i++)
        pass_pages(call, arena, i, false, to_any);
    disown(privates, arena);
    recount(call, arena, page_count);
    binadei_private_free_pieces(arena);
}

/* Lock held. Returns the handles that have no memory: nobody's from now on. */
static struct binadei_private_piece *
private_free_end(struct binadei_call *call, struct binadei_private *arena)
{
    struct binadei_private_piece *away = NULL;
    if (arena->phase == BINADEI_PRIVATE_PAUSED) {
        disown(call->pool->body->privates, arena);
        away = arena->pieces;
        arena->pieces = NULL;
    } else if (!arena->is_account) {
        give_all(call, arena);
    }
    arena->number = 0;
    binadei_private_free_halves(arena);
    return away;
}

static binade_status check_end(const struct binadei_private *arena)
{
    if (arena->graph_count)
        return binadei_fail(BINADE_E_BUSY,
                            "a capture scope of the private arena is open, or "
                            "being released");
    return binadei_private_may_end(arena)
               ? BINADE_OK
               : binadei_fail(BINADE_E_BUSY,
                              "the private arena is paused and has blocks in "
                              "use, or another thread pauses or resumes it");
}

binade_status binadei_private_end(struct binadei_call *call,
                                  const struct binadei_private_ref *ref)
{
    struct binadei_private_piece *away = NULL;
    struct binadei_kept kept = {0};
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK)
        return status;
    status = check_end(ref->arena);
    if (status == BINADE_OK) {
        away = private_free_end(call, ref->arena);
        kept = ref->arena->kept;
        ref->arena->kept = (struct binadei_kept){0};
    }
    binadei_private_leave(ref->arena);
    if (status != BINADE_OK)
        return status;
    binadei_private_drop_pieces(call, away);
    binadei_kept_end(&kept);
    binadei_scope_unname(ref->number);
    return BINADE_OK;
}

/* --- scopes --- */

binade_status binadei_private_begin_scope(struct binadei_call *call,
                                          const struct binadei_private_ref *ref)
{
    binade_status status = binadei_private_enter_running(ref);
    if (status != BINADE_OK)
        return status;
    ref->arena->open_count++;
    ref->arena->graph_count++;
    binadei_private_leave(ref->arena);
    /* While the scope is open no event of a context can be recorded. */
    (void)binadei_private_poll(call, ref->arena, false);
    return BINADE_OK;
}

void binadei_private_end_scope(struct binadei_private *arena,
                               binade_scope scope)
{
    pthread_mutex_lock(&arena->lock);
    arena->open_count--;
    binadei_half_end_scope(&arena->halves[BINADEI_PRIVATE_GRAPHS], scope);
    pthread_mutex_unlock(&arena->lock);
}

/* When the last one goes, what was the graphs' may be anybody's of the arena when
 * those that are queued are over. */
void binadei_private_drop_scope(struct binadei_call *call,
                                struct binadei_private *arena)
{
    pthread_mutex_lock(&arena->lock);
    if (--arena->graph_count == 0)
        pass_pages(call, arena, BINADEI_PRIVATE_GRAPHS, true, to_pending);
    pthread_mutex_unlock(&arena->lock);
}

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
    const struct moietyi_block *block;
    struct moietyi_private_key key;
    bool is_done; /* nothing is pending on it */
};

/* In a capture: whether the capture's scope is one of the arena that gave this
 * block to a capture, and nobody else uses it or has it kept. Of an earlier capture
 * it is a result, which work outside may still read: it waits as for any work. */
static bool is_captures_own(struct moietyi_call *call, moiety_devptr address,
                            const struct moietyi_private *arena, uint32_t mark,
                            struct freed *freed)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    moiety_scope scope;
    if (mark != moietyi_private_mark_of(arena, MOIETYI_PRIVATE_GRAPHS) ||
        moietyi_scope_of(call, &scope) != MOIETY_OK || !scope ||
        moietyi_scope_arena(scopes, scope) != arena ||
        moietyi_is_used(call->engine, address) ||
        moietyi_scopes_has(scopes, address))
        return false;
    freed->key =
        (struct moietyi_private_key){moietyi_private_note_of(call), scope};
    return true;
}

/* Outside of captures: what the block waits for. */
static moiety_status begin_wait(struct moietyi_call *call,
                                moiety_devptr address, CUevent event,
                                bool is_plain, struct freed *freed)
{
    struct moietyi_wait wait;
    bool is_used = moietyi_is_used(call->engine, address);
    moiety_status status = moietyi_wait_begin(call, address, event, &wait);
    freed->is_done = status == MOIETY_OK && !wait.number;
    if (is_plain && !event && !is_used)
        freed->key.note = moietyi_private_note_of(call);
    return status;
}

/* By the thread that frees the block: a tenant has it no more. */
static void end_tag(const struct moietyi_call *call,
                    const struct moietyi_block *block)
{
    struct moietyi_tags *tags = moietyi_tags(call->engine);
    moietyi_tag tag = moietyi_tag_of(tags, block->start);
    if (!tag)
        return;
    moietyi_tag_set(tags, block->start, 0);
    moietyi_account_release(&moietyi_tenant_of_tag(tag)->account,
                            call->thread->number,
                            block->grains * MOIETYI_GRAIN_BYTES);
}

/* Lock held. */
static moiety_status private_free_give(struct moietyi_call *call,
                                       struct moietyi_private *arena,
                                       unsigned side, const struct freed *freed,
                                       moiety_devptr address)
{
    static const struct moietyi_private_key nobody;
    struct moietyi_half *half = &arena->halves[side];
    moietyi_grain start = freed->block->start;
    uint64_t grains = freed->block->grains;
    if (!moietyi_space_end_class(call->engine->streams.space, start))
        return moietyi_fail(MOIETY_E_DOUBLE_FREE,
                            "the block at 0x%llx was freed before", address);
    end_tag(call, freed->block);
    arena->live_count--;
    arena->live_bytes -= grains * MOIETYI_GRAIN_BYTES;
    bool is_its = moietyi_half_forget_fresh(half, freed->key.scope, start);
    if (freed->is_done)
        moietyi_half_give_done(half, start, grains);
    else
        moietyi_half_give(half,
                          freed->key.scope && !is_its ? &nobody : &freed->key,
                          start, grains);
    return MOIETY_OK;
}

/* The arena was released since: the block is an ordinary one. */
static void give_ordinary(struct moietyi_call *call, const struct freed *freed,
                          moiety_devptr address)
{
    moietyi_count(call->thread_state, MOIETYI_COUNT_FREES, 1);
    moietyi_count(call->thread_state, MOIETYI_COUNT_FREE_BYTES,
                  freed->block->grains * MOIETYI_GRAIN_BYTES);
    end_tag(call, freed->block);
    moietyi_flush_block(call->thread_state,
                        freed->is_done ? call->engine->streams.done
                                       : call->engine->streams.any,
                        address);
}

moiety_status moietyi_privates_free(struct moietyi_call *call,
                                    const struct moietyi_block *block,
                                    moiety_devptr address, CUevent event,
                                    bool *out_is_private)
{
    struct moietyi_privates *privates = call->pool->body->privates;
    struct freed freed = {.block = block};
    moietyi_page page = moietyi_page_of_grain(block->start);
    uint32_t mark = moietyi_private_mark_at(privates, page);
    *out_is_private = false;
    if (!mark)
        return MOIETY_OK;
    struct moietyi_private *arena =
        moietyi_private_at(privates, (mark - 1) / MOIETYI_PRIVATE_SIDES);
    unsigned side = (mark - 1) % MOIETYI_PRIVATE_SIDES;
    moiety_status status = MOIETY_OK;
    /* On memory that went with its context nothing is pending; what the arena
     * has live is counted all the same. */
    freed.is_done = moietyi_is_lost(call->pool);
    if (!freed.is_done && call->is_capturing &&
        !is_captures_own(call, address, arena, mark, &freed))
        return MOIETY_OK;
    if (!freed.is_done && !call->is_capturing)
        status = begin_wait(call, address, event, side == MOIETYI_PRIVATE_PLAIN,
                            &freed);
    if (status != MOIETY_OK)
        return status;
    *out_is_private = true;
    MOIETYI_STEP("private.freed");
    pthread_mutex_lock(&arena->lock);
    bool is_its = moietyi_private_mark_at(privates, page) == mark;
    if (is_its)
        status = private_free_give(call, arena, side, &freed, address);
    pthread_mutex_unlock(&arena->lock);
    if (!is_its)
        give_ordinary(call, &freed, address);
    return status;
}

/* --- giving back --- */

/* Lock held. Whole pages that are done in a half, as many as lie together. */
static uint32_t remove_pages(struct moietyi_call *call,
                             struct moietyi_private *arena, unsigned side,
                             moietyi_page *out_first)
{
    struct moietyi_half *half = &arena->halves[side];
    uint32_t page_count = 0;
    if (!half->done || !moietyi_private_may_lend(arena, side))
        return 0;
    if (moietyi_private_has_pieces(arena)) {
        page_count = moietyi_private_remove_piece(arena, side, out_first);
    } else {
        page_count = moietyi_space_longest_page_run(half->done);
        if (page_count && !moietyi_half_remove(half, page_count, out_first))
            return 0;
    }
    if (!page_count)
        return 0;
    moietyi_private_set_marks(call->pool->body->privates, *out_first,
                              page_count, 0);
    arena->reserved_bytes -= page_count * (uint64_t)MOIETYI_PAGE_BYTES;
    return page_count;
}

static moiety_status shrink_half(struct moietyi_call *call,
                                 const struct moietyi_private_ref *ref,
                                 unsigned side, uint64_t *bytes)
{
    uint32_t page_count;
    do {
        moietyi_page first;
        moiety_status status = moietyi_private_enter_running(ref);
        if (status != MOIETY_OK)
            return status;
        page_count = remove_pages(call, ref->arena, side, &first);
        moietyi_private_leave(ref->arena);
        if (page_count)
            moietyi_private_give_pages(call, first, page_count);
        *bytes += page_count * (uint64_t)MOIETYI_PAGE_BYTES;
    } while (page_count);
    return MOIETY_OK;
}

moiety_status moietyi_private_shrink(struct moietyi_call *call,
                                     const struct moietyi_private_ref *ref,
                                     uint64_t *out_bytes)
{
    struct moietyi_kept kept;
    *out_bytes = 0;
    moiety_status status = moietyi_private_enter_running(ref);
    if (status != MOIETY_OK)
        return status;
    /* No thread pauses it, so nobody needs what is left of the last time. */
    kept = ref->arena->kept;
    ref->arena->kept = (struct moietyi_kept){0};
    moietyi_private_leave(ref->arena);
    moietyi_kept_end(&kept);
    if (!moietyi_is_lost(call->pool))
        (void)moietyi_private_poll(call, ref->arena, false);
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES && status == MOIETY_OK; i++)
        status = shrink_half(call, ref, i, out_bytes);
    return status;
}

/* Of the free memory of some pages of a half, interval by interval. */
typedef void give_fn(struct moietyi_call *call, struct moietyi_half *half,
                     moietyi_grain start, uint64_t grains);

static void to_any(struct moietyi_call *call, struct moietyi_half *half,
                   moietyi_grain start, uint64_t grains)
{
    (void)half;
    moietyi_flush_grains(call->thread_state, call->engine->streams.any, start,
                         grains);
}

static void to_pending(struct moietyi_call *call, struct moietyi_half *half,
                       moietyi_grain start, uint64_t grains)
{
    static const struct moietyi_private_key nobody;
    (void)call;
    moietyi_half_give(half, &nobody, start, grains);
}

/* Lock held. From `at` on, what is free goes to `hand`; past a block, if one
 * begins there. Returns where it ends. */
static uint64_t pass(struct moietyi_call *call, struct moietyi_half *half,
                     uint64_t at, uint64_t end, bool is_done_only,
                     give_fn *hand)
{
    const struct moietyi_engine *engine = call->engine;
    moietyi_grain start = moietyi_grain_at(at);
    uint8_t byte = moietyi_space_class(engine->streams.space, start);
    if (byte)
        return at + moietyi_block_grains(engine, start, byte);
    uint64_t grains =
        moietyi_half_pull(half, start, moietyi_grain_at(end), is_done_only);
    if (grains)
        hand(call, half, start, grains);
    return at + (grains ? grains : 1);
}

/* Lock held. All pages of one half, run by run. */
static void pass_pages(struct moietyi_call *call, struct moietyi_private *arena,
                       unsigned side, bool is_done_only, give_fn *hand)
{
    const struct moietyi_privates *privates = call->pool->body->privates;
    const uint32_t mark = moietyi_private_mark_of(arena, side);
    uint64_t at = 0;
    for (uint32_t page = 0; page < arena->page_end; page++) {
        uint64_t start = (uint64_t)page * MOIETYI_PAGE_GRAINS;
        if (moietyi_private_mark_at(privates, (moietyi_page){page}) != mark)
            continue;
        /* A block may go on from the page before. */
        if (at < start)
            at = start;
        while (at < start + MOIETYI_PAGE_GRAINS)
            at = pass(call, &arena->halves[side], at,
                      start + MOIETYI_PAGE_GRAINS, is_done_only, hand);
    }
}

/* Lock held. Its blocks are the pool's, which counts them one by one again. */
static void recount(struct moietyi_call *call,
                    const struct moietyi_private *arena, uint32_t page_count)
{
    moietyi_private_count_return(call, page_count);
    moietyi_count(call->thread_state, MOIETYI_COUNT_ALLOCS, arena->live_count);
    moietyi_count(call->thread_state, MOIETYI_COUNT_ALLOC_BYTES,
                  arena->live_bytes);
}

static bool is_page_of(const struct moietyi_private *arena, uint32_t mark)
{
    return mark && (mark - 1) / MOIETYI_PRIVATE_SIDES == arena->place;
}

/* Lock held. While what they have free is the arena's yet. */
static uint32_t count_pages(const struct moietyi_privates *privates,
                            const struct moietyi_private *arena)
{
    uint32_t page_count = 0;
    for (uint32_t i = 0; i < arena->page_end; i++)
        page_count += is_page_of(
            arena, moietyi_private_mark_at(privates, (moietyi_page){i}));
    return page_count;
}

/* Lock held. Its pages are its own no more. Those that were free may be another
 * arena's by now, under that one's lock. */
static void disown(const struct moietyi_privates *privates,
                   const struct moietyi_private *arena)
{
    for (uint32_t i = 0; i < arena->page_end; i++) {
        uint32_t mark = moietyi_private_mark_at(privates, (moietyi_page){i});
        if (!is_page_of(arena, mark))
            continue;
        MOIETYI_STEP("private.disowning");
        moietyi_private_clear_mark(privates, (moietyi_page){i}, mark);
    }
}

/* Lock held. Its free memory and its blocks are the pool's. */
static void give_all(struct moietyi_call *call, struct moietyi_private *arena)
{
    const struct moietyi_privates *privates = call->pool->body->privates;
    uint32_t page_count = count_pages(privates, arena);
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES; i++)
        pass_pages(call, arena, i, false, to_any);
    disown(privates, arena);
    recount(call, arena, page_count);
    moietyi_private_free_pieces(arena);
}

/* Lock held. Returns the handles that have no memory: nobody's from now on. */
static struct moietyi_handle *private_free_end(struct moietyi_call *call,
                                               struct moietyi_private *arena)
{
    struct moietyi_handle *away = NULL;
    if (arena->phase == MOIETYI_PRIVATE_PAUSED) {
        disown(call->pool->body->privates, arena);
        away = arena->pieces;
        arena->pieces = NULL;
    } else if (!arena->is_account) {
        give_all(call, arena);
    }
    arena->number = 0;
    moietyi_private_free_halves(arena);
    return away;
}

static moiety_status check_end(const struct moietyi_private *arena)
{
    if (arena->graph_count)
        return moietyi_fail(MOIETY_E_IN_USE,
                            "a capture scope of the private arena is open, or "
                            "being released");
    return moietyi_private_check_end(arena);
}

moiety_status moietyi_private_end(struct moietyi_call *call,
                                  const struct moietyi_private_ref *ref)
{
    struct moietyi_handle *away = NULL;
    struct moietyi_kept kept = {0};
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK)
        return status;
    status = check_end(ref->arena);
    if (status == MOIETY_OK) {
        away = private_free_end(call, ref->arena);
        kept = ref->arena->kept;
        ref->arena->kept = (struct moietyi_kept){0};
    }
    moietyi_private_leave(ref->arena);
    if (status != MOIETY_OK)
        return status;
    moietyi_private_drop_pieces(call, away);
    moietyi_kept_end(&kept);
    moietyi_scope_unname(moietyi_number_of_private(ref->number));
    return MOIETY_OK;
}

/* --- scopes --- */

moiety_status moietyi_private_begin_scope(struct moietyi_call *call,
                                          const struct moietyi_private_ref *ref)
{
    moiety_status status = moietyi_private_enter_running(ref);
    if (status != MOIETY_OK)
        return status;
    ref->arena->open_count++;
    ref->arena->graph_count++;
    moietyi_private_leave(ref->arena);
    /* While the scope is open no event of a context can be recorded. */
    (void)moietyi_private_poll(call, ref->arena, false);
    return MOIETY_OK;
}

void moietyi_private_end_scope(struct moietyi_private *arena,
                               moiety_scope scope)
{
    pthread_mutex_lock(&arena->lock);
    arena->open_count--;
    moietyi_half_end_scope(&arena->halves[MOIETYI_PRIVATE_GRAPHS], scope);
    pthread_mutex_unlock(&arena->lock);
}

/* When the last one goes, what was the graphs' may be anybody's of the arena when
 * those that are queued are over. */
void moietyi_private_drop_scope(struct moietyi_call *call,
                                struct moietyi_private *arena)
{
    pthread_mutex_lock(&arena->lock);
    if (--arena->graph_count == 0)
        pass_pages(call, arena, MOIETYI_PRIVATE_GRAPHS, true, to_pending);
    pthread_mutex_unlock(&arena->lock);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which arenas a pool has, whose its pages are, and the events that arenas'
 * memory waits for. Each look under an arena's lock begins by asking whether the
 * arena is still the one that the caller named.
 */
#include "pool/graph/privates.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/uses.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/driver/section.h"
#include "pool/graph/scopes.h"

moiety_status moietyi_private_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for a private arena");
}

moiety_status moietyi_private_refuse_gone(void)
{
    return moietyi_fail(MOIETY_E_DESTROYED,
                        "no such private arena: it was released before, or its "
                        "pool is gone");
}

/* --- places --- */

void moietyi_privates_init(struct moietyi_privates *privates)
{
    pthread_mutex_init(&privates->lock, NULL);
}

struct moietyi_private *
moietyi_private_at(const struct moietyi_privates *privates, uint32_t place)
{
    /* PA.acquire. */
    return place < MOIETYI_PRIVATES_MAX
               ? atomic_load_explicit(&privates->places[place],
                                      memory_order_acquire)
               : NULL;
}

void moietyi_private_free_halves(struct moietyi_private *arena)
{
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES; i++)
        moietyi_half_fini(&arena->halves[i]);
}

void moietyi_privates_fini(struct moietyi_privates *privates)
{
    struct moietyi_private *arena;
    for (uint32_t i = 0; (arena = moietyi_private_at(privates, i)); i++) {
        if (arena->number)
            moietyi_scope_unname(moietyi_number_of_private(arena->number));
        moietyi_private_free_halves(arena);
        moietyi_private_free_pieces(arena);
        moietyi_kept_end(&arena->kept);
        pthread_mutex_destroy(&arena->lock);
        free(arena);
    }
    /* relaxed: no call is under way. */
    free((void *)atomic_load_explicit(&privates->owners, memory_order_relaxed));
    pthread_mutex_destroy(&privates->lock);
}

/* Lock of all held. */
static bool make_owners(struct moietyi_privates *privates,
                        uint32_t page_capacity)
{
    /* relaxed: written under the lock. */
    if (atomic_load_explicit(&privates->owners, memory_order_relaxed))
        return true;
    moietyi_private_owner *owners = calloc(page_capacity, sizeof(*owners));
    /* PA.release: the zeroes. */
    atomic_store_explicit(&privates->owners, owners, memory_order_release);
    return owners != NULL;
}

static bool privates_is_free(struct moietyi_private *arena)
{
    pthread_mutex_lock(&arena->lock);
    bool is_free = !arena->number;
    pthread_mutex_unlock(&arena->lock);
    return is_free;
}

/* Lock of all held. A place that is free; NULL, and why. */
static struct moietyi_private *
privates_find_place(struct moietyi_privates *privates, bool is_account,
                    moiety_status *out_status)
{
    struct moietyi_private *arena;
    uint32_t place = 0;
    while ((arena = moietyi_private_at(privates, place)) &&
           !privates_is_free(arena))
        place++;
    if (arena)
        return arena;
    if (place == MOIETYI_PRIVATES_MAX) {
        *out_status =
            moietyi_fail(MOIETY_E_NO_ROOM, "the pool has %u private arenas",
                         MOIETYI_PRIVATES_MAX);
        return NULL;
    }
    arena = calloc(1, sizeof(*arena));
    if (!arena) {
        *out_status = moietyi_private_no_memory();
        return NULL;
    }
    pthread_mutex_init(&arena->lock, NULL);
    arena->place = place;
    arena->is_account = is_account;
    /* PA.release. */
    atomic_store_explicit(&privates->places[place], arena,
                          memory_order_release);
    return arena;
}

static bool make_halves(struct moietyi_private *arena, uint32_t page_capacity)
{
    bool are_made = true;
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES && are_made; i++)
        are_made = moietyi_half_init(&arena->halves[i], page_capacity);
    if (!are_made)
        moietyi_private_free_halves(arena);
    return are_made;
}

/* Lock held. */
static void privates_begin(struct moietyi_private *arena, moiety_private number,
                           uint64_t limit_bytes, uint32_t flags)
{
    arena->flags = flags;
    arena->phase = MOIETYI_PRIVATE_RUNNING;
    arena->kept = (struct moietyi_kept){0};
    arena->reserved_bytes = arena->reserved_peak_bytes = 0;
    arena->live_count = arena->live_bytes = arena->live_peak_bytes = 0;
    arena->page_end = 0;
    arena->limit_bytes =
        limit_bytes ? limit_bytes / MOIETYI_PAGE_BYTES * MOIETYI_PAGE_BYTES
                    : UINT64_MAX;
    arena->number = number;
}

/* Lock of all held. */
static moiety_status privates_make(struct moietyi_call *call,
                                   uint64_t limit_bytes, uint32_t flags,
                                   moiety_private *out)
{
    struct moietyi_privates *privates = call->pool->body->privates;
    moiety_status status = MOIETY_OK;
    const uint64_t number = moietyi_scope_next_number();
    const bool is_account = call->pool->body->ops->has_records;
    const uint32_t page_capacity = call->pool->body->page_capacity;
    struct moietyi_private *arena =
        privates_find_place(privates, is_account, &status);
    if (!arena)
        return status;
    if ((!is_account && !make_owners(privates, page_capacity)) ||
        !moietyi_scope_name(number, call->pool))
        return moietyi_private_no_memory();
    /* A thread that still looks at the place has another number. */
    pthread_mutex_lock(&arena->lock);
    bool is_made = is_account || make_halves(arena, page_capacity);
    if (is_made)
        privates_begin(arena, moietyi_private_of_number(number), limit_bytes,
                       flags);
    pthread_mutex_unlock(&arena->lock);
    if (!is_made) {
        moietyi_scope_unname(number);
        return moietyi_private_no_memory();
    }
    *out = moietyi_private_of_number(number);
    return MOIETY_OK;
}

moiety_status moietyi_private_make(struct moietyi_call *call,
                                   uint64_t limit_bytes, uint32_t flags,
                                   moiety_private *out)
{
    struct moietyi_privates *privates = call->pool->body->privates;
    pthread_mutex_lock(&privates->lock);
    moiety_status status = privates_make(call, limit_bytes, flags, out);
    pthread_mutex_unlock(&privates->lock);
    return status;
}

struct moietyi_private *moietyi_private_find(struct moietyi_privates *privates,
                                             moiety_private number)
{
    struct moietyi_private *arena;
    for (uint32_t i = 0; (arena = moietyi_private_at(privates, i)); i++) {
        pthread_mutex_lock(&arena->lock);
        bool is_it = arena->number == number;
        pthread_mutex_unlock(&arena->lock);
        if (is_it)
            break;
    }
    return arena;
}

struct moietyi_private_ref
moietyi_private_of_scope(const struct moietyi_call *call, moiety_scope scope)
{
    struct moietyi_private *arena =
        moietyi_scope_arena(call->pool->body->scopes, scope);
    struct moietyi_private_ref ref = {arena, 0};
    if (!arena)
        return ref;
    pthread_mutex_lock(&arena->lock);
    ref.number = arena->number;
    pthread_mutex_unlock(&arena->lock);
    return ref;
}

moiety_status moietyi_private_enter(const struct moietyi_private_ref *ref)
{
    pthread_mutex_lock(&ref->arena->lock);
    if (ref->arena->number == ref->number)
        return MOIETY_OK;
    pthread_mutex_unlock(&ref->arena->lock);
    return moietyi_private_refuse_gone();
}

moiety_status
moietyi_private_enter_running(const struct moietyi_private_ref *ref)
{
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK || ref->arena->phase == MOIETYI_PRIVATE_RUNNING)
        return status;
    status = moietyi_private_refuse_paused(ref->arena);
    pthread_mutex_unlock(&ref->arena->lock);
    return status;
}

void moietyi_private_leave(struct moietyi_private *arena)
{
    pthread_mutex_unlock(&arena->lock);
}

/* --- pages --- */

static moietyi_private_owner *owners_of(const struct moietyi_privates *privates)
{
    /* PA.acquire: the zeroes. */
    return atomic_load_explicit(&privates->owners, memory_order_acquire);
}

uint32_t moietyi_private_mark_of(const struct moietyi_private *arena,
                                 unsigned side)
{
    return arena->place * MOIETYI_PRIVATE_SIDES + side + 1;
}

uint32_t moietyi_private_mark_at(const struct moietyi_privates *privates,
                                 moietyi_page page)
{
    const moietyi_private_owner *owners = owners_of(privates);
    /* relaxed: see moietyi_private_owner. */
    return owners
               ? atomic_load_explicit(&owners[page.index], memory_order_relaxed)
               : 0;
}

bool moietyi_private_has_marks(const struct moietyi_call *call, uint64_t start,
                               uint64_t end, uint32_t mark)
{
    const struct moietyi_pool_body *body = call->pool->body;
    uint64_t page = start / MOIETYI_PAGE_GRAINS;
    uint64_t last = (end - 1) / MOIETYI_PAGE_GRAINS;
    if (last >= body->page_capacity)
        return false;
    while (page <= last &&
           moietyi_private_mark_at(body->privates,
                                   (moietyi_page){(uint32_t)page}) == mark)
        page++;
    return page > last;
}

void moietyi_private_set_marks(const struct moietyi_privates *privates,
                               moietyi_page first, uint32_t page_count,
                               uint32_t mark)
{
    moietyi_private_owner *owners = owners_of(privates);
    /* relaxed: see moietyi_private_owner. */
    for (uint32_t i = 0; i < page_count; i++)
        atomic_store_explicit(&owners[first.index + i], mark,
                              memory_order_relaxed);
}

void moietyi_private_clear_mark(const struct moietyi_privates *privates,
                                moietyi_page page, uint32_t mark)
{
    /* relaxed: see moietyi_private_owner. It fails where another arena has it. */
    (void)atomic_compare_exchange_strong_explicit(
        &owners_of(privates)[page.index], &mark, 0, memory_order_relaxed,
        memory_order_relaxed);
}

struct moietyi_private *
moietyi_privates_owner(struct moietyi_privates *privates, moietyi_grain grain)
{
    uint32_t mark =
        moietyi_private_mark_at(privates, moietyi_page_of_grain(grain));
    return mark ? moietyi_private_at(privates,
                                     (mark - 1) / MOIETYI_PRIVATE_SIDES)
                : NULL;
}

void moietyi_private_count_return(struct moietyi_call *call,
                                  uint32_t page_count)
{
    moietyi_count(call->thread_state, MOIETYI_COUNT_FREES, page_count);
    moietyi_count(call->thread_state, MOIETYI_COUNT_FREE_BYTES,
                  page_count * (uint64_t)MOIETYI_PAGE_BYTES);
}

void moietyi_private_give_pages(struct moietyi_call *call, moietyi_page first,
                                uint32_t page_count)
{
    moietyi_grain start =
        moietyi_grain_at((uint64_t)first.index * MOIETYI_PAGE_GRAINS);
    moietyi_flush_grains(call->thread_state, call->engine->streams.done, start,
                         (uint64_t)page_count * MOIETYI_PAGE_GRAINS);
    moietyi_private_count_return(call, page_count);
}

/* Lock held. The live bytes have grown. */
void moietyi_private_count_live(struct moietyi_private *arena, uint64_t bytes)
{
    arena->live_bytes += bytes;
    if (arena->live_bytes > arena->live_peak_bytes)
        arena->live_peak_bytes = arena->live_bytes;
}

bool moietyi_private_may_lend(const struct moietyi_private *arena,
                              unsigned side)
{
    return side == MOIETYI_PRIVATE_PLAIN || !arena->graph_count;
}

uint32_t moietyi_private_note_of(const struct moietyi_call *call)
{
    const struct moietyi_stream_state *stream_state = call->push->stream_state;
    return stream_state->kind >= MOIETYI_STREAM_STATE_STREAM
               ? stream_state->note
               : 0;
}

/* --- events --- */

/* Closes one half, and drains it if its event is over. True: memory became
 * done. */
static bool poll_half(struct moietyi_call *call, struct moietyi_private *arena,
                      unsigned side, bool may_wait)
{
    struct moietyi_half *half = &arena->halves[side];
    pthread_mutex_lock(&arena->lock);
    if (arena->number)
        moietyi_half_close(half, moietyi_wait_for_all(call).number);
    const struct moietyi_wait wait = {arena->number ? half->number : 0};
    uint64_t closings = half->closings;
    pthread_mutex_unlock(&arena->lock);
    if (!wait.number || !moietyi_wait_ask(call, &wait, may_wait))
        return false;
    MOIETYI_STEP("private.over");
    pthread_mutex_lock(&arena->lock);
    /* Not if others drained it, and closed the next. */
    bool is_due = arena->number && half->number && half->closings == closings;
    if (is_due)
        moietyi_half_drain(half);
    pthread_mutex_unlock(&arena->lock);
    return is_due;
}

bool moietyi_private_poll(struct moietyi_call *call,
                          struct moietyi_private *arena, bool may_wait)
{
    bool is_any = false;
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES; i++)
        is_any |= poll_half(call, arena, i, may_wait);
    return is_any;
}

moiety_status moietyi_private_fill(const struct moietyi_private_ref *ref,
                                   moiety_private_stats *out)
{
    const struct moietyi_private *arena = ref->arena;
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK)
        return status;
    *out = (moiety_private_stats){
        .struct_size = (uint32_t)sizeof(*out),
        .graph_count = arena->graph_count,
        .limit_bytes =
            arena->limit_bytes == UINT64_MAX ? 0 : arena->limit_bytes,
        .reserved_bytes = arena->reserved_bytes,
        .reserved_peak_bytes = arena->reserved_peak_bytes,
        .live_count = arena->live_count,
        .live_bytes = arena->live_bytes,
        .live_peak_bytes = arena->live_peak_bytes,
        .flags = arena->flags,
        .is_paused = arena->phase == MOIETYI_PRIVATE_PAUSED,
    };
    if (out->is_paused) {
        out->paused_bytes = arena->reserved_bytes;
        out->reserved_bytes = 0;
        for (struct moietyi_handle *at = arena->pieces; at; at = at->next)
            if (moietyi_private_piece_of(at)->is_kept)
                out->kept_bytes += moietyi_private_piece_of(at)->page_count *
                                   MOIETYI_PAGE_BYTES;
    }
    for (unsigned i = 0; i < MOIETYI_PRIVATE_SIDES; i++)
        out->waiting_bytes += moietyi_half_waiting_grains(&arena->halves[i]) *
                              MOIETYI_GRAIN_BYTES;
    moietyi_private_leave(ref->arena);
    return MOIETY_OK;
}

/* --- accounts --- */

static moiety_status refuse_limit(const struct moietyi_private *arena,
                                  uint64_t bytes)
{
    return moietyi_fail(
        MOIETY_E_BUDGET,
        "%llu bytes more: the private arena has %llu of a limit of %llu",
        (unsigned long long)bytes, (unsigned long long)arena->reserved_bytes,
        (unsigned long long)arena->limit_bytes);
}

moiety_status moietyi_private_reserve(struct moietyi_private *arena,
                                      uint64_t bytes)
{
    if (bytes > arena->limit_bytes) {
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%llu bytes: the private arena never has more than "
                            "%llu",
                            (unsigned long long)bytes,
                            (unsigned long long)arena->limit_bytes);
    }
    if (arena->reserved_bytes > arena->limit_bytes - bytes)
        return refuse_limit(arena, bytes);
    arena->reserved_bytes += bytes;
    return MOIETY_OK;
}

moiety_status moietyi_private_charge(const struct moietyi_private_ref *ref,
                                     uint64_t bytes)
{
    struct moietyi_private *arena = ref->arena;
    moiety_status status = moietyi_private_enter(ref);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_private_reserve(arena, bytes);
    if (status == MOIETY_OK) {
        arena->live_count++;
        moietyi_private_count_live(arena, bytes);
        arena->reserved_peak_bytes = arena->live_peak_bytes;
    }
    moietyi_private_leave(arena);
    return status;
}

void moietyi_private_discharge(const struct moietyi_private_ref *ref,
                               uint64_t bytes)
{
    struct moietyi_private *arena = ref->arena;
    pthread_mutex_lock(&arena->lock);
    if (arena->number == ref->number) {
        arena->live_count--;
        arena->reserved_bytes -= bytes;
        arena->live_bytes -= bytes;
    }
    pthread_mutex_unlock(&arena->lock);
}

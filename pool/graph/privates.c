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

binade_status binadei_private_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a private arena");
}

static binade_status refuse_gone(void)
{
    return binadei_fail(BINADE_E_INVALID,
                        "no such private arena: it was released before, or its "
                        "pool is gone");
}

/* --- places --- */

void binadei_privates_init(struct binadei_privates *privates)
{
    pthread_mutex_init(&privates->lock, NULL);
}

struct binadei_private *
binadei_private_at(const struct binadei_privates *privates, uint32_t place)
{
    /* PA.acquire. */
    return place < BINADEI_PRIVATES_MAX
               ? atomic_load_explicit(&privates->places[place],
                                      memory_order_acquire)
               : NULL;
}

void binadei_private_free_halves(struct binadei_private *arena)
{
    for (unsigned i = 0; i < BINADEI_PRIVATE_SIDES; i++)
        binadei_half_fini(&arena->halves[i]);
}

void binadei_privates_fini(struct binadei_privates *privates)
{
    struct binadei_private *arena;
    for (uint32_t i = 0; (arena = binadei_private_at(privates, i)); i++) {
        if (arena->number)
            binadei_scope_unname(arena->number);
        binadei_private_free_halves(arena);
        binadei_private_free_pieces(arena);
        binadei_kept_end(&arena->kept);
        pthread_mutex_destroy(&arena->lock);
        free(arena);
    }
    /* relaxed: no call is under way. */
    free((void *)atomic_load_explicit(&privates->owners, memory_order_relaxed));
    pthread_mutex_destroy(&privates->lock);
}

/* Lock of all held. */
static bool make_owners(struct binadei_privates *privates,
                        uint32_t page_capacity)
{
    /* relaxed: written under the lock. */
    if (atomic_load_explicit(&privates->owners, memory_order_relaxed))
        return true;
    binadei_private_owner *owners = calloc(page_capacity, sizeof(*owners));
    /* PA.release: the zeroes. */
    atomic_store_explicit(&privates->owners, owners, memory_order_release);
    return owners != NULL;
}

static bool privates_is_free(struct binadei_private *arena)
{
    pthread_mutex_lock(&arena->lock);
    bool is_free = !arena->number;
    pthread_mutex_unlock(&arena->lock);
    return is_free;
}

/* Lock of all held. A place that is free; NULL, and why. */
static struct binadei_private *
privates_find_place(struct binadei_privates *privates, bool is_account,
                    binade_status *out_status)
{
    struct binadei_private *arena;
    uint32_t place = 0;
    while ((arena = binadei_private_at(privates, place)) &&
           !privates_is_free(arena))
        place++;
    if (arena)
        return arena;
    *out_status =
        place < BINADEI_PRIVATES_MAX
            ? BINADE_OK
            : binadei_fail(BINADE_E_TOO_LARGE, "the pool has %u private arenas",
                           BINADEI_PRIVATES_MAX);
    arena = *out_status == BINADE_OK ? calloc(1, sizeof(*arena)) : NULL;
    if (!arena && *out_status == BINADE_OK)
        *out_status = binadei_private_no_memory();
    if (!arena)
        return NULL;
    pthread_mutex_init(&arena->lock, NULL);
    arena->place = place;
    arena->is_account = is_account;
    /* PA.release. */
    atomic_store_explicit(&privates->places[place], arena,
                          memory_order_release);
    return arena;
}

static binade_status make_halves(struct binadei_private *arena,
                                 uint32_t page_capacity)
{
    for (unsigned i = 0; i < BINADEI_PRIVATE_SIDES; i++) {
        binade_status status =
            binadei_half_init(&arena->halves[i], page_capacity);
        if (status == BINADE_OK)
            continue;
        binadei_private_free_halves(arena);
        return status;
    }
    return BINADE_OK;
}

/* Lock held. */
static void privates_begin(struct binadei_private *arena, binade_private number,
                           uint64_t limit_bytes, uint32_t flags)
{
    arena->flags = flags;
    arena->phase = BINADEI_PRIVATE_RUNNING;
    arena->kept = (struct binadei_kept){0};
    arena->reserved_bytes = arena->reserved_peak_bytes = 0;
    arena->live_count = arena->live_bytes = arena->live_peak_bytes = 0;
    arena->page_end = 0;
    arena->limit_bytes =
        limit_bytes ? limit_bytes / BINADEI_PAGE_BYTES * BINADEI_PAGE_BYTES
                    : UINT64_MAX;
    arena->number = number;
}

/* Lock of all held. */
static binade_status privates_make(struct binadei_call *call,
                                   uint64_t limit_bytes, uint32_t flags,
                                   binade_private *out)
{
    struct binadei_privates *privates = call->pool->body->privates;
    binade_status status = BINADE_OK;
    const binade_private number = binadei_scope_next_number();
    const bool is_account = call->pool->body->ops->has_records;
    const uint32_t page_capacity = call->pool->body->page_capacity;
    struct binadei_private *arena =
        privates_find_place(privates, is_account, &status);
    if (!arena)
        return status;
    if ((!is_account && !make_owners(privates, page_capacity)) ||
        !binadei_scope_name(number, call->pool))
        return binadei_private_no_memory();
    /* A thread that still looks at the place has another number. */
    pthread_mutex_lock(&arena->lock);
    if (!is_account)
        status = make_halves(arena, page_capacity);
    if (status == BINADE_OK)
        privates_begin(arena, number, limit_bytes, flags);
    pthread_mutex_unlock(&arena->lock);
    if (status == BINADE_OK)
        *out = number;
    else
        binadei_scope_unname(number);
    return status;
}

binade_status binadei_private_make(struct binadei_call *call,
                                   uint64_t limit_bytes, uint32_t flags,
                                   binade_private *out)
{
    struct binadei_privates *privates = call->pool->body->privates;
    pthread_mutex_lock(&privates->lock);
    binade_status status = privates_make(call, limit_bytes, flags, out);
    pthread_mutex_unlock(&privates->lock);
    return status;
}

struct binadei_private *binadei_private_find(struct binadei_privates *privates,
                                             binade_private number)
{
    struct binadei_private *arena;
    for (uint32_t i = 0; (arena = binadei_private_at(privates, i)); i++) {
        pthread_mutex_lock(&arena->lock);
        bool is_it = arena->number == number;
        pthread_mutex_unlock(&arena->lock);
        if (is_it)
            break;
    }
    return arena;
}

struct binadei_private_ref
binadei_private_of_scope(const struct binadei_call *call, binade_scope scope)
{
    struct binadei_private *arena =
        binadei_scope_arena(call->pool->body->scopes, scope);
    struct binadei_private_ref ref = {arena, 0};
    if (!arena)
        return ref;
    pthread_mutex_lock(&arena->lock);
    ref.number = arena->number;
    pthread_mutex_unlock(&arena->lock);
    return ref;
}

/* With the lock held after BINADE_OK. */
binade_status binadei_private_enter(const struct binadei_private_ref *ref)
{
    pthread_mutex_lock(&ref->arena->lock);
    if (ref->arena->number == ref->number)
        return BINADE_OK;
    pthread_mutex_unlock(&ref->arena->lock);
    return refuse_gone();
}

binade_status
binadei_private_enter_running(const struct binadei_private_ref *ref)
{
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK || ref->arena->phase == BINADEI_PRIVATE_RUNNING)
        return status;
    pthread_mutex_unlock(&ref->arena->lock);
    return binadei_fail(BINADE_E_BUSY,
                        "the private arena is paused: resume it first");
}

void binadei_private_leave(struct binadei_private *arena)
{
    pthread_mutex_unlock(&arena->lock);
}

/* --- pages --- */

static binadei_private_owner *owners_of(const struct binadei_privates *privates)
{
    /* PA.acquire: the zeroes. */
    return atomic_load_explicit(&privates->owners, memory_order_acquire);
}

uint32_t binadei_private_mark_of(const struct binadei_private *arena,
                                 unsigned side)
{
    return arena->place * BINADEI_PRIVATE_SIDES + side + 1;
}

uint32_t binadei_private_mark_at(const struct binadei_privates *privates,
                                 binadei_page page)
{
    const binadei_private_owner *owners = owners_of(privates);
    /* relaxed: see binadei_private_owner. */
    return owners
               ? atomic_load_explicit(&owners[page.index], memory_order_relaxed)
               : 0;
}

void binadei_private_set_marks(const struct binadei_privates *privates,
                               binadei_page first, uint32_t page_count,
                               uint32_t mark)
{
    binadei_private_owner *owners = owners_of(privates);
    /* relaxed: see binadei_private_owner. */
    for (uint32_t i = 0; i < page_count; i++)
        atomic_store_explicit(&owners[first.index + i], mark,
                              memory_order_relaxed);
}

void binadei_private_clear_mark(const struct binadei_privates *privates,
                                binadei_page page, uint32_t mark)
{
    /* relaxed: see binadei_private_owner. It fails where another arena has it. */
    (void)atomic_compare_exchange_strong_explicit(
        &owners_of(privates)[page.index], &mark, 0, memory_order_relaxed,
        memory_order_relaxed);
}

struct binadei_private *
binadei_privates_owner(struct binadei_privates *privates, binadei_grain grain)
{
    uint32_t mark =
        binadei_private_mark_at(privates, binadei_page_of_grain(grain));
    return mark ? binadei_private_at(privates,
                                     (mark - 1) / BINADEI_PRIVATE_SIDES)
                : NULL;
}

/* See count_grant() of private_take.c. */
void binadei_private_count_return(struct binadei_call *call,
                                  uint32_t page_count)
{
    binadei_count(call->thread_state, BINADEI_COUNT_FREES, page_count);
    binadei_count(call->thread_state, BINADEI_COUNT_FREE_BYTES,
                  page_count * (uint64_t)BINADEI_PAGE_BYTES);
}

/* Pages of an arena no more, and done. */
void binadei_private_give_pages(struct binadei_call *call, binadei_page first,
                                uint32_t page_count)
{
    binadei_grain start =
        binadei_grain_at((uint64_t)first.index * BINADEI_PAGE_GRAINS);
    binadei_flush_grains(call->thread_state, call->engine->streams.done, start,
                         (uint64_t)page_count * BINADEI_PAGE_GRAINS);
    binadei_private_count_return(call, page_count);
}

/* Lock held. Whether pages that are done in one half may be the other's. */
bool binadei_private_may_lend(const struct binadei_private *arena,
                              unsigned side)
{
    return side == BINADEI_PRIVATE_PLAIN || !arena->graph_count;
}

/* The note of the call's stream; 0: it names none. */
uint32_t binadei_private_note_of(const struct binadei_call *call)
{
    const struct binadei_stream_state *stream_state = call->push->stream_state;
    return stream_state->kind >= BINADEI_STREAM_STATE_STREAM
               ? stream_state->note
               : 0;
}

/* --- events --- */

/* Closes one half, and drains it if its event is over. True: memory became
 * done. */
static bool poll_half(struct binadei_call *call, struct binadei_private *arena,
                      unsigned side, bool may_wait)
{
    struct binadei_half *half = &arena->halves[side];
    pthread_mutex_lock(&arena->lock);
    if (arena->number)
        binadei_half_close(half, binadei_wait_for_all(call).number);
    const struct binadei_wait wait = {arena->number ? half->number : 0};
    uint64_t closings = half->closings;
    pthread_mutex_unlock(&arena->lock);
    if (!wait.number || !binadei_wait_ask(call, &wait, may_wait))
        return false;
    BINADEI_STEP("private.over");
    pthread_mutex_lock(&arena->lock);
    /* Not if others drained it, and closed the next. */
    bool is_due = arena->number && half->number && half->closings == closings;
    if (is_due)
        binadei_half_drain(half);
    pthread_mutex_unlock(&arena->lock);
    return is_due;
}

bool binadei_private_poll(struct binadei_call *call,
                          struct binadei_private *arena, bool may_wait)
{
    bool is_any = false;
    for (unsigned i = 0; i < BINADEI_PRIVATE_SIDES; i++)
        is_any |= poll_half(call, arena, i, may_wait);
    return is_any;
}

binade_status binadei_private_fill(const struct binadei_private_ref *ref,
                                   binade_private_info *out)
{
    const struct binadei_private *arena = ref->arena;
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK)
        return status;
    *out = (binade_private_info){
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
        .is_paused = arena->phase == BINADEI_PRIVATE_PAUSED,
    };
    if (out->is_paused) {
        out->paused_bytes = arena->reserved_bytes;
        out->reserved_bytes = 0;
        for (const struct binadei_private_piece *at = arena->pieces; at;
             at = at->next)
            if (at->is_kept)
                out->kept_bytes += at->page_count * BINADEI_PAGE_BYTES;
    }
    for (unsigned i = 0; i < BINADEI_PRIVATE_SIDES; i++)
        out->waiting_bytes += binadei_half_waiting_grains(&arena->halves[i]) *
                              BINADEI_GRAIN_BYTES;
    binadei_private_leave(ref->arena);
    return BINADE_OK;
}

/* --- accounts --- */

static binade_status refuse_limit(const struct binadei_private *arena,
                                  uint64_t bytes)
{
    return binadei_fail(
        BINADE_E_BUDGET,
        "%llu bytes more: the private arena has %llu of a limit of %llu",
        (unsigned long long)bytes, (unsigned long long)arena->reserved_bytes,
        (unsigned long long)arena->limit_bytes);
}

/* Lock held: before the pool is asked, so that others do not pass the limit. */
binade_status binadei_private_reserve(struct binadei_private *arena,
                                      uint64_t bytes)
{
    if (bytes > arena->limit_bytes) {
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%llu bytes: the private arena never has more than "
                            "%llu",
                            (unsigned long long)bytes,
                            (unsigned long long)arena->limit_bytes);
    }
    if (arena->reserved_bytes > arena->limit_bytes - bytes)
        return refuse_limit(arena, bytes);
    arena->reserved_bytes += bytes;
    return BINADE_OK;
}

binade_status binadei_private_charge(const struct binadei_private_ref *ref,
                                     uint64_t bytes)
{
    struct binadei_private *arena = ref->arena;
    binade_status status = binadei_private_enter(ref);
    if (status != BINADE_OK)
        return status;
    status = binadei_private_reserve(arena, bytes);
    if (status == BINADE_OK) {
        arena->live_count++;
        arena->live_bytes = arena->reserved_bytes;
        if (arena->live_bytes > arena->live_peak_bytes)
            arena->live_peak_bytes = arena->live_bytes;
        arena->reserved_peak_bytes = arena->live_peak_bytes;
    }
    binadei_private_leave(arena);
    return status;
}

void binadei_private_discharge(const struct binadei_private_ref *ref,
                               uint64_t bytes)
{
    struct binadei_private *arena = ref->arena;
    pthread_mutex_lock(&arena->lock);
    if (arena->number == ref->number) {
        arena->live_count--;
        arena->reserved_bytes -= bytes;
        arena->live_bytes = arena->reserved_bytes;
    }
    pthread_mutex_unlock(&arena->lock);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/graph/private_half.h"

#include <stdlib.h>

#include "pool/base/failure.h"

/* So many heaps of streams that have nothing in them are kept. */
#define OWNS_MOST 32U

bool moietyi_half_init(struct moietyi_half *half, uint32_t page_capacity)
{
    half->done = moietyi_space_create(page_capacity);
    if (half->done)
        half->pending = moietyi_heap_create(half->done);
    if (!half->pending)
        moietyi_half_fini(half);
    return half->pending != NULL;
}

static void free_own(struct moietyi_private_own *own)
{
    moietyi_heap_destroy(own->heap);
    free(own);
}

/* Lists of an arena's half, so that a free walks few of a capture's blocks. */
#define FRESH_LIST_ORDER 12U
#define FRESH_LISTS (1U << FRESH_LIST_ORDER)

static struct moietyi_private_fresh **fresh_list(struct moietyi_half *half,
                                                 moietyi_grain start)
{
    uint64_t hash = start.index * UINT64_C(0x9E3779B97F4A7C15);
    return &half->fresh[hash >> (64 - FRESH_LIST_ORDER)];
}

/* Of one list; of all scopes where `scope` is 0. */
static void end_fresh_of(struct moietyi_private_fresh **at, moiety_scope scope)
{
    while (*at) {
        struct moietyi_private_fresh *fresh = *at;
        if (scope && fresh->scope != scope) {
            at = &fresh->next;
            continue;
        }
        *at = fresh->next;
        free(fresh);
    }
}

/* Those that outlive the scope are its results. */
static void end_fresh(struct moietyi_half *half, moiety_scope scope)
{
    for (unsigned i = 0; half->fresh && i < FRESH_LISTS; i++)
        end_fresh_of(&half->fresh[i], scope);
}

void moietyi_half_fini(struct moietyi_half *half)
{
    while (half->owns) {
        struct moietyi_private_own *own = half->owns;
        half->owns = own->next;
        free_own(own);
    }
    end_fresh(half, 0);
    free(half->fresh);
    moietyi_heap_destroy(half->pending);
    moietyi_space_destroy(half->done);
    /* A thread that asked for an event of it gets none. */
    *half = (struct moietyi_half){.closings = half->closings};
}

bool moietyi_half_remove(struct moietyi_half *half, uint32_t page_count,
                         moietyi_page *out_first)
{
    const struct moietyi_view view = {.space = half->done};
    moietyi_grain start;
    if (!moietyi_view_take(&view, (uint64_t)page_count * MOIETYI_PAGE_GRAINS,
                           MOIETYI_PAGE_GRAINS, &start))
        return false;
    *out_first = moietyi_page_of_grain(start);
    return true;
}

static bool private_half_is_key(const struct moietyi_private_key *one,
                                const struct moietyi_private_key *other)
{
    return one->note == other->note && one->scope == other->scope;
}

static struct moietyi_private_own *
find_own(const struct moietyi_half *half, const struct moietyi_private_key *key)
{
    struct moietyi_private_own *own = half->owns;
    while (own && !private_half_is_key(&own->key, key))
        own = own->next;
    return own;
}

/* NULL: no memory. */
static struct moietyi_private_own *
make_own(struct moietyi_half *half, const struct moietyi_private_key *key)
{
    struct moietyi_private_own *own = find_own(half, key);
    if (own)
        return own;
    own = calloc(1, sizeof(*own));
    if (!own)
        return NULL;
    own->key = *key;
    own->heap = moietyi_heap_create(half->done);
    if (!own->heap) {
        free(own);
        return NULL;
    }
    own->next = half->owns;
    half->owns = own;
    return own;
}

static struct moietyi_view half_view(const struct moietyi_half *half,
                                     const struct moietyi_private_key *key)
{
    const struct moietyi_private_own *own =
        key->note ? find_own(half, key) : NULL;
    return (struct moietyi_view){.space = half->done,
                                 .heap = own ? own->heap : NULL};
}

bool moietyi_half_take(struct moietyi_half *half,
                       const struct moietyi_private_key *key, uint64_t grains,
                       moietyi_grain *out)
{
    const struct moietyi_view view = half_view(half, key);
    return moietyi_view_take(&view, grains, 1, out);
}

bool moietyi_half_extend(struct moietyi_half *half,
                         const struct moietyi_private_key *key,
                         moietyi_grain start, uint64_t grains)
{
    const struct moietyi_view view = half_view(half, key);
    return moietyi_view_claim(&view, start, grains);
}

/* How much is free from `start` on, up to `end`, in one of the heaps without a
 * gap, and in which: `*out_heap` NULL is what is done. */
static uint64_t free_from(const struct moietyi_half *half, moietyi_grain start,
                          moietyi_grain end, struct moietyi_heap **out_heap)
{
    *out_heap = NULL;
    uint64_t grains = moietyi_space_free_from(half->done, start, end);
    if (grains)
        return grains;
    *out_heap = half->pending;
    grains = moietyi_heap_free_from(half->pending, start, end);
    for (const struct moietyi_private_own *own = half->owns; own && !grains;
         own = own->next) {
        *out_heap = own->heap;
        grains = moietyi_heap_free_from(own->heap, start, end);
    }
    return grains;
}

static bool private_half_is_free(const struct moietyi_half *half, uint64_t at,
                                 uint64_t end)
{
    struct moietyi_heap *heap;
    uint64_t grains = 1;
    for (; at < end && grains; at += grains)
        grains =
            free_from(half, moietyi_grain_at(at), moietyi_grain_at(end), &heap);
    return grains != 0;
}

moiety_status moietyi_half_claim(struct moietyi_half *half, moietyi_grain start,
                                 uint64_t grains)
{
    const uint64_t end = start.index + grains;
    uint64_t at = start.index;
    if (!private_half_is_free(half, at, end))
        return moietyi_fail(MOIETY_E_IN_USE,
                            "a part of the bytes is in use in the arena");
    while (at < end) {
        struct moietyi_heap *heap;
        uint64_t length =
            free_from(half, moietyi_grain_at(at), moietyi_grain_at(end), &heap);
        const struct moietyi_view view = {
            .space = half->done, .heap = heap, .is_own_only = heap != NULL};
        /* Nobody else takes anything meanwhile. */
        (void)moietyi_view_claim(&view, moietyi_grain_at(at), length);
        at += length;
    }
    return MOIETY_OK;
}

void moietyi_half_note_fresh(struct moietyi_half *half, moiety_scope scope,
                             moietyi_grain start)
{
    if (!half->fresh)
        half->fresh =
            calloc(FRESH_LISTS, sizeof(struct moietyi_private_fresh *));
    struct moietyi_private_fresh *fresh =
        half->fresh ? calloc(1, sizeof(*fresh)) : NULL;
    if (!fresh)
        return;
    struct moietyi_private_fresh **list = fresh_list(half, start);
    *fresh = (struct moietyi_private_fresh){*list, scope, start};
    *list = fresh;
}

bool moietyi_half_forget_fresh(struct moietyi_half *half, moiety_scope scope,
                               moietyi_grain start)
{
    if (!half->fresh)
        return false;
    struct moietyi_private_fresh **at = fresh_list(half, start);
    while (*at && (*at)->start.index != start.index)
        at = &(*at)->next;
    struct moietyi_private_fresh *found = *at;
    if (!found)
        return false;
    bool is_its = found->scope == scope;
    *at = found->next;
    free(found);
    return is_its;
}

void moietyi_half_give(struct moietyi_half *half,
                       const struct moietyi_private_key *key,
                       moietyi_grain start, uint64_t grains)
{
    const struct moietyi_private_own *own =
        key->note ? make_own(half, key) : NULL;
    (void)moietyi_heap_give(own ? own->heap : half->pending, start, grains);
}

void moietyi_half_give_done(struct moietyi_half *half, moietyi_grain start,
                            uint64_t grains)
{
    (void)moietyi_space_give(half->done, start, grains);
}

static uint64_t private_half_grains_of(const struct moietyi_heap *heap)
{
    return moietyi_heap_grains(heap, MOIETYI_FRESH) +
           moietyi_heap_grains(heap, MOIETYI_AGEING);
}

uint64_t moietyi_half_waiting_grains(const struct moietyi_half *half)
{
    uint64_t grains = private_half_grains_of(half->pending);
    for (const struct moietyi_private_own *own = half->owns; own;
         own = own->next)
        if (!own->key.scope)
            grains += private_half_grains_of(own->heap);
    return grains;
}

void moietyi_half_close(struct moietyi_half *half, uint64_t number)
{
    if (half->number || !moietyi_half_waiting_grains(half))
        return;
    (void)moietyi_heap_close(half->pending);
    for (const struct moietyi_private_own *own = half->owns; own;
         own = own->next)
        if (!own->key.scope)
            (void)moietyi_heap_close(own->heap);
    half->number = number;
    half->closings++;
}

/* Of streams that may be gone. */
static void drop_empty_owns(struct moietyi_half *half)
{
    uint32_t kept = 0;
    struct moietyi_private_own **at = &half->owns;
    while (*at) {
        struct moietyi_private_own *own = *at;
        if (private_half_grains_of(own->heap) || kept < OWNS_MOST) {
            kept++;
            at = &own->next;
            continue;
        }
        *at = own->next;
        free_own(own);
    }
}

void moietyi_half_drain(struct moietyi_half *half)
{
    half->number = 0;
    (void)moietyi_heap_drain(half->pending, MOIETYI_AGEING);
    for (const struct moietyi_private_own *own = half->owns; own;
         own = own->next)
        if (!own->key.scope)
            (void)moietyi_heap_drain(own->heap, MOIETYI_AGEING);
    drop_empty_owns(half);
}

void moietyi_half_end_scope(struct moietyi_half *half, moiety_scope scope)
{
    end_fresh(half, scope);
    struct moietyi_private_own **at = &half->owns;
    while (*at) {
        struct moietyi_private_own *own = *at;
        if (own->key.scope != scope) {
            at = &own->next;
            continue;
        }
        *at = own->next;
        /* A claim may have put the rest of a unit back; nothing is ageing. */
        (void)moietyi_heap_drain(own->heap, MOIETYI_FRESH);
        free_own(own);
    }
}

uint64_t moietyi_half_pull(struct moietyi_half *half, moietyi_grain start,
                           moietyi_grain end, bool is_done_only)
{
    struct moietyi_heap *heap = NULL;
    uint64_t grains = is_done_only
                          ? moietyi_space_free_from(half->done, start, end)
                          : free_from(half, start, end, &heap);
    const struct moietyi_view view = {
        .space = half->done, .heap = heap, .is_own_only = heap != NULL};
    return grains && moietyi_view_claim(&view, start, grains) ? grains : 0;
}

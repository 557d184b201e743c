/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/graph/private_half.h"

#include <stdlib.h>

#include "pool/base/failure.h"

/* So many maps of streams that have nothing in them are kept. */
#define OWNS_MOST 32U

binade_status binadei_half_init(struct binadei_half *half,
                                uint32_t page_capacity)
{
    binade_status status = binadei_buddy_create(page_capacity, &half->done);
    if (status == BINADE_OK)
        half->pending = binadei_maps_create(half->done);
    if (half->pending)
        return BINADE_OK;
    binadei_half_fini(half);
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a private arena");
}

static void free_own(struct binadei_private_own *own)
{
    binadei_maps_destroy(own->maps);
    free(own);
}

void binadei_half_fini(struct binadei_half *half)
{
    while (half->owns) {
        struct binadei_private_own *own = half->owns;
        half->owns = own->next;
        free_own(own);
    }
    binadei_maps_destroy(half->pending);
    binadei_buddy_destroy(half->done);
    /* A thread that asked for an event of it asks in vain. */
    *half = (struct binadei_half){.closings = half->closings};
}

bool binadei_half_add(struct binadei_half *half, binadei_page first,
                      uint32_t page_count)
{
    if (!binadei_maps_reserve(half->pending, first, page_count))
        return false;
    binadei_buddy_add(half->done, first, page_count);
    return true;
}

bool binadei_half_remove(struct binadei_half *half, uint32_t page_count,
                         binadei_page *out_first)
{
    const struct binadei_view view = {.buddy = half->done};
    binadei_grain start;
    if (!binadei_view_take(&view, (uint64_t)page_count * BINADEI_PAGE_GRAINS,
                           BINADEI_PAGE_GRAINS, &start))
        return false;
    *out_first = binadei_page_of_grain(start);
    return true;
}

uint32_t binadei_half_longest(const struct binadei_half *half)
{
    return binadei_buddy_longest_page_run(half->done);
}

static bool private_half_is_key(const struct binadei_private_key *one,
                                const struct binadei_private_key *other)
{
    return one->note == other->note && one->scope == other->scope;
}

static struct binadei_private_own *
find_own(const struct binadei_half *half, const struct binadei_private_key *key)
{
    struct binadei_private_own *own = half->owns;
    while (own && !private_half_is_key(&own->key, key))
        own = own->next;
    return own;
}

/* NULL: no memory. */
static struct binadei_private_own *
make_own(struct binadei_half *half, const struct binadei_private_key *key)
{
    struct binadei_private_own *own = find_own(half, key);
    if (own)
        return own;
    own = calloc(1, sizeof(*own));
    if (!own)
        return NULL;
    own->key = *key;
    own->maps = binadei_maps_create(half->done);
    if (!own->maps) {
        free(own);
        return NULL;
    }
    own->next = half->owns;
    half->owns = own;
    return own;
}

static struct binadei_view half_view(const struct binadei_half *half,
                                     const struct binadei_private_key *key)
{
    const struct binadei_private_own *own =
        key->note ? find_own(half, key) : NULL;
    return (struct binadei_view){.buddy = half->done,
                                 .maps = own ? own->maps : NULL};
}

bool binadei_half_take(struct binadei_half *half,
                       const struct binadei_private_key *key, uint64_t grains,
                       binadei_grain *out)
{
    const struct binadei_view view = half_view(half, key);
    return binadei_view_take(&view, grains, 1, out);
}

bool binadei_half_extend(struct binadei_half *half,
                         const struct binadei_private_key *key,
                         binadei_grain start, uint64_t grains)
{
    const struct binadei_view view = half_view(half, key);
    return binadei_view_claim(&view, start, grains);
}

/* How much is free from `start` on, up to `end`, in one of the maps without a
 * gap, and in which: `out_maps` NULL is what is done. */
static uint64_t free_from(const struct binadei_half *half, binadei_grain start,
                          binadei_grain end, struct binadei_maps **out_maps)
{
    *out_maps = NULL;
    uint64_t grains = binadei_buddy_free_from(half->done, start, end);
    if (grains)
        return grains;
    *out_maps = half->pending;
    grains = binadei_maps_free_from(half->pending, start, end);
    for (const struct binadei_private_own *own = half->owns; own && !grains;
         own = own->next) {
        *out_maps = own->maps;
        grains = binadei_maps_free_from(own->maps, start, end);
    }
    return grains;
}

static bool private_half_is_free(const struct binadei_half *half, uint64_t at,
                                 uint64_t end)
{
    struct binadei_maps *maps;
    uint64_t grains = 1;
    for (; at < end && grains; at += grains)
        grains =
            free_from(half, binadei_grain_at(at), binadei_grain_at(end), &maps);
    return grains != 0;
}

binade_status binadei_half_claim(struct binadei_half *half, binadei_grain start,
                                 uint64_t grains)
{
    const uint64_t end = start.index + grains;
    uint64_t at = start.index;
    if (!private_half_is_free(half, at, end))
        return binadei_fail(BINADE_E_BUSY,
                            "a part of the bytes is in use in the arena");
    while (at < end) {
        struct binadei_maps *maps;
        uint64_t length =
            free_from(half, binadei_grain_at(at), binadei_grain_at(end), &maps);
        const struct binadei_view view = {
            .buddy = half->done, .maps = maps, .is_own_only = maps != NULL};
        if (!binadei_view_claim(&view, binadei_grain_at(at), length))
            break;
        at += length;
    }
    if (at == end)
        return BINADE_OK;
    /* For want of words only: nobody else takes anything meanwhile. */
    if (at > start.index)
        (void)binadei_maps_give(half->pending, start, at - start.index);
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to claim a part of a private arena");
}

void binadei_half_give(struct binadei_half *half,
                       const struct binadei_private_key *key,
                       binadei_grain start, uint64_t grains)
{
    const struct binadei_private_own *own =
        key->note ? make_own(half, key) : NULL;
    if (own &&
        binadei_maps_give(own->maps, start, grains) != BINADEI_MAP_NO_MEMORY)
        return;
    (void)binadei_maps_give(half->pending, start, grains);
}

void binadei_half_give_done(struct binadei_half *half, binadei_grain start,
                            uint64_t grains)
{
    (void)binadei_buddy_give(half->done, NULL, start, grains);
}

static uint64_t private_half_grains_of(const struct binadei_maps *maps)
{
    return binadei_maps_grains(maps, BINADEI_FRESH) +
           binadei_maps_grains(maps, BINADEI_AGEING);
}

uint64_t binadei_half_waiting_grains(const struct binadei_half *half)
{
    uint64_t grains = private_half_grains_of(half->pending);
    for (const struct binadei_private_own *own = half->owns; own;
         own = own->next)
        if (!own->key.scope)
            grains += private_half_grains_of(own->maps);
    return grains;
}

bool binadei_half_is_waiting(const struct binadei_half *half)
{
    return binadei_half_waiting_grains(half) != 0;
}

void binadei_half_close(struct binadei_half *half, uint64_t number)
{
    if (half->number || !binadei_half_is_waiting(half))
        return;
    (void)binadei_maps_close(half->pending);
    for (const struct binadei_private_own *own = half->owns; own;
         own = own->next)
        if (!own->key.scope)
            (void)binadei_maps_close(own->maps);
    half->number = number;
    half->closings++;
}

/* Of streams that may be gone. */
static void drop_empty_owns(struct binadei_half *half)
{
    uint32_t kept = 0;
    struct binadei_private_own **at = &half->owns;
    while (*at) {
        struct binadei_private_own *own = *at;
        if (private_half_grains_of(own->maps) || kept < OWNS_MOST) {
            kept++;
            at = &own->next;
            continue;
        }
        *at = own->next;
        free_own(own);
    }
}

void binadei_half_drain(struct binadei_half *half)
{
    half->number = 0;
    (void)binadei_maps_drain(half->pending, BINADEI_AGEING);
    for (const struct binadei_private_own *own = half->owns; own;
         own = own->next)
        if (!own->key.scope)
            (void)binadei_maps_drain(own->maps, BINADEI_AGEING);
    drop_empty_owns(half);
}

void binadei_half_end_scope(struct binadei_half *half, binade_scope scope)
{
    struct binadei_private_own **at = &half->owns;
    while (*at) {
        struct binadei_private_own *own = *at;
        if (own->key.scope != scope) {
            at = &own->next;
            continue;
        }
        *at = own->next;
        /* A claim may have put the rest of a unit back; nothing is ageing. */
        (void)binadei_maps_drain(own->maps, BINADEI_FRESH);
        free_own(own);
    }
}

uint64_t binadei_half_pull(struct binadei_half *half, binadei_grain start,
                           binadei_grain end, bool is_done_only)
{
    struct binadei_maps *maps = NULL;
    uint64_t grains = is_done_only
                          ? binadei_buddy_free_from(half->done, start, end)
                          : free_from(half, start, end, &maps);
    const struct binadei_view view = {
        .buddy = half->done, .maps = maps, .is_own_only = maps != NULL};
    return grains && binadei_view_claim(&view, start, grains) ? grains : 0;
}

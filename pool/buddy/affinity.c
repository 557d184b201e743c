/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a searcher is at home: a few pages that others leave to it, the newest
 * of them first, and the words that stay open for it when they fill: the newest
 * page's and the chunk's that it took from last. A searcher keeps one word open
 * per level, not a trail of them.
 *
 * A page says whose affinity it is. It may become another's without a word to
 * the one before: when it was free for a moment, another may have taken it
 * afresh. All of this is advice, and a lost race over it costs time only.
 */
#include <string.h>

#include "pool/buddy/state.h"

void moietyi_affinity_stay(struct moietyi_buddy *buddy,
                           struct moietyi_affinity *affinity,
                           moietyi_chunk chunk)
{
    if (!affinity || affinity->chunk_plus_one == chunk.index + 1)
        return;
    uint64_t left_plus_one = affinity->chunk_plus_one;
    affinity->chunk_plus_one = chunk.index + 1;
    if (left_plus_one)
        moietyi_close_chunk(buddy, affinity,
                            (moietyi_chunk){left_plus_one - 1});
}

/* Everybody's again, unless another one lives there by now. */
static void affinity_abandon(struct moietyi_buddy *buddy,
                             const struct moietyi_affinity *affinity,
                             moietyi_page page)
{
    _Atomic uint32_t *id = &buddy->pages[page.index].affinity_id;
    /* relaxed: hints to searchers, see state.h. */
    if (atomic_load_explicit(id, memory_order_relaxed) != affinity->id)
        return;
    /* relaxed: as above. */
    atomic_store_explicit(id, 0, memory_order_relaxed);
    atomic_fetch_and_explicit(&moietyi_group_of(buddy, page)->affinities,
                              ~moietyi_page_bit(page), memory_order_relaxed);
}

static void affinity_settle(struct moietyi_buddy *buddy,
                            struct moietyi_affinity *affinity,
                            moietyi_page page)
{
    /* relaxed: hints to searchers, see state.h. */
    if (!affinity->id)
        affinity->id = 1 + atomic_fetch_add_explicit(&buddy->affinity_count, 1,
                                                     memory_order_relaxed);
    atomic_store_explicit(&buddy->pages[page.index].affinity_id, affinity->id,
                          memory_order_relaxed);
    atomic_fetch_or_explicit(&moietyi_group_of(buddy, page)->affinities,
                             moietyi_page_bit(page), memory_order_relaxed);
}

/* Its place on the list, or that of the oldest, or a free one. */
static unsigned place_of(const struct moietyi_affinity *affinity,
                         moietyi_page page)
{
    const uint32_t *pages = affinity->pages_plus_one;
    unsigned at = 0;
    while (at < MOIETYI_AFFINITY_PAGES - 1 && pages[at] &&
           pages[at] != page.index + 1)
        at++;
    return at;
}

void moietyi_affinity_move(struct moietyi_buddy *buddy,
                           struct moietyi_affinity *affinity, moietyi_page page)
{
    if (!affinity || affinity->pages_plus_one[0] == page.index + 1)
        return;
    uint32_t *pages = affinity->pages_plus_one;
    unsigned at = place_of(affinity, page);
    if (pages[at] && pages[at] != page.index + 1)
        affinity_abandon(buddy, affinity, (moietyi_page){pages[at] - 1});
    /* The newest page so far is not full, or it would have served. */
    memmove(pages + 1, pages, at * sizeof(*pages));
    pages[0] = page.index + 1;
    affinity_settle(buddy, affinity, page);
}

void moietyi_affinity_forget(struct moietyi_buddy *buddy,
                             struct moietyi_affinity *affinity, unsigned at)
{
    uint32_t *pages = affinity->pages_plus_one;
    /* It may have been left open for this affinity. */
    moietyi_close_page(buddy, (moietyi_page){pages[at] - 1});
    memmove(pages + at, pages + at + 1,
            (MOIETYI_AFFINITY_PAGES - 1 - at) * sizeof(*pages));
    pages[MOIETYI_AFFINITY_PAGES - 1] = 0;
}

void moietyi_buddy_drop_affinity(struct moietyi_buddy *buddy,
                                 struct moietyi_affinity *affinity)
{
    const struct moietyi_affinity left = *affinity;
    *affinity = (struct moietyi_affinity){.id = left.id};
    MOIETYI_STEP("affinity.dropped");
    if (left.chunk_plus_one)
        moietyi_close_chunk(buddy, NULL,
                            (moietyi_chunk){left.chunk_plus_one - 1});
    if (left.pages_plus_one[0])
        moietyi_close_page(buddy, (moietyi_page){left.pages_plus_one[0] - 1});
    for (unsigned i = 0; i < MOIETYI_AFFINITY_PAGES && left.pages_plus_one[i];
         i++)
        affinity_abandon(buddy, &left,
                         (moietyi_page){left.pages_plus_one[i] - 1});
}

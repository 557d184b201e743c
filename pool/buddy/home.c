/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a searcher is at home: a few pages that others leave to it, the newest
 * of them first, and the words that stay open for it when they fill: the newest
 * page's and the chunk's that it took from last. A searcher keeps one word open
 * per level, not a trail of them.
 *
 * A page says whose home it is. It may become another's without a word to the
 * one before: when it was free for a moment, another may have taken it afresh.
 * All of this is advice, and a lost race over it costs time only.
 */
#include <string.h>

#include "pool/buddy/state.h"

void binadei_home_stay(struct binadei_buddy *buddy, struct binadei_home *home,
                       binadei_chunk chunk)
{
    if (!home || home->chunk_plus_one == chunk.index + 1)
        return;
    uint64_t left_plus_one = home->chunk_plus_one;
    home->chunk_plus_one = chunk.index + 1;
    if (left_plus_one)
        binadei_close_chunk(buddy, home, (binadei_chunk){left_plus_one - 1});
}

/* Everybody's again, unless another one lives there by now. */
static void home_abandon(struct binadei_buddy *buddy,
                         const struct binadei_home *home, binadei_page page)
{
    _Atomic uint32_t *id = &buddy->pages[page.index].home_id;
    /* relaxed: hints to searchers, see state.h. */
    if (atomic_load_explicit(id, memory_order_relaxed) != home->id)
        return;
    /* relaxed: as above. */
    atomic_store_explicit(id, 0, memory_order_relaxed);
    atomic_fetch_and_explicit(&binadei_group_of(buddy, page)->homes,
                              ~binadei_page_bit(page), memory_order_relaxed);
}

static void home_settle(struct binadei_buddy *buddy, struct binadei_home *home,
                        binadei_page page)
{
    /* relaxed: hints to searchers, see state.h. */
    if (!home->id)
        home->id = 1 + atomic_fetch_add_explicit(&buddy->home_count, 1,
                                                 memory_order_relaxed);
    atomic_store_explicit(&buddy->pages[page.index].home_id, home->id,
                          memory_order_relaxed);
    atomic_fetch_or_explicit(&binadei_group_of(buddy, page)->homes,
                             binadei_page_bit(page), memory_order_relaxed);
}

/* Its place on the list, or that of the oldest, or a free one. */
static unsigned place_of(const struct binadei_home *home, binadei_page page)
{
    const uint32_t *pages = home->pages_plus_one;
    unsigned at = 0;
    while (at < BINADEI_HOME_PAGES - 1 && pages[at] &&
           pages[at] != page.index + 1)
        at++;
    return at;
}

void binadei_home_move(struct binadei_buddy *buddy, struct binadei_home *home,
                       binadei_page page)
{
    if (!home || home->pages_plus_one[0] == page.index + 1)
        return;
    uint32_t *pages = home->pages_plus_one;
    unsigned at = place_of(home, page);
    if (pages[at] && pages[at] != page.index + 1)
        home_abandon(buddy, home, (binadei_page){pages[at] - 1});
    /* The newest page so far is not full, or it would have served. */
    memmove(pages + 1, pages, at * sizeof(*pages));
    pages[0] = page.index + 1;
    home_settle(buddy, home, page);
}

void binadei_home_forget(struct binadei_buddy *buddy, struct binadei_home *home,
                         unsigned at)
{
    uint32_t *pages = home->pages_plus_one;
    /* It may have been left open for this home. */
    binadei_close_page(buddy, (binadei_page){pages[at] - 1});
    memmove(pages + at, pages + at + 1,
            (BINADEI_HOME_PAGES - 1 - at) * sizeof(*pages));
    pages[BINADEI_HOME_PAGES - 1] = 0;
}

void binadei_buddy_leave_home(struct binadei_buddy *buddy,
                              struct binadei_home *home)
{
    const struct binadei_home left = *home;
    *home = (struct binadei_home){.id = left.id};
    BINADEI_STEP("home.left");
    if (left.chunk_plus_one)
        binadei_close_chunk(buddy, NULL,
                            (binadei_chunk){left.chunk_plus_one - 1});
    if (left.pages_plus_one[0])
        binadei_close_page(buddy, (binadei_page){left.pages_plus_one[0] - 1});
    for (unsigned i = 0; i < BINADEI_HOME_PAGES && left.pages_plus_one[i]; i++)
        home_abandon(buddy, &left, (binadei_page){left.pages_plus_one[i] - 1});
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a searcher is at home: the page that others leave to it, and the word
 * that stays open for it when it fills. A searcher keeps one word open per
 * level, not a trail of them: what it leaves is closed.
 */
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

void binadei_home_move(struct binadei_buddy *buddy, struct binadei_home *home,
                       binadei_page page)
{
    if (!home || home->page_plus_one == page.index + 1)
        return;
    /* 0 becomes the highest chunk, which is in no page. */
    binadei_chunk own = {home->chunk_plus_one - 1};
    bool is_own_here = own.index / BINADEI_PAGE_CHUNKS == page.index;
    if (is_own_here)
        home->chunk_plus_one = 0;
    binadei_buddy_leave_home(buddy, home);
    if (is_own_here)
        home->chunk_plus_one = own.index + 1;
    home->page_plus_one = page.index + 1;
    /* relaxed: a hint to other searchers, see state.h. */
    atomic_fetch_or_explicit(binadei_bit_word(buddy->homes, page),
                             binadei_page_bit(page), memory_order_relaxed);
}

void binadei_buddy_leave_home(struct binadei_buddy *buddy,
                              struct binadei_home *home)
{
    const struct binadei_home left = *home;
    *home = (struct binadei_home){0, 0};
    if (left.chunk_plus_one)
        binadei_close_chunk(buddy, NULL,
                            (binadei_chunk){left.chunk_plus_one - 1});
    if (!left.page_plus_one)
        return;
    binadei_page page = {left.page_plus_one - 1};
    binadei_close_page(buddy, page);
    /* relaxed: a hint to other searchers, see state.h. */
    atomic_fetch_and_explicit(binadei_bit_word(buddy->homes, page),
                              ~binadei_page_bit(page), memory_order_relaxed);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pages of a segment, which come and go. Others take and give single pages
 * meanwhile, so the run is claimed word by word and given back when a page of it
 * has gone.
 */
#include "pool/buddy/extent.h"

/* The part of pages [first, first + length) that word `index` holds. */
static uint64_t mask_in_word(uint32_t index, uint32_t first, uint32_t length)
{
    uint64_t low = (uint64_t)index * MOIETYI_WORD_BITS;
    uint64_t from = first > low ? first : low;
    uint64_t end = (uint64_t)first + length;
    uint64_t to = end < low + MOIETYI_WORD_BITS ? end : low + MOIETYI_WORD_BITS;
    return from < to
               ? moietyi_word_run((unsigned)(from - low), (unsigned)(to - from))
               : 0;
}

/* Claims `mask` of one word, all of it or nothing. */
static bool claim_mask(struct moietyi_buddy *buddy, uint32_t index,
                       uint64_t mask)
{
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(&buddy->groups[index].free_pages);
    do {
        if ((seen & mask) != mask)
            return false;
        /* BW.acquire: the last owners' use of the pages is over. */
    } while (!moietyi_cas_acquire(&buddy->groups[index].free_pages, &seen,
                                  seen & ~mask));
    return true;
}

static void give_words(struct moietyi_buddy *buddy, uint32_t first,
                       uint32_t length, uint32_t word_end)
{
    for (uint32_t i = first / MOIETYI_WORD_BITS; i < word_end; i++)
        (void)moietyi_give_pages(buddy, i, mask_in_word(i, first, length));
}

/* All pages of the run or none; run lock held. */
static bool claim_run(struct moietyi_buddy *buddy, uint32_t first,
                      uint32_t length)
{
    uint32_t last = (first + length - 1) / MOIETYI_WORD_BITS;
    for (uint32_t i = first / MOIETYI_WORD_BITS; i <= last; i++) {
        if (claim_mask(buddy, i, mask_in_word(i, first, length)))
            continue;
        give_words(buddy, first, length, i);
        return false;
    }
    return true;
}

bool moietyi_buddy_cover(struct moietyi_buddy *buddy, moietyi_page first,
                         uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(&buddy->page_limit);
    /* BP.release: searchers that see the new limit see zeroed words. */
    while (seen < end && !moietyi_cas_acq_rel(&buddy->page_limit, &seen, end))
        continue;
    return true;
}

bool moietyi_buddy_add(struct moietyi_buddy *buddy, moietyi_page first,
                       uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    (void)moietyi_buddy_cover(buddy, first, page_count);
    MOIETYI_STEP("add.announced");
    give_words(buddy, first.index, page_count,
               (uint32_t)((end + MOIETYI_WORD_BITS - 1) / MOIETYI_WORD_BITS));
    const struct moietyi_kind done = {buddy, NULL};
    moietyi_index_note_around(&done,
                              (uint64_t)first.index * MOIETYI_PAGE_GRAINS,
                              end * MOIETYI_PAGE_GRAINS);
    return true;
}

bool moietyi_buddy_remove(struct moietyi_buddy *buddy, moietyi_page first,
                          uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    if (page_count == 0 || end > moietyi_page_limit(buddy))
        return page_count == 0;
    pthread_mutex_lock(&buddy->run_lock);
    bool is_claimed = claim_run(buddy, first.index, page_count);
    MOIETYI_STEP("locked.withdraw");
    pthread_mutex_unlock(&buddy->run_lock);
    return is_claimed;
}

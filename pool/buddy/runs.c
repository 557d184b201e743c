/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs of whole pages: intervals above 1 MiB, and the pages of a segment that
 * come and go. One searcher at a time holds the run lock; single pages are
 * still taken and given by others meanwhile, so a run that was found is claimed
 * word by word and given back when a page of it has gone.
 */
#include "pool/buddy/state.h"

struct run {
    uint32_t first;
    uint32_t length; /* pages; 0: none */
};

/* The part of pages [first, first + length) that word `index` holds. */
static uint64_t mask_in_word(uint32_t index, uint32_t first, uint32_t length)
{
    uint64_t low = (uint64_t)index * BINADEI_WORD_BITS;
    uint64_t from = first > low ? first : low;
    uint64_t end = (uint64_t)first + length;
    uint64_t to = end < low + BINADEI_WORD_BITS ? end : low + BINADEI_WORD_BITS;
    return from < to
               ? binadei_word_run((unsigned)(from - low), (unsigned)(to - from))
               : 0;
}

/* Claims `mask` of one word, all of it or nothing. */
static bool claim_mask(struct binadei_buddy *buddy, uint32_t index,
                       uint64_t mask)
{
    /* relaxed: only the start of the loop. */
    uint64_t seen = binadei_load_relaxed(&buddy->free_pages[index]);
    do {
        if ((seen & mask) != mask)
            return false;
        /* BW.acquire: the last owners' use of the pages is over. */
    } while (
        !binadei_cas_acquire(&buddy->free_pages[index], &seen, seen & ~mask));
    return true;
}

static void give_words(struct binadei_buddy *buddy, uint32_t first,
                       uint32_t length, uint32_t word_end)
{
    for (uint32_t i = first / BINADEI_WORD_BITS; i < word_end; i++)
        (void)binadei_give_pages(buddy, i, mask_in_word(i, first, length));
}

/* All pages of the run or none; run lock held. */
static bool claim_run(struct binadei_buddy *buddy, uint32_t first,
                      uint32_t length)
{
    uint32_t last = (first + length - 1) / BINADEI_WORD_BITS;
    for (uint32_t i = first / BINADEI_WORD_BITS; i <= last; i++) {
        if (claim_mask(buddy, i, mask_in_word(i, first, length)))
            continue;
        give_words(buddy, first, length, i);
        return false;
    }
    return true;
}

/* The free run that starts at or after `from`; length 0 when there is none. A
 * snapshot: others take and give single pages. */
static struct run next_run(const struct binadei_buddy *buddy, uint32_t from)
{
    struct run run = {from, 0};
    uint32_t limit = binadei_page_limit(buddy);
    for (uint32_t page = from; page < limit;) {
        /* relaxed: a snapshot; the claim decides. */
        uint64_t word =
            binadei_load_relaxed(&buddy->free_pages[page / BINADEI_WORD_BITS]);
        unsigned bit = page % BINADEI_WORD_BITS;
        uint64_t rest = run.length ? ~(word >> bit) : word >> bit;
        unsigned skip = rest ? binadei_word_lowest(rest) : BINADEI_WORD_BITS;
        if (skip > BINADEI_WORD_BITS - bit)
            skip = BINADEI_WORD_BITS - bit;
        bool is_border = rest && skip + bit < BINADEI_WORD_BITS;
        if (run.length) {
            run.length += skip;
            if (is_border)
                return run;
        } else if (is_border) {
            run = (struct run){page + skip, 1};
            skip++;
        }
        page += skip;
    }
    return run;
}

/* Best fit, lowest first. */
static struct run best_run(const struct binadei_buddy *buddy, uint32_t length)
{
    struct run best = {0, 0};
    for (struct run run = next_run(buddy, 0); run.length;
         run = next_run(buddy, run.first + run.length)) {
        if (run.length >= length && (!best.length || run.length < best.length))
            best = run;
        if (best.length == length)
            break;
    }
    return best;
}

/* Run lock held. */
static bool take_pages(struct binadei_buddy *buddy, uint32_t length,
                       uint32_t *out_first)
{
    for (struct run run = best_run(buddy, length); run.length;
         run = best_run(buddy, length)) {
        *out_first = run.first;
        if (claim_run(buddy, run.first, length))
            return true;
    }
    return false;
}

/* The chunks that are wanted of these pages; the rest goes back. */
static binadei_grain keep_chunks(struct binadei_buddy *buddy, uint32_t first,
                                 uint32_t length, uint64_t chunks)
{
    binadei_page page = {first};
    binadei_grain start =
        binadei_grain_in_chunk(binadei_chunk_in_page(page, 0), 0);
    uint64_t rest = (uint64_t)length * BINADEI_PAGE_CHUNKS - chunks;
    binadei_grain tail = {start.index + chunks * BINADEI_CHUNK_GRAINS};
    if (rest)
        (void)binadei_buddy_give(buddy, NULL, tail,
                                 rest * BINADEI_CHUNK_GRAINS);
    return start;
}

bool binadei_buddy_take_run(struct binadei_buddy *buddy, uint64_t chunks,
                            binadei_grain *out)
{
    uint64_t length =
        chunks / BINADEI_PAGE_CHUNKS + (chunks % BINADEI_PAGE_CHUNKS != 0);
    uint32_t first;
    if (chunks == 0 || length > buddy->page_capacity)
        return false;
    pthread_mutex_lock(&buddy->run_lock);
    bool is_taken = take_pages(buddy, (uint32_t)length, &first);
    /* Under the lock, so that a last resort that waits for it finds the rest
     * given back. */
    if (is_taken)
        *out = keep_chunks(buddy, first, (uint32_t)length, chunks);
    pthread_mutex_unlock(&buddy->run_lock);
    return is_taken;
}

void binadei_buddy_add(struct binadei_buddy *buddy, binadei_page first,
                       uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    uint64_t seen = binadei_load_relaxed(&buddy->page_limit);
    /* BP.release: searchers that see the new limit see zeroed words. */
    while (seen < end && !binadei_cas_acq_rel(&buddy->page_limit, &seen, end))
        continue;
    give_words(buddy, first.index, page_count,
               (uint32_t)((end + BINADEI_WORD_BITS - 1) / BINADEI_WORD_BITS));
}

bool binadei_buddy_withdraw(struct binadei_buddy *buddy, binadei_page first,
                            uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    if (page_count == 0 || end > binadei_page_limit(buddy))
        return page_count == 0;
    pthread_mutex_lock(&buddy->run_lock);
    bool is_claimed = claim_run(buddy, first.index, page_count);
    pthread_mutex_unlock(&buddy->run_lock);
    return is_claimed;
}

uint32_t binadei_buddy_longest_page_run(const struct binadei_buddy *buddy)
{
    uint32_t longest = 0;
    for (struct run run = next_run(buddy, 0); run.length;
         run = next_run(buddy, run.first + run.length))
        if (run.length > longest)
            longest = run.length;
    return longest;
}

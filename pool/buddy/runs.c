/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs of whole pages: intervals above 1 MiB, and the pages of a segment that
 * come and go. One searcher at a time holds the run lock; single pages are
 * still taken and given by others meanwhile, so a run that was found is claimed
 * word by word and given back when a page of it has gone.
 */
#include "pool/buddy/extent.h"

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
    uint64_t seen = binadei_load_relaxed(&buddy->groups[index].free_pages);
    do {
        if ((seen & mask) != mask)
            return false;
        /* BW.acquire: the last owners' use of the pages is over. */
    } while (!binadei_cas_acquire(&buddy->groups[index].free_pages, &seen,
                                  seen & ~mask));
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

/* Free pages of one word, from its lowest or highest bit on, without a gap. */
static unsigned free_at_bottom(uint64_t bits)
{
    return bits == BINADEI_WORD_FULL ? BINADEI_WORD_BITS
                                     : binadei_word_lowest(~bits);
}

static unsigned free_at_top(uint64_t bits)
{
    return bits == BINADEI_WORD_FULL ? BINADEI_WORD_BITS
                                     : (unsigned)__builtin_clzll(~bits);
}

/* The lowest run of at least `length` in the word whose first page is `base`;
 * failing that, the shorter one at its end, which may go on in the next word.
 * Most words of a pool in use have neither: one look says so. */
static struct run run_in_word(uint64_t bits, uint32_t base, uint32_t length)
{
    uint64_t starts =
        length <= BINADEI_WORD_BITS ? binadei_word_starts(bits, length) : 0;
    unsigned start = starts ? binadei_word_lowest(starts)
                            : BINADEI_WORD_BITS - free_at_top(bits);
    if (start == BINADEI_WORD_BITS)
        return (struct run){0, 0};
    /* What is shifted in from above is not free. */
    return (struct run){base + start, free_at_bottom(bits >> start)};
}

/* The first free run of at least `length` pages that starts at or after `from`;
 * its length is 0 when there is none. A snapshot: others take and give single
 * pages. */
static struct run next_run(const struct binadei_buddy *buddy, uint32_t from,
                           uint32_t length)
{
    struct run run = {0, 0};
    uint32_t words = binadei_page_word_limit(buddy);
    uint64_t mask = BINADEI_WORD_FULL << from % BINADEI_WORD_BITS;
    for (uint32_t i = from / BINADEI_WORD_BITS; i < words; i++) {
        uint32_t base = i * BINADEI_WORD_BITS;
        /* relaxed: a snapshot; the claim decides. */
        uint64_t bits =
            binadei_load_relaxed(&buddy->groups[i].free_pages) & mask;
        mask = BINADEI_WORD_FULL;
        if (run.length) {
            unsigned more = free_at_bottom(bits);
            run.length += more;
            if (more == BINADEI_WORD_BITS)
                continue;
            if (run.length >= length)
                return run;
            bits &= bits + 1; /* without those */
        }
        run = (struct run){0, 0};
        if (bits == 0)
            continue;
        run = run_in_word(bits, base, length);
        if (run.length >= length &&
            run.first + run.length < base + BINADEI_WORD_BITS)
            return run;
    }
    return run.length >= length ? run : (struct run){0, 0};
}

/* Best fit, lowest first. */
static struct run best_run(const struct binadei_buddy *buddy, uint32_t length)
{
    struct run best = {0, 0};
    for (struct run run = next_run(buddy, 0, length); run.length;
         run = next_run(buddy, run.first + run.length, length)) {
        if (!best.length || run.length < best.length)
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

/* A run of one page is nobody's neighbour to be kept whole for: no search for
 * the best fit, and no lock. */
static bool take_one_page(struct binadei_buddy *buddy,
                          const struct binadei_home *home, uint64_t chunks,
                          binadei_grain *out)
{
    binadei_page page;
    if (!binadei_take_page(buddy, home, &page))
        return false;
    *out = keep_chunks(buddy, page.index, 1, chunks);
    return true;
}

bool binadei_buddy_take_run(struct binadei_buddy *buddy,
                            const struct binadei_home *home, uint64_t chunks,
                            binadei_grain *out)
{
    uint64_t length =
        chunks / BINADEI_PAGE_CHUNKS + (chunks % BINADEI_PAGE_CHUNKS != 0);
    uint32_t first;
    if (chunks == 0 || length > buddy->page_capacity)
        return false;
    if (length == 1)
        return take_one_page(buddy, home, chunks, out);
    pthread_mutex_lock(&buddy->run_lock);
    bool is_taken = take_pages(buddy, (uint32_t)length, &first);
    BINADEI_STEP("locked.run");
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
    BINADEI_STEP("add.announced");
    give_words(buddy, first.index, page_count,
               (uint32_t)((end + BINADEI_WORD_BITS - 1) / BINADEI_WORD_BITS));
    const struct binadei_kind done = {buddy, NULL};
    binadei_index_note_around(&done,
                              (uint64_t)first.index * BINADEI_PAGE_GRAINS,
                              end * BINADEI_PAGE_GRAINS);
}

bool binadei_buddy_withdraw(struct binadei_buddy *buddy, binadei_page first,
                            uint32_t page_count)
{
    uint64_t end = (uint64_t)first.index + page_count;
    if (page_count == 0 || end > binadei_page_limit(buddy))
        return page_count == 0;
    pthread_mutex_lock(&buddy->run_lock);
    bool is_claimed = claim_run(buddy, first.index, page_count);
    BINADEI_STEP("locked.withdraw");
    pthread_mutex_unlock(&buddy->run_lock);
    return is_claimed;
}

uint32_t binadei_buddy_longest_page_run(const struct binadei_buddy *buddy)
{
    uint32_t longest = 0;
    for (struct run run = next_run(buddy, 0, 1); run.length;
         run = next_run(buddy, run.first + run.length, longest + 1))
        longest = run.length;
    return longest;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking intervals of up to 1 MiB. A search goes from what costs nobody
 * anything to what disturbs others: the searcher's own pages; a page that is
 * nobody's affinity; a fresh page; and only then a page where somebody else is
 * at work. Splitting comes before stealing: two threads that share a word pay
 * six times as much as two that do not.
 */
#include "pool/buddy/extent.h"

/* Words that a search looks into in vain before it splits: in each of its own
 * pages, and over all pages that are nobody's affinity. */
#define VISITS_WITH_AFFINITY 4U
#define VISITS_ABROAD 16U
/* What a chunk may have left over when it is cut by itself. */
#define CHUNK_REST_GRAINS 1U

/* One search: what is wanted, reduced to the level it is taken from. */
struct search {
    struct moietyi_buddy *buddy;
    struct moietyi_affinity *affinity;
    moietyi_grain *out;
    uint32_t grains;
    uint32_t count;
    unsigned chunks;   /* of the claim, where it is made of chunks */
    uint64_t allowed;  /* bits of a word at which a claim may start */
    bool is_of_chunks; /* claimed in page words, not in chunk words */
    bool is_crossing;  /* chunks are split several at once */
    unsigned plane;
    uint64_t vain;   /* chunks of one page whose words have no run */
    uint32_t visits; /* words it may still look into before it splits */
    /* In its own pages, where the hints that others read about pages are neither
     * asked nor lowered: they would only be raised again. */
    bool has_affinity;
};

/* Grain intervals out of one chunk word; how many. */
static uint32_t take_from_chunk(struct search *search, moietyi_chunk chunk)
{
    moietyi_atomic_word *word = &search->buddy->chunk_words[chunk.index];
    uint64_t starts;
    uint64_t picked;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(word);
    do {
        picked = moietyi_word_pick(seen, search->grains, search->count,
                                   search->allowed, &starts);
        if (!picked)
            break;
        MOIETYI_STEP("chunk.picked");
        /* BW.acquire: the last owner's use of the grains is over. */
    } while (!moietyi_cas_acquire(word, &seen, seen & ~picked));
    if (!picked) {
        if (!moietyi_is_in_plane(seen, search->plane))
            search->vain |= UINT64_C(1) << moietyi_chunk_bit(chunk);
        return 0;
    }
    MOIETYI_STEP("chunk.taken");
    uint32_t taken = 0;
    for (; starts; starts &= starts - 1)
        search->out[taken++] =
            moietyi_grain_in_chunk(chunk, moietyi_word_lowest(starts));
    moietyi_affinity_stay(search->buddy, search->affinity, chunk);
    return taken;
}

/* The intervals that open `chunk`, which is ours whole: its word is published
 * with them already out of it. */
static uint32_t open_chunk(struct search *search, moietyi_chunk chunk)
{
    uint64_t starts;
    uint64_t picked =
        moietyi_word_pick(MOIETYI_WORD_FULL, search->grains, search->count,
                          search->allowed, &starts);
    uint32_t taken = 0;
    for (; starts; starts &= starts - 1)
        search->out[taken++] =
            moietyi_grain_in_chunk(chunk, moietyi_word_lowest(starts));
    MOIETYI_STEP("chunk.claimed");
    /* BW.release: whoever takes from the word now is ordered after our claim of
     * the chunk. Nobody else changes the word before: it was 0, and 0 is never
     * the start of a take, nor is any of its grains out to be given. BS: before
     * the looks at the summaries, by order of seq_cst. */
    moietyi_store_seq_cst(&search->buddy->chunk_words[chunk.index], ~picked);
    MOIETYI_STEP("chunk.opened");
    moietyi_summary_raise_chunk(search->buddy, chunk, 0, ~picked);
    moietyi_affinity_stay(search->buddy, search->affinity, chunk);
    return taken;
}

/* Cuts `chunks` whole chunks from `first` on into intervals, which may cross
 * from one chunk into the next, and gives the rest of the last one back. */
static uint32_t carve_chunks(struct search *search, moietyi_chunk first,
                             unsigned chunks)
{
    uint64_t room = (uint64_t)chunks * MOIETYI_CHUNK_GRAINS;
    uint64_t start = moietyi_grain_in_chunk(first, 0).index;
    uint32_t taken = 0;
    while (taken < search->count && room >= search->grains) {
        search->out[taken++] = moietyi_grain_at(start);
        start += search->grains;
        room -= search->grains;
    }
    MOIETYI_STEP("carve.cut");
    /* The grains are ours, so giving them back cannot contradict. */
    if (room)
        (void)moietyi_buddy_give(search->buddy, search->affinity,
                                 moietyi_grain_at(start), room);
    return taken;
}

/* How many chunks of a word to split: so many that the batch fits one behind the
 * other, where a chunk by itself would leave a rest; fewer, if there are not so
 * many in a row. */
static unsigned chunks_to_split(const struct search *search, uint64_t word)
{
    uint64_t grains = (uint64_t)search->count * search->grains;
    unsigned chunks = search->is_crossing
                          ? (unsigned)((grains + MOIETYI_CHUNK_GRAINS - 1) /
                                       MOIETYI_CHUNK_GRAINS)
                          : search->chunks;
    while (chunks > search->chunks && !moietyi_word_has_run(word, chunks))
        chunks--;
    return chunks;
}

/* The chunks from `first` on are ours. */
static uint32_t split_chunks(struct search *search, moietyi_chunk first,
                             unsigned chunks)
{
    return search->is_of_chunks || chunks > 1
               ? carve_chunks(search, first, chunks)
               : open_chunk(search, first);
}

/* What is left on both sides of what was taken. */
static void buddy_note_sides(struct moietyi_buddy *buddy, uint64_t start,
                             uint64_t grains)
{
    const struct moietyi_kind done = {buddy, NULL};
    moietyi_index_note_sides(&done, start, start + grains);
}

/* Claims the wanted chunks, or some to split, out of an open page's word. */
static uint32_t buddy_take_from_page(struct search *search, moietyi_page page)
{
    moietyi_atomic_word *word = &search->buddy->pages[page.index].word;
    uint64_t allowed =
        search->is_of_chunks ? search->allowed : MOIETYI_WORD_FULL;
    uint64_t start;
    uint64_t picked;
    unsigned chunks;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(word);
    do {
        chunks = chunks_to_split(search, seen);
        picked = moietyi_word_pick(seen, chunks, 1, allowed, &start);
        if (!picked)
            break;
        MOIETYI_STEP("page.picked");
        /* BW.acquire: the last owners' use of the chunks is over. */
    } while (!moietyi_cas_acquire(word, &seen, seen & ~picked));
    if (!picked) {
        unsigned plane = moietyi_plane_for(search->chunks);
        if (!search->has_affinity && !moietyi_is_in_plane(seen, plane))
            moietyi_summary_lower_page(search->buddy, page, plane);
        return 0;
    }
    moietyi_chunk chunk =
        moietyi_chunk_in_page(page, moietyi_word_lowest(start));
    buddy_note_sides(search->buddy, moietyi_grain_in_chunk(chunk, 0).index,
                     (uint64_t)chunks * MOIETYI_CHUNK_GRAINS);
    return split_chunks(search, chunk, chunks);
}

/* The same out of a page that is ours whole. */
static uint32_t open_page(struct search *search, moietyi_page page)
{
    unsigned chunks = chunks_to_split(search, MOIETYI_WORD_FULL);
    uint64_t rest =
        chunks == MOIETYI_PAGE_CHUNKS ? 0 : MOIETYI_WORD_FULL << chunks;
    MOIETYI_STEP("page.claimed");
    /* BW.release and BS: as in open_chunk. */
    moietyi_store_seq_cst(&search->buddy->pages[page.index].word, rest);
    MOIETYI_STEP("page.opened");
    moietyi_summary_raise_page(search->buddy, page, 0, rest);
    buddy_note_sides(search->buddy, (uint64_t)page.index * MOIETYI_PAGE_GRAINS,
                     (uint64_t)chunks * MOIETYI_CHUNK_GRAINS);
    return split_chunks(search, moietyi_chunk_in_page(page, 0), chunks);
}

/* Says once that no chunk word of `page` may serve the search's plane. */
static void lower_if_raised(struct search *search, moietyi_page page)
{
    /* relaxed: a hint. */
    uint64_t raised = moietyi_load_relaxed(
        &moietyi_group_of(search->buddy, page)->grain_pages[search->plane]);
    if (raised & moietyi_page_bit(page))
        moietyi_summary_lower_grain_page(search->buddy, page, search->plane);
}

/* Chunk words of `page` that its summary names, while visits are left. */
static uint32_t search_words(struct search *search, moietyi_page page)
{
    /* relaxed: a hint; the words themselves are taken with acquire. */
    uint64_t hints = moietyi_load_relaxed(
        &search->buddy->pages[page.index].chunk_summary[search->plane]);
    if (!hints && !search->has_affinity)
        lower_if_raised(search, page);
    uint32_t taken = 0;
    search->vain = 0;
    for (; hints && search->visits && !taken;
         hints &= hints - 1, search->visits--) {
        unsigned bit = moietyi_word_lowest(hints);
        taken = take_from_chunk(search, moietyi_chunk_in_page(page, bit));
    }
    if (search->vain)
        moietyi_summary_lower_chunks(search->buddy, page, search->vain,
                                     search->plane);
    return taken;
}

/* Words first, then a split. */
static uint32_t search_page(struct search *search, moietyi_page page)
{
    uint32_t taken = search->is_of_chunks ? 0 : search_words(search, page);
    return taken ? taken : buddy_take_from_page(search, page);
}

/* Pages of one word's worth that may serve the search. */
static uint64_t page_hints(const struct search *search, uint32_t word)
{
    const struct moietyi_buddy *buddy = search->buddy;
    unsigned plane = moietyi_plane_for(search->chunks);
    /* relaxed: hints, as above. */
    uint64_t hints =
        moietyi_load_relaxed(&buddy->groups[word].chunk_pages[plane]);
    /* relaxed: the same. */
    if (!search->is_of_chunks)
        hints |= moietyi_load_relaxed(
            &buddy->groups[word].grain_pages[search->plane]);
    return hints;
}

static uint32_t first_word(const struct moietyi_affinity *affinity,
                           uint32_t words)
{
    uint32_t word = affinity && affinity->pages_plus_one[0]
                        ? (affinity->pages_plus_one[0] - 1) / MOIETYI_WORD_BITS
                        : 0;
    return word < words ? word : 0;
}

/* Whether that was the last look in vain that the search may have. */
static bool is_used_up(struct search *search)
{
    return search->visits == 0 || --search->visits == 0;
}

/* No page of this word is open, nor is any taken: beyond it there is mostly
 * more of the same, so it counts as a look in vain. */
static bool is_all_free(const struct search *search, uint32_t word)
{
    /* relaxed: a hint. */
    return moietyi_load_relaxed(&search->buddy->groups[word].free_pages) ==
           MOIETYI_WORD_FULL;
}

/* Open pages, upwards from the searcher's affinity and round: what it has found
 * too full is not looked at again each time. Those that are an affinity only
 * where `steals`. */
static uint32_t search_open_pages(struct search *search, bool steals)
{
    uint32_t words = moietyi_page_word_limit(search->buddy);
    uint32_t first = first_word(search->affinity, words);
    for (uint32_t i = 0; i < words; i++) {
        uint32_t word = (first + i) % words;
        uint64_t hints = page_hints(search, word);
        if (!steals && hints)
            hints &=
                ~moietyi_load_relaxed(&search->buddy->groups[word].affinities);
        if (!hints && !steals && is_all_free(search, word) &&
            is_used_up(search))
            return 0;
        for (; hints; hints &= hints - 1) {
            moietyi_page page = {word * MOIETYI_WORD_BITS +
                                 moietyi_word_lowest(hints)};
            uint32_t taken = search_page(search, page);
            if (!taken && is_used_up(search))
                return 0;
            if (!taken)
                continue;
            if (!steals)
                moietyi_affinity_move(search->buddy, search->affinity, page);
            return taken;
        }
    }
    return 0;
}

/* The lowest free page of 64; false when there is none. */
static bool take_page_of_word(struct moietyi_buddy *buddy, uint32_t word,
                              moietyi_page *out)
{
    moietyi_atomic_word *free_pages = &buddy->groups[word].free_pages;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(free_pages);
    while (seen) {
        unsigned bit = moietyi_word_lowest(seen);
        MOIETYI_STEP("pages.picked");
        /* BW.acquire: the last owners' use of the page is over. */
        if (moietyi_cas_acquire(free_pages, &seen, seen & (seen - 1))) {
            *out = (moietyi_page){word * MOIETYI_WORD_BITS + bit};
            return true;
        }
    }
    return false;
}

/* Beside the searcher's affinity, so that searchers who have spread do not meet
 * in one word; where that is full the lowest of all, so that they do not wander
 * off upwards. */
static bool take_page(struct moietyi_buddy *buddy,
                      const struct moietyi_affinity *affinity,
                      moietyi_page *out)
{
    uint32_t words = moietyi_page_word_limit(buddy);
    uint32_t first = first_word(affinity, words);
    if (first && take_page_of_word(buddy, first, out))
        return true;
    for (uint32_t word = 0; word < words; word++)
        if (take_page_of_word(buddy, word, out))
            return true;
    return false;
}

/* Reduces the request to one level. Small intervals come out of chunk words,
 * as long as no alignment beyond a chunk is asked for; larger ones are claimed
 * in chunks, several at once where they are to be carved. */
static struct search search_for(struct moietyi_buddy *buddy,
                                struct moietyi_affinity *affinity,
                                const struct moietyi_take *what,
                                moietyi_grain *out)
{
    struct search search = {.buddy = buddy,
                            .affinity = affinity,
                            .out = out,
                            .grains = what->grains,
                            .count = what->count};
    search.is_of_chunks = what->grains > MOIETYI_CHUNK_GRAINS ||
                          what->alignment >= MOIETYI_CHUNK_GRAINS;
    if (!search.is_of_chunks) {
        search.chunks = 1;
        search.plane = moietyi_plane_for(what->grains);
        search.allowed = moietyi_word_aligned(what->alignment);
        search.is_crossing =
            what->alignment == 1 &&
            MOIETYI_CHUNK_GRAINS % what->grains > CHUNK_REST_GRAINS;
        return search;
    }
    uint32_t chunk_alignment = what->alignment / MOIETYI_CHUNK_GRAINS;
    /* Blocks that are carved lie one behind the other, so a batch of aligned
     * ones is one block. */
    if (what->alignment > 1 && what->grains % what->alignment)
        search.count = 1;
    uint64_t grains = (uint64_t)search.count * what->grains;
    uint64_t limit = what->grains > MOIETYI_TAKE_GRAINS_MAX / 2
                         ? what->grains
                         : MOIETYI_TAKE_GRAINS_MAX;
    if (grains > limit)
        grains = limit / what->grains * what->grains;
    search.chunks =
        (unsigned)((grains + MOIETYI_CHUNK_GRAINS - 1) / MOIETYI_CHUNK_GRAINS);
    search.allowed =
        moietyi_word_aligned(chunk_alignment ? chunk_alignment : 1);
    return search;
}

/* The searcher's own pages. One that another has settled on since is its own no
 * more. */
static uint32_t search_with_affinity(struct search *search)
{
    struct moietyi_affinity *affinity = search->affinity;
    uint32_t taken = 0;
    unsigned at = 0;
    if (!affinity)
        return 0;
    search->has_affinity = true;
    while (at < MOIETYI_AFFINITY_PAGES && affinity->pages_plus_one[at] &&
           !taken) {
        moietyi_page page = {affinity->pages_plus_one[at] - 1};
        /* relaxed: a hint, see state.h. */
        if (atomic_load_explicit(&search->buddy->pages[page.index].affinity_id,
                                 memory_order_relaxed) != affinity->id) {
            moietyi_affinity_forget(search->buddy, affinity, at);
            continue;
        }
        search->visits = VISITS_WITH_AFFINITY;
        taken = search_page(search, page);
        at++;
    }
    search->has_affinity = false;
    return taken;
}

static uint32_t search_everywhere(struct search *search)
{
    uint32_t taken = search_with_affinity(search);
    moietyi_page page;
    if (!taken) {
        search->visits = VISITS_ABROAD;
        taken = search_open_pages(search, false);
    }
    if (!taken && take_page(search->buddy, search->affinity, &page)) {
        taken = open_page(search, page);
        moietyi_affinity_move(search->buddy, search->affinity, page);
    }
    search->visits = UINT32_MAX;
    if (!taken)
        taken = search_open_pages(search, false);
    return taken ? taken : search_open_pages(search, true);
}

uint32_t moietyi_buddy_take(struct moietyi_buddy *buddy,
                            struct moietyi_affinity *affinity,
                            const struct moietyi_take *what, moietyi_grain *out)
{
    struct search search = search_for(buddy, affinity, what, out);
    uint32_t taken = search_everywhere(&search);
    if (taken || !search.is_of_chunks || search.count == 1)
        return taken;
    /* No run is long enough for all of the batch; one may be for a block. */
    const struct moietyi_take one = {what->grains, 1, what->alignment};
    search = search_for(buddy, affinity, &one, out);
    return search_everywhere(&search);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Intervals of up to 1 MiB out of a stream's maps, in the time of a few looks:
 * first what was left over of chunks, several by one compare-and-swap; then
 * chunks of pages that are open; then a page. The best fit takes longer, and is
 * for what is found in none of them.
 */
#include "pool/buddy/extent.h"

/* Words without a run that a search passes before it gives up: then a larger
 * run is cut. */
#define VISITS 64U

struct search {
    const struct moietyi_take *what;
    struct moietyi_maps *maps;
    enum moietyi_map_age age;
    unsigned visits;
    bool is_gathered;
    moietyi_grain *out;
};

/* The pages of a group, a bit each, where the search may take. relaxed: a hint. */
static uint64_t pages_allowed(const struct search *search, uint32_t group)
{
    return search->is_gathered
               ? moietyi_load_relaxed(
                     &search->maps->buddy->groups[group].affinities)
               : MOIETYI_WORD_FULL;
}

/* Those of a word. relaxed: hints. */
static uint64_t pages_of(const struct search *search,
                         const moietyi_atomic_word *word, moietyi_page first)
{
    return moietyi_load_relaxed(word) &
           pages_allowed(search, first.index / MOIETYI_WORD_BITS);
}

/* Where an interval may start in a chunk. */
static uint64_t allowed_starts(moietyi_chunk chunk, uint32_t alignment)
{
    uint64_t base = chunk.index * MOIETYI_CHUNK_GRAINS;
    return base & (alignment - 1) ? 0 : moietyi_word_aligned(alignment);
}

static uint32_t take_from_word(struct search *search, moietyi_chunk chunk,
                               moietyi_atomic_word *word)
{
    const struct moietyi_take *what = search->what;
    uint64_t allowed = allowed_starts(chunk, what->alignment);
    uint64_t starts;
    uint64_t picked;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(word);
    do {
        picked = moietyi_word_pick(seen, what->grains, what->count, allowed,
                                   &starts);
        if (!picked)
            return 0;
        MOIETYI_STEP("map.picked");
        /* MW.acquire: the givers have queued their work. */
    } while (!moietyi_cas_acquire(word, &seen, seen & ~picked));
    /* relaxed: a sum. */
    atomic_fetch_sub_explicit(&search->maps->grains[search->age],
                              moietyi_word_count(picked), memory_order_relaxed);
    uint32_t taken = 0;
    for (; starts; starts &= starts - 1)
        search->out[taken++] =
            moietyi_grain_in_chunk(chunk, moietyi_word_lowest(starts));
    return taken;
}

/* Says once that a chunk's word has nothing, unless it has by now. */
static void lower(struct moietyi_maps_group *group, enum moietyi_map_age age,
                  unsigned page_bit, unsigned chunk)
{
    moietyi_atomic_word *hint = &group->page[page_bit].cut[age];
    uint64_t bit = UINT64_C(1) << chunk;
    MOIETYI_STEP("map.lowering");
    /* MH: the bit is cleared, then the word looked at again, by order of
     * seq_cst. */
    (void)moietyi_and_seq_cst(hint, ~bit);
    MOIETYI_STEP("map.lowered");
    /* MH: the second look. */
    if (moietyi_load_seq_cst(
            &moietyi_maps_parts_at(group, page_bit)->grains[chunk][age]))
        moietyi_map_hint(hint, bit);
}

static uint32_t map_take_from_page(struct search *search,
                                   struct moietyi_maps_group *group,
                                   moietyi_page page)
{
    unsigned page_bit = page.index % MOIETYI_WORD_BITS;
    struct moietyi_maps_parts *parts = moietyi_maps_parts_at(group, page_bit);
    /* relaxed: a hint. */
    uint64_t cut =
        parts ? moietyi_load_relaxed(&group->page[page_bit].cut[search->age])
              : 0;
    uint32_t taken = 0;
    for (; cut && search->visits && !taken; cut &= cut - 1) {
        unsigned bit = moietyi_word_lowest(cut);
        moietyi_atomic_word *word = &parts->grains[bit][search->age];
        taken = take_from_word(search, moietyi_chunk_in_page(page, bit), word);
        search->visits -= !taken;
        /* relaxed: a look; lower() looks again. */
        if (!moietyi_load_relaxed(word))
            lower(group, search->age, page_bit, bit);
    }
    return taken;
}

/* What one level of a group does for the search; how many intervals. */
typedef uint32_t take_fn(struct search *search,
                         struct moietyi_maps_group *group, moietyi_page first);

static uint32_t take_grains(struct search *search,
                            struct moietyi_maps_group *group,
                            moietyi_page first)
{
    uint64_t open = pages_of(search, &group->open[search->age], first);
    uint32_t taken = 0;
    for (; open && search->visits && !taken; open &= open - 1)
        taken = map_take_from_page(
            search, group,
            (moietyi_page){first.index + moietyi_word_lowest(open)});
    return taken;
}

/* Cuts intervals off the beginning of `grains` that were claimed, and gives the
 * rest back. */
static uint32_t cut_off(struct search *search, uint64_t start, uint64_t grains)
{
    const struct moietyi_take *what = search->what;
    uint32_t count = 0;
    for (; count < what->count && grains >= what->grains; count++) {
        search->out[count] = moietyi_grain_at(start);
        start += what->grains;
        grains -= what->grains;
    }
    /* relaxed: a sum. */
    atomic_fetch_sub_explicit(&search->maps->grains[search->age],
                              grains + (uint64_t)count * what->grains,
                              memory_order_relaxed);
    /* Its words are there: see map_prepare(). */
    if (grains)
        (void)moietyi_maps_give(search->maps, moietyi_grain_at(start), grains);
    return count;
}

/* Words for what is given back after a cut that begins at `start`. */
static bool map_prepare(const struct search *search, uint64_t start,
                        uint64_t grains)
{
    const struct moietyi_take *what = search->what;
    uint64_t count = grains / what->grains;
    if (count > what->count)
        count = what->count;
    return moietyi_maps_prepare(search->maps, moietyi_grain_at(start),
                                count * what->grains);
}

static unsigned chunks_for(uint32_t grains)
{
    return (grains - 1) / MOIETYI_CHUNK_GRAINS + 1;
}

/* How many chunks of a word to cut: as many as the whole batch needs, which then
 * lies one behind the other, or as there are, or as one block needs. */
static unsigned chunks_to_cut(const struct moietyi_take *what, uint64_t word)
{
    unsigned least = chunks_for(what->grains);
    unsigned chunks = chunks_for(what->count * what->grains);
    if (chunks > MOIETYI_WORD_BITS)
        chunks = MOIETYI_WORD_BITS;
    while (chunks > least && !moietyi_word_has_run(word, chunks))
        chunks--;
    return chunks;
}

/* What is left on both sides of what was taken. */
static void map_note_sides(const struct search *search, uint64_t start,
                           uint64_t grains)
{
    const struct moietyi_kind own = {search->maps->buddy, search->maps};
    moietyi_index_note_sides(&own, start, start + grains);
}

/* A run of chunks of one page. */
static uint32_t take_from_chunks(struct search *search,
                                 struct moietyi_maps_group *group,
                                 moietyi_page page)
{
    const struct moietyi_take *what = search->what;
    moietyi_atomic_word *word =
        &group->page[page.index % MOIETYI_WORD_BITS].chunks[search->age];
    unsigned alignment = what->alignment > MOIETYI_CHUNK_GRAINS
                             ? what->alignment / MOIETYI_CHUNK_GRAINS
                             : 1;
    unsigned chunks;
    uint64_t start;
    uint64_t base;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(word);
    uint64_t picked;
    do {
        chunks = chunks_to_cut(what, seen);
        picked = moietyi_word_pick(seen, chunks, 1,
                                   moietyi_word_aligned(alignment), &start);
        if (!picked)
            return 0;
        base = moietyi_grain_in_chunk(
                   moietyi_chunk_in_page(page, moietyi_word_lowest(start)), 0)
                   .index;
        if (!map_prepare(search, base, (uint64_t)chunks * MOIETYI_CHUNK_GRAINS))
            return 0;
        MOIETYI_STEP("map.chunks_picked");
        /* MW.acquire: as above. */
    } while (!moietyi_cas_acquire(word, &seen, seen & ~picked));
    map_note_sides(search, base, (uint64_t)chunks * MOIETYI_CHUNK_GRAINS);
    return cut_off(search, base, (uint64_t)chunks * MOIETYI_CHUNK_GRAINS);
}

static uint32_t take_chunks(struct search *search,
                            struct moietyi_maps_group *group,
                            moietyi_page first)
{
    uint64_t open = pages_of(search, &group->open[search->age], first);
    uint32_t taken = 0;
    for (; open && !taken; open &= open - 1)
        taken = take_from_chunks(
            search, group,
            (moietyi_page){first.index + moietyi_word_lowest(open)});
    return taken;
}

/* The lowest free page. */
static uint32_t map_take_page(struct search *search,
                              struct moietyi_maps_group *group,
                              moietyi_page first)
{
    moietyi_atomic_word *word = &group->pages[search->age];
    uint64_t pages;
    while ((pages = pages_of(search, word, first))) {
        unsigned bit = moietyi_word_lowest(pages);
        uint64_t base = (uint64_t)(first.index + bit) * MOIETYI_PAGE_GRAINS;
        if (!map_prepare(search, base, MOIETYI_PAGE_GRAINS))
            return 0;
        if (!moietyi_word_claim(word, UINT64_C(1) << bit))
            continue;
        map_note_sides(search, base, MOIETYI_PAGE_GRAINS);
        return cut_off(search, base, MOIETYI_PAGE_GRAINS);
    }
    return 0;
}

/* Where the last search found something comes first. */
static uint32_t search_groups(struct search *search, take_fn *take)
{
    struct moietyi_maps *maps = search->maps;
    uint32_t groups = moietyi_page_word_limit(maps->buddy);
    /* relaxed: a hint. */
    uint32_t first =
        atomic_load_explicit(&maps->last_group, memory_order_relaxed);
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t index = (first + i) % groups;
        struct moietyi_maps_group *group =
            pages_allowed(search, index) ? moietyi_maps_group_at(maps, index)
                                         : NULL;
        uint32_t taken = group ? take(search, group,
                                      (moietyi_page){index * MOIETYI_WORD_BITS})
                               : 0;
        if (!taken)
            continue;
        if (index != first)
            atomic_store_explicit(&maps->last_group, index,
                                  memory_order_relaxed);
        return taken;
    }
    return 0;
}

uint32_t moietyi_maps_take(struct moietyi_maps *maps,
                           const struct moietyi_take *what, bool is_gathered,
                           moietyi_grain *out)
{
    struct moietyi_take some = *what;
    struct search search = {
        .what = &some, .maps = maps, .is_gathered = is_gathered, .out = out};
    take_fn *const levels[] = {take_grains, take_chunks, map_take_page};
    uint32_t taken = 0;
    for (unsigned level = what->grains > MOIETYI_CHUNK_GRAINS; level < 3;
         level++) {
        /* Those that are cut off one run lie one behind the other. */
        if (level && what->grains % what->alignment)
            some.count = 1;
        for (unsigned age = 0; age < MOIETYI_AGES && !taken; age++) {
            search.age = age;
            search.visits = VISITS;
            if (moietyi_maps_grains(maps, age))
                taken = search_groups(&search, levels[level]);
        }
        if (taken)
            break;
    }
    return taken;
}

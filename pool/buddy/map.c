/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream's maps: their memory, giving into the fresh one, and moving a whole
 * map on. A give cuts an interval at chunk and page borders, like the buddy's; a
 * move takes each word by an exchange and passes its bits on, level by level, so
 * whatever comes after the exchange stays behind for the next epoch.
 */
#include "pool/buddy/map.h"

#include <stdlib.h>
#include <string.h>

#include "pool/buddy/extent.h"

#define LINE_BYTES 64U
#define GROUP_GRAINS ((uint64_t)MOIETYI_PAGE_GRAINS * MOIETYI_WORD_BITS)

struct moietyi_maps *moietyi_maps_create(struct moietyi_buddy *buddy)
{
    uint64_t leaf_pages = (uint64_t)MOIETYI_LEAF_GROUPS * MOIETYI_WORD_BITS;
    uint64_t leaves = (buddy->page_capacity + leaf_pages - 1) / leaf_pages;
    struct moietyi_maps *maps =
        calloc(1, sizeof(*maps) + leaves * sizeof(maps->leaves[0]));
    if (!maps)
        return NULL;
    maps->buddy = buddy;
    maps->leaf_count = (uint32_t)leaves;
    return maps;
}

static void destroy_group(struct moietyi_maps_group *group)
{
    if (!group)
        return;
    for (unsigned i = 0; i < MOIETYI_WORD_BITS; i++)
        free(moietyi_maps_parts_at(group, i));
    free(group);
}

void moietyi_maps_destroy(struct moietyi_maps *maps)
{
    if (!maps)
        return;
    for (uint32_t i = 0; i < maps->leaf_count * MOIETYI_LEAF_GROUPS; i++)
        destroy_group(moietyi_maps_group_at(maps, i));
    /* relaxed: no call is under way. */
    for (uint32_t i = 0; i < maps->leaf_count; i++)
        free(atomic_load_explicit(&maps->leaves[i], memory_order_relaxed));
    free(maps);
}

/* Publishes a zeroed object unless another thread was faster; NULL: no
 * memory. */
static __attribute__((noinline)) void *publish(_Atomic(void *) *place,
                                               size_t bytes)
{
    void *seen = NULL;
    size_t whole_bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    void *fresh = aligned_alloc(LINE_BYTES, whole_bytes);
    if (!fresh)
        return NULL;
    memset(fresh, 0, bytes);
    /* MG.release: the zeroes. MG.acquire, where another was faster. */
    if (atomic_compare_exchange_strong_explicit(
            place, &seen, fresh, memory_order_release, memory_order_acquire))
        return fresh;
    free(fresh);
    return seen;
}

/* The object that is there, or is made now. */
static inline void *map_make(_Atomic(void *) *place, size_t bytes)
{
    /* MG.acquire. */
    void *seen = atomic_load_explicit(place, memory_order_acquire);
    return seen ? seen : publish(place, bytes);
}

static struct moietyi_maps_group *make_group(struct moietyi_maps *maps,
                                             uint32_t group)
{
    struct moietyi_maps_leaf *leaf =
        map_make(&maps->leaves[group / MOIETYI_LEAF_GROUPS], sizeof(*leaf));
    return leaf ? map_make(&leaf->groups[group % MOIETYI_LEAF_GROUPS],
                           sizeof(struct moietyi_maps_group))
                : NULL;
}

static unsigned page_bit_of(moietyi_page page)
{
    return page.index % MOIETYI_WORD_BITS;
}

/* Words for the grains of the chunk that a border cuts, if it cuts one. */
static bool prepare_border(struct moietyi_maps *maps, uint64_t border)
{
    moietyi_page page = moietyi_page_of_grain(moietyi_grain_at(border));
    if (border % MOIETYI_CHUNK_GRAINS == 0)
        return true;
    struct moietyi_maps_group *group =
        make_group(maps, page.index / MOIETYI_WORD_BITS);
    return group && map_make(&group->page[page_bit_of(page)].parts,
                             sizeof(struct moietyi_maps_parts));
}

bool moietyi_maps_prepare(struct moietyi_maps *maps, moietyi_grain start,
                          uint64_t grains)
{
    uint64_t end = start.index + grains;
    for (uint64_t i = start.index / GROUP_GRAINS; i <= (end - 1) / GROUP_GRAINS;
         i++)
        if (!make_group(maps, (uint32_t)i))
            return false;
    return prepare_border(maps, start.index) && prepare_border(maps, end);
}

bool moietyi_maps_reserve(struct moietyi_maps *maps, moietyi_page first,
                          uint32_t page_count)
{
    for (uint32_t i = 0; i < page_count; i++) {
        uint64_t page = (uint64_t)first.index + i;
        /* A grain's words are all that a page may ever need. */
        moietyi_grain inside = moietyi_grain_at(page * MOIETYI_PAGE_GRAINS + 1);
        if (!moietyi_maps_prepare(maps, inside, 1))
            return false;
    }
    return true;
}

/* What a give did to one word. */
enum filling {
    SET, /* and it is not 0 */
    /* it was full and is 0 now: the unit above is the caller's to set */
    RETIRED,
    TWICE /* a part was set already; nothing changed */
};

static enum filling map_fill(moietyi_atomic_word *word, uint64_t mask,
                             bool coalesces)
{
    uint64_t after;
    /* relaxed: only the start of the loop. */
    uint64_t seen = moietyi_load_relaxed(word);
    do {
        if (seen & mask)
            return TWICE;
        after = seen | mask;
        if (after == MOIETYI_WORD_FULL && coalesces)
            after = 0;
        MOIETYI_STEP("map.give_picked");
        /* MW.release: the caller's use of the units, as far as the stream
         * orders it, comes before the next one's. MW.acquire: who coalesces a
         * word passes on what all earlier givers released. MH: before the look
         * at the hint. */
    } while (!moietyi_cas_seq_cst(word, &seen, after));
    return after ? SET : RETIRED;
}

/* Sets chunks of one page, if any, or the page; false: a part was set already,
 * and nothing has changed. */
static bool give_chunks(struct moietyi_maps_group *group,
                        enum moietyi_map_age age, unsigned page_bit,
                        uint64_t mask)
{
    uint64_t bit = UINT64_C(1) << page_bit;
    if (!mask)
        return true;
    enum filling filling =
        mask == MOIETYI_WORD_FULL
            ? RETIRED
            : map_fill(&group->page[page_bit].chunks[age], mask, true);
    MOIETYI_STEP("map.chunks_given");
    if (filling == RETIRED)
        return map_fill(&group->pages[age], bit, false) == SET;
    if (filling == SET)
        moietyi_map_hint(&group->open[age], bit);
    return filling == SET;
}

/* Sets a part of a chunk. Where that fills the chunk, its bit is added to
 * `coalesced`, to be set one level up. How many grains were set. */
static unsigned give_part(struct moietyi_maps_group *group,
                          enum moietyi_map_age age, unsigned page_bit,
                          unsigned chunk, uint64_t mask, uint64_t *coalesced)
{
    struct moietyi_maps_parts *parts = moietyi_maps_parts_at(group, page_bit);
    uint64_t bit = UINT64_C(1) << chunk;
    enum filling filling = map_fill(&parts->grains[chunk][age], mask, true);
    MOIETYI_STEP("map.grains_given");
    if (filling == RETIRED)
        *coalesced |= bit;
    if (filling == SET) {
        moietyi_map_hint(&group->page[page_bit].cut[age], bit);
        moietyi_map_hint(&group->open[age], UINT64_C(1) << page_bit);
    }
    return filling == TWICE ? 0 : moietyi_word_count(mask);
}

/* Sets grains [at, end) of one page in the fresh map, but for words of which a
 * part is set already. How many were set. */
static unsigned map_give_in_page(struct moietyi_maps_group *group,
                                 unsigned page_bit, unsigned at, unsigned end)
{
    struct moietyi_page_cut cut = moietyi_page_cut_at(at, end);
    uint64_t coalesced = 0;
    unsigned given = 0;
    for (unsigned i = 0; i < cut.part_count; i++)
        given += give_part(group, MOIETYI_FRESH, page_bit, cut.parts[i].chunk,
                           cut.parts[i].grains, &coalesced);
    if (give_chunks(group, MOIETYI_FRESH, page_bit, cut.chunks | coalesced))
        given += moietyi_word_count(cut.chunks) * MOIETYI_CHUNK_GRAINS;
    else
        /* A whole chunk was free already; what was coalesced is not. */
        (void)give_chunks(group, MOIETYI_FRESH, page_bit, coalesced);
    return given;
}

static void add_grains(struct moietyi_maps *maps, enum moietyi_map_age age,
                       uint64_t grains)
{
    /* relaxed: a sum. */
    atomic_fetch_add_explicit(&maps->grains[age], grains, memory_order_relaxed);
}

/* What a give does at once from `at` on: whole pages of one group, or a part of
 * one page. */
static uint64_t step_from(uint64_t at, uint64_t end)
{
    uint64_t rest = end - at;
    uint64_t room = MOIETYI_PAGE_GRAINS - at % MOIETYI_PAGE_GRAINS;
    if (room == MOIETYI_PAGE_GRAINS && rest >= MOIETYI_PAGE_GRAINS) {
        room = GROUP_GRAINS - at % GROUP_GRAINS;
        rest -= rest % MOIETYI_PAGE_GRAINS;
    }
    return rest < room ? rest : room;
}

/* One step of them. How many grains were set. */
static uint64_t give_step(struct moietyi_maps *maps, uint64_t at,
                          uint64_t grains)
{
    moietyi_page page = moietyi_page_of_grain(moietyi_grain_at(at));
    struct moietyi_maps_group *group =
        moietyi_maps_group_at(maps, page.index / MOIETYI_WORD_BITS);
    unsigned offset = (unsigned)(at % MOIETYI_PAGE_GRAINS);
    unsigned pages = (unsigned)(grains / MOIETYI_PAGE_GRAINS);
    if (!pages)
        return map_give_in_page(group, page_bit_of(page), offset,
                                offset + (unsigned)grains);
    uint64_t mask = moietyi_word_run(page_bit_of(page), pages);
    return map_fill(&group->pages[MOIETYI_FRESH], mask, false) == SET ? grains
                                                                      : 0;
}

enum moietyi_map_give moietyi_maps_give_unnoted(struct moietyi_maps *maps,
                                                moietyi_grain start,
                                                uint64_t grains)
{
    uint64_t end = start.index + grains;
    uint64_t given = 0;
    if (!moietyi_maps_prepare(maps, start, grains))
        return MOIETYI_MAP_NO_MEMORY;
    add_grains(maps, MOIETYI_FRESH, grains);
    /* On to the first step that was refused, or refused in part. */
    for (uint64_t at = start.index; at < end && given == at - start.index;) {
        uint64_t step = step_from(at, end);
        given += give_step(maps, at, step);
        at += step;
    }
    if (given == grains)
        return MOIETYI_MAP_GIVEN;
    add_grains(maps, MOIETYI_FRESH, given - grains);
    return MOIETYI_MAP_TWICE;
}

enum moietyi_map_give moietyi_maps_give(struct moietyi_maps *maps,
                                        moietyi_grain start, uint64_t grains)
{
    const struct moietyi_kind own = {maps->buddy, maps};
    enum moietyi_map_give given =
        moietyi_maps_give_unnoted(maps, start, grains);
    if (given == MOIETYI_MAP_GIVEN)
        moietyi_index_note_around(&own, start.index, start.index + grains);
    return given;
}

/* Where a word's bits go that a move took. */
struct move {
    struct moietyi_maps *maps;
    struct moietyi_maps *to; /* of a hand-over */
    enum moietyi_map_age from;
    uint64_t moved; /* grains */
    void (*pages)(struct move *move, uint32_t group, uint64_t mask);
    void (*chunks)(struct move *move, moietyi_page page, uint64_t mask);
    void (*grains)(struct move *move, moietyi_chunk chunk, uint64_t mask);
};

/* MH: after the clearing of the hint, by order of seq_cst: a word that is 0
 * here gets its hint again by the thread that sets a bit of it. MW, both ends,
 * in the exchange: what earlier givers released goes on with the bits. */
static uint64_t take_word(struct move *move, moietyi_atomic_word *word,
                          uint64_t unit_grains)
{
    if (!moietyi_load_seq_cst(word))
        return 0;
    uint64_t mask = atomic_exchange_explicit(word, 0, memory_order_seq_cst);
    move->moved += moietyi_word_count(mask) * unit_grains;
    MOIETYI_STEP("map.word_moved");
    return mask;
}

/* The hints are cleared before the words are taken: a bit that is set after that
 * sets its hint again. */
static uint64_t take_hints(moietyi_atomic_word *hints)
{
    /* relaxed: a look. MH: before the exchanges of what is below. */
    return moietyi_load_relaxed(hints)
               ? atomic_exchange_explicit(hints, 0, memory_order_seq_cst)
               : 0;
}

static void move_page(struct move *move, struct moietyi_maps_group *group,
                      moietyi_page page)
{
    unsigned page_bit = page_bit_of(page);
    struct moietyi_maps_page *words = &group->page[page_bit];
    MOIETYI_STEP("map.page_entered");
    uint64_t cut = take_hints(&words->cut[move->from]);
    /* After the hints: where one was set there are words. */
    struct moietyi_maps_parts *parts = moietyi_maps_parts_at(group, page_bit);
    uint64_t mask =
        take_word(move, &words->chunks[move->from], MOIETYI_CHUNK_GRAINS);
    if (mask)
        move->chunks(move, page, mask);
    for (; parts && cut; cut &= cut - 1) {
        unsigned chunk = moietyi_word_lowest(cut);
        mask = take_word(move, &parts->grains[chunk][move->from], 1);
        if (mask)
            move->grains(move, moietyi_chunk_in_page(page, chunk), mask);
    }
}

static void move_group(struct move *move, uint32_t index)
{
    struct moietyi_maps_group *group = moietyi_maps_group_at(move->maps, index);
    if (!group)
        return;
    uint64_t open = take_hints(&group->open[move->from]);
    uint64_t mask =
        take_word(move, &group->pages[move->from], MOIETYI_PAGE_GRAINS);
    if (mask)
        move->pages(move, index, mask);
    for (; open; open &= open - 1)
        move_page(move, group,
                  (moietyi_page){index * MOIETYI_WORD_BITS +
                                 moietyi_word_lowest(open)});
}

static uint64_t move_all(struct move *move)
{
    /* relaxed: a sum, and 0 where there is nothing. */
    if (!atomic_load_explicit(&move->maps->grains[move->from],
                              memory_order_relaxed))
        return 0;
    for (uint32_t i = 0; i < move->maps->leaf_count; i++) {
        /* MG.acquire in moietyi_maps_group_at(). */
        if (!atomic_load_explicit(&move->maps->leaves[i], memory_order_relaxed))
            continue;
        for (uint32_t j = 0; j < MOIETYI_LEAF_GROUPS; j++)
            move_group(move, i * MOIETYI_LEAF_GROUPS + j);
    }
    add_grains(move->maps, move->from, -move->moved);
    return move->moved;
}

/* Counted before the bits can be claimed. */
static void add_aged(struct move *move, uint64_t mask, uint64_t unit_grains)
{
    add_grains(move->maps, MOIETYI_AGEING,
               moietyi_word_count(mask) * unit_grains);
}

/* What the ageing map gets has its words there already: they are of the same
 * memory as the fresh map's. Only this sets bits of it. MW, MH: as in
 * map_fill(). */
static void age_pages(struct move *move, uint32_t group, uint64_t mask)
{
    struct moietyi_maps_group *maps = moietyi_maps_group_at(move->maps, group);
    add_aged(move, mask, MOIETYI_PAGE_GRAINS);
    (void)map_fill(&maps->pages[MOIETYI_AGEING], mask, false);
}

static void age_chunks(struct move *move, moietyi_page page, uint64_t mask)
{
    struct moietyi_maps_group *group =
        moietyi_maps_group_at(move->maps, page.index / MOIETYI_WORD_BITS);
    add_aged(move, mask, MOIETYI_CHUNK_GRAINS);
    (void)give_chunks(group, MOIETYI_AGEING, page_bit_of(page), mask);
}

static void age_grains(struct move *move, moietyi_chunk chunk, uint64_t mask)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    struct moietyi_maps_group *group =
        moietyi_maps_group_at(move->maps, page.index / MOIETYI_WORD_BITS);
    uint64_t coalesced = 0;
    add_aged(move, mask, 1);
    (void)give_part(group, MOIETYI_AGEING, page_bit_of(page),
                    moietyi_chunk_bit(chunk), mask, &coalesced);
    (void)give_chunks(group, MOIETYI_AGEING, page_bit_of(page), coalesced);
}

uint64_t moietyi_maps_close(struct moietyi_maps *maps)
{
    struct move move = {.maps = maps,
                        .from = MOIETYI_FRESH,
                        .pages = age_pages,
                        .chunks = age_chunks,
                        .grains = age_grains};
    return move_all(&move);
}

/* What was moved to the buddy from `base` on, `unit` grains for each bit. */
static void note_done(const struct move *move, uint64_t base, uint64_t unit,
                      uint64_t mask)
{
    const struct moietyi_kind done = {move->maps->buddy, NULL};
    while (mask) {
        unsigned start;
        unsigned length;
        mask &= ~moietyi_word_first_run(mask, &start, &length);
        moietyi_index_note_around(&done, base + start * unit,
                                  base + (start + length) * unit);
    }
}

/* The buddy's words are of the same levels. Nothing can have been free in them
 * already. */
static void finish_pages(struct move *move, uint32_t group, uint64_t mask)
{
    (void)moietyi_give_pages(move->maps->buddy, group, mask);
    note_done(move, group * GROUP_GRAINS, MOIETYI_PAGE_GRAINS, mask);
}

static void finish_chunks(struct move *move, moietyi_page page, uint64_t mask)
{
    (void)moietyi_give_chunks(move->maps->buddy, NULL, page, mask);
    note_done(move, (uint64_t)page.index * MOIETYI_PAGE_GRAINS,
              MOIETYI_CHUNK_GRAINS, mask);
}

static void finish_grains(struct move *move, moietyi_chunk chunk, uint64_t mask)
{
    (void)moietyi_give_grains(move->maps->buddy, chunk, mask);
    note_done(move, chunk.index * MOIETYI_CHUNK_GRAINS, 1, mask);
}

uint64_t moietyi_maps_drain(struct moietyi_maps *maps, enum moietyi_map_age age)
{
    struct move move = {.maps = maps,
                        .from = age,
                        .pages = finish_pages,
                        .chunks = finish_chunks,
                        .grains = finish_grains};
    return move_all(&move);
}

/* Runs of a word, from which `unit` grains each are one bit. What the other
 * stream's maps have no memory for stays this one's, as fresh as if it had just
 * been freed. */
static void hand_runs(struct move *move, uint64_t base, uint64_t unit,
                      uint64_t mask)
{
    while (mask) {
        unsigned start;
        unsigned length;
        mask &= ~moietyi_word_first_run(mask, &start, &length);
        moietyi_grain at = moietyi_grain_at(base + start * unit);
        if (moietyi_maps_give(move->to, at, length * unit) ==
            MOIETYI_MAP_NO_MEMORY)
            (void)moietyi_maps_give(move->maps, at, length * unit);
    }
}

static void hand_pages(struct move *move, uint32_t group, uint64_t mask)
{
    hand_runs(move, (uint64_t)group * MOIETYI_WORD_BITS * MOIETYI_PAGE_GRAINS,
              MOIETYI_PAGE_GRAINS, mask);
}

static void hand_chunks(struct move *move, moietyi_page page, uint64_t mask)
{
    hand_runs(move, (uint64_t)page.index * MOIETYI_PAGE_GRAINS,
              MOIETYI_CHUNK_GRAINS, mask);
}

static void hand_grains(struct move *move, moietyi_chunk chunk, uint64_t mask)
{
    hand_runs(move, chunk.index * MOIETYI_CHUNK_GRAINS, 1, mask);
}

uint64_t moietyi_maps_hand(struct moietyi_maps *maps, enum moietyi_map_age age,
                           struct moietyi_maps *to)
{
    struct move move = {.maps = maps,
                        .to = to,
                        .from = age,
                        .pages = hand_pages,
                        .chunks = hand_chunks,
                        .grains = hand_grains};
    return move_all(&move);
}

uint64_t moietyi_maps_grains(const struct moietyi_maps *maps,
                             enum moietyi_map_age age)
{
    /* relaxed: a sum. */
    return maps ? atomic_load_explicit(&maps->grains[age], memory_order_relaxed)
                : 0;
}

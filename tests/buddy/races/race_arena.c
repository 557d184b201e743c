/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/buddy/races/race_arena.h"

#include <stdlib.h>

#include "tests/support/tools/random.h"

#define BATCH_MAX 16U

bool race_arena_init(struct race_arena *arena, uint32_t first_page,
                     uint32_t pages, uint32_t page_capacity, uint64_t seed)
{
    size_t grains = (size_t)page_capacity * PROBE_PAGE_GRAINS;
    *arena = (struct race_arena){.page_capacity = page_capacity,
                                 .first_page = first_page,
                                 .added_pages = pages};
    arena->is_held = calloc(grains, sizeof(*arena->is_held));
    arena->payload = calloc(grains, sizeof(*arena->payload));
    arena->freed = calloc(grains, sizeof(*arena->freed));
    for (unsigned i = 0; i < RACE_PLAYERS_MAX; i++)
        arena->players[i] = (struct race_player){
            .arena = arena, .index = i, .random = random_start(seed, i)};
    arena->dealer =
        (struct race_player){.arena = arena,
                             .index = RACE_PLAYERS_MAX,
                             .random = random_start(seed, RACE_PLAYERS_MAX)};
    if (!arena->is_held || !arena->payload || !arena->freed ||
        buddy_probe_create(page_capacity, &arena->buddy) != 0 ||
        !race_streams_init(arena))
        return false;
    buddy_probe_add(arena->buddy, first_page, pages);
    return true;
}

void race_arena_fini(struct race_arena *arena)
{
    race_streams_fini(arena);
    buddy_probe_destroy(arena->buddy);
    free(arena->freed);
    free(arena->payload);
    free((void *)arena->is_held);
}

void race_fail(struct race_arena *arena, const char *what, uint64_t grain)
{
    const char *none = NULL;
    if (atomic_compare_exchange_strong(&arena->failure, &none, what))
        atomic_store(&arena->failure_grain, grain);
}

uint32_t race_choose(struct race_player *player, uint32_t bound)
{
    return random_below(&player->random, bound);
}

void race_mark(struct race_player *player, uint64_t start, uint64_t grains)
{
    struct race_arena *arena = player->arena;
    /* relaxed, here and below: the buddy's own edges are what is tested. */
    for (uint64_t i = start; i < start + grains; i++) {
        if (atomic_exchange_explicit(&arena->is_held[i], 1,
                                     memory_order_relaxed))
            race_fail(arena, "two hold the same grain", i);
        arena->payload[i] = player->index;
    }
    atomic_fetch_add_explicit(&arena->held_grains, grains,
                              memory_order_relaxed);
}

void race_unmark(struct race_player *player, uint64_t start, uint64_t grains)
{
    struct race_arena *arena = player->arena;
    for (uint64_t i = start; i < start + grains; i++) {
        if (arena->payload[i] != player->index)
            race_fail(arena, "another wrote into a held grain", i);
        atomic_store_explicit(&arena->is_held[i], 0, memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&arena->held_grains, grains,
                              memory_order_relaxed);
}

/* Whether a search for this stream may have found what was freed so. */
static bool may_have(const struct race_arena *arena, unsigned stream,
                     uint32_t freed)
{
    unsigned other = freed >> RACE_EPOCH_BITS;
    if (!other || other == stream + 1 || arena->are_ordered)
        return true;
    /* relaxed: the memory came over the edges that are tested. */
    return (freed & RACE_EPOCH_MASK) <
           atomic_load_explicit(&arena->streams[other - 1].drained,
                                memory_order_relaxed);
}

void race_put_into_hand(struct race_player *player, unsigned stream,
                        uint64_t start, uint64_t grains)
{
    struct race_arena *arena = player->arena;
    race_mark(player, start, grains);
    for (uint64_t i = start; i < start + grains; i++) {
        if (!may_have(arena, stream, arena->freed[i]))
            race_fail(arena, "another stream got what is not done", i);
        arena->freed[i] = 0;
    }
    player->hand[player->hand_count++] = (struct race_interval){start, grains};
}

bool race_take(struct race_player *player,
               struct buddy_probe_affinity *affinity, uint32_t grains,
               uint32_t count)
{
    uint64_t starts[BATCH_MAX];
    if (count > BATCH_MAX || player->hand_count + count > RACE_HAND_MAX)
        return false;
    uint32_t taken = buddy_probe_take(player->arena->buddy, affinity, grains,
                                      count, 1, starts);
    for (uint32_t i = 0; i < taken; i++)
        race_put_into_hand(player, RACE_DONE, starts[i], grains);
    return taken != 0;
}

bool race_take_last(struct race_player *player, uint32_t grains)
{
    uint64_t start;
    if (player->hand_count == RACE_HAND_MAX ||
        !buddy_probe_take_last(player->arena->buddy, grains, 1, &start))
        return false;
    race_put_into_hand(player, RACE_DONE, start, grains);
    return true;
}

bool race_take_run(struct race_player *player, uint32_t chunks)
{
    uint64_t start;
    if (player->hand_count == RACE_HAND_MAX ||
        !buddy_probe_take_run(player->arena->buddy, chunks, &start))
        return false;
    race_put_into_hand(player, RACE_DONE, start,
                       (uint64_t)chunks * PROBE_CHUNK_GRAINS);
    return true;
}

static void give(struct race_player *player,
                 const struct buddy_probe_affinity *affinity, uint64_t start,
                 uint64_t grains)
{
    race_unmark(player, start, grains);
    if (!buddy_probe_give(player->arena->buddy, affinity, start, grains))
        race_fail(player->arena, "a give of held grains is refused", start);
}

void race_give_one(struct race_player *player,
                   const struct buddy_probe_affinity *affinity)
{
    if (!player->hand_count)
        return;
    struct race_interval top = player->hand[--player->hand_count];
    give(player, affinity, top.start, top.grains);
}

void race_give_in_pieces(struct race_player *player, uint32_t piece)
{
    if (!player->hand_count)
        return;
    struct race_interval top = player->hand[--player->hand_count];
    while (top.grains) {
        uint64_t part = 1 + race_choose(player, piece);
        if (part > top.grains)
            part = top.grains;
        give(player, NULL, top.start, part);
        top.start += part;
        top.grains -= part;
    }
}

void race_give_all(struct race_player *player,
                   const struct buddy_probe_affinity *affinity)
{
    while (player->hand_count)
        race_give_one(player, affinity);
}

void race_deal(struct race_arena *arena, unsigned player, uint64_t start,
               uint64_t grains)
{
    race_unmark(&arena->dealer, start, grains);
    race_put_into_hand(&arena->players[player], RACE_DONE, start, grains);
}

void race_narrow(struct race_arena *arena, uint32_t chunks)
{
    struct race_player *dealer = &arena->dealer;
    if (!race_take_run(dealer, PROBE_PAGE_CHUNKS)) {
        race_fail(arena, "no page to begin with", 0);
        return;
    }
    struct race_interval *page = &dealer->hand[dealer->hand_count - 1];
    uint64_t grains = (uint64_t)chunks * PROBE_CHUNK_GRAINS;
    give(dealer, NULL, page->start, grains);
    page->start += grains;
    page->grains -= grains;
}

static void verify(struct race_arena *arena)
{
    uint64_t at;
    const char *broken = buddy_probe_check(arena->buddy, &at);
    if (broken)
        race_fail(arena, broken, at);
    uint64_t grains = (uint64_t)arena->added_pages * PROBE_PAGE_GRAINS;
    uint64_t free_grains =
        buddy_probe_free_grains(arena->buddy) + race_streams_verify(arena);
    if (free_grains + arena->held_grains != grains)
        race_fail(arena, "B6, M5: grains are lost or doubled", free_grains);
}

void race_settle(struct race_arena *arena)
{
    verify(arena);
    race_give_all(&arena->dealer, NULL);
    for (unsigned i = 0; i < RACE_PLAYERS_MAX; i++) {
        race_give_all(&arena->players[i], NULL);
        buddy_probe_drop_affinity(arena->buddy, &arena->players[i].affinity);
    }
    race_streams_drain(arena);
    verify(arena);
    uint64_t at;
    const char *broken = buddy_probe_check_merged(arena->buddy, &at);
    if (broken)
        race_fail(arena, broken, at);
    uint32_t longest = buddy_probe_longest_page_run(arena->buddy);
    if (longest != arena->added_pages)
        race_fail(arena, "not all merged to whole pages", longest);
}

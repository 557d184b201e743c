/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/heaps/race.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/heaps/places.h"
#include "tests/support/tools/random.h"

#define PAGES 2U
#define GRAINS ((uint64_t)PAGES * MOIETYI_PAGE_GRAINS)
#define PLAYERS 4U
#define HAND_MAX 4096U
#define MOVES 60U /* of a round and player */
#define MENU_MAX 12U

struct interval {
    uint64_t start;
    uint64_t grains;
};

struct arena;

/* One thread. It has the role of the stream with its index, if there is one. */
struct player {
    struct arena *arena;
    const struct race *race;
    unsigned index;
    uint64_t random;
    pthread_t thread;
    struct interval hand[HAND_MAX];
    uint32_t hand_count;
    struct moietyi_records records;
    const char *broken; /* NULL: nothing yet */
    uint64_t broken_at;
};

struct arena {
    struct moietyi_space *space;
    struct moietyi_heap *heap[STREAMS];
    uint8_t owners[GRAINS]; /* a player's index + 1; 0: nobody's */
    struct places places;
    struct player players[PLAYERS];
};

struct race {
    const char *name;
    void (*deal)(struct arena *arena, uint64_t *random);
    void (*menu[MENU_MAX])(struct player *player);
};

static void break_at(struct player *player, const char *what, uint64_t at)
{
    if (!player->broken) {
        player->broken = what;
        player->broken_at = at;
    }
}

static uint32_t choose(struct player *player, uint32_t limit)
{
    return random_below(&player->random, limit);
}

static uint64_t choose_grains(struct player *player)
{
    return 1 + choose(player, choose(player, 8) ? 12 : 600);
}

/* --- what a player holds --- */

static void pick_up(struct player *player, uint64_t start, uint64_t grains)
{
    uint8_t *owners = player->arena->owners;
    for (uint64_t i = start; i < start + grains; i++) {
        if (owners[i])
            break_at(player, "took what somebody holds", i);
        owners[i] = (uint8_t)(player->index + 1);
    }
    player->hand[player->hand_count++] = (struct interval){start, grains};
}

/* Any of the hand, or, unless `is_whole`, a part of it. */
static struct interval put_down(struct player *player, bool is_whole)
{
    uint8_t *owners = player->arena->owners;
    struct interval *from = &player->hand[choose(player, player->hand_count)];
    struct interval gone = *from;
    if (!is_whole && gone.grains > 1 && choose(player, 4) == 0)
        gone.grains = 1 + choose(player, (uint32_t)gone.grains - 1);
    from->start += gone.grains;
    from->grains -= gone.grains;
    if (!from->grains)
        *from = player->hand[--player->hand_count];
    for (uint64_t i = gone.start; i < gone.start + gone.grains; i++) {
        if (owners[i] != player->index + 1)
            break_at(player, "somebody took what this thread holds", i);
        owners[i] = 0;
    }
    return gone;
}

/* Left for who has the lock, or by a call that waits for it. */
static void give_interval(struct player *player, struct moietyi_heap *heap,
                          struct interval gone)
{
    moietyi_grain start = moietyi_grain_at(gone.start);
    const struct moietyi_interval interval = {gone.start, gone.grains};
    bool is_given;
    if (choose(player, 4))
        is_given = !moietyi_give_some(player->arena->space, heap, &interval, 1,
                                      &player->records);
    else
        is_given =
            heap ? moietyi_heap_give(heap, start, gone.grains)
                 : moietyi_space_give(player->arena->space, start, gone.grains);
    if (!is_given)
        break_at(player, "a free was refused", gone.start);
}

static void give_to(struct player *player, struct moietyi_heap *heap)
{
    if (player->hand_count)
        give_interval(player, heap, put_down(player, false));
}

/* --- moves --- */

static void move_give(struct player *player)
{
    unsigned stream = choose(player, STREAMS + 1);
    give_to(player, stream < STREAMS ? player->arena->heap[stream] : NULL);
}

static void move_give_all(struct player *player)
{
    while (player->hand_count)
        move_give(player);
}

static struct moietyi_view choose_view(struct player *player)
{
    unsigned stream = choose(player, STREAMS + 1);
    struct moietyi_view view = {player->arena->space, NULL, false};
    if (stream < STREAMS)
        view.heap = player->arena->heap[stream];
    view.is_own_only = choose(player, 4) == 0;
    return view;
}

static void move_take(struct player *player)
{
    const struct moietyi_view view = choose_view(player);
    uint64_t grains = choose_grains(player);
    uint32_t alignment = choose(player, 4) ? 1 : 8;
    moietyi_grain start;
    if (player->hand_count == HAND_MAX)
        return;
    if (choose(player, 2)
            ? moietyi_view_take_best(&view, grains, alignment, &start)
            : moietyi_view_take(&view, grains, alignment, &start))
        pick_up(player, start.index, grains);
}

static void move_take_many(struct player *player)
{
    const struct moietyi_view view = choose_view(player);
    const struct moietyi_take what = {1 + choose(player, 5), 12,
                                      choose(player, 2) ? 1 : 4};
    moietyi_grain out[12];
    if (player->hand_count + what.count > HAND_MAX)
        return;
    bool is_done;
    uint32_t taken = moietyi_view_take_some(&view, &what, &is_done, out);
    for (uint32_t i = 0; i < taken; i++)
        pick_up(player, out[i].index, what.grains);
}

/* Beside what it holds, or anywhere. */
static void move_claim(struct player *player)
{
    const struct moietyi_view view = choose_view(player);
    uint64_t start = choose(player, GRAINS);
    uint64_t grains = choose_grains(player);
    if (player->hand_count && choose(player, 2)) {
        const struct interval *beside =
            &player->hand[choose(player, player->hand_count)];
        start = beside->start + beside->grains;
    }
    if (start + grains > GRAINS || player->hand_count == HAND_MAX)
        return;
    (void)moietyi_view_free_before(&view, moietyi_grain_at(start),
                                   moietyi_grain_at(start + grains));
    if (moietyi_view_claim(&view, moietyi_grain_at(start), grains))
        pick_up(player, start, grains);
}

static void move_age(struct player *player)
{
    struct moietyi_heap *const *heap = player->arena->heap;
    if (player->index >= STREAMS)
        return;
    struct moietyi_heap *own = heap[player->index];
    enum moietyi_age age = choose(player, MOIETYI_AGES);
    switch (choose(player, 4)) {
    case 0:
        (void)moietyi_heap_hand(own, age, heap[(player->index + 1) % STREAMS]);
        break;
    case 1:
        (void)moietyi_heap_drain(own, age);
        break;
    default:
        (void)moietyi_heap_close(own);
    }
}

/* A heap with a number that others' had a moment ago. */
static void move_create(struct player *player)
{
    struct moietyi_heap *heap = moietyi_heap_create(player->arena->space);
    if (!heap) {
        break_at(player, "no memory", 0);
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        give_to(player, heap);
    (void)moietyi_heap_close(heap);
    give_to(player, heap);
    (void)moietyi_heap_drain(heap, MOIETYI_AGEING);
    (void)moietyi_heap_drain(heap, MOIETYI_FRESH);
    moietyi_heap_destroy(heap);
}

/* Its one block goes to a heap, and comes back. */
static void pass_block(struct player *player, struct moietyi_heap *heap)
{
    const struct moietyi_view view = {player->arena->space, heap, heap != NULL};
    struct interval block = put_down(player, true);
    give_interval(player, heap, block);
    if (moietyi_view_claim(&view, moietyi_grain_at(block.start), block.grains))
        pick_up(player, block.start, block.grains);
    else
        break_at(player, "what was freed is not there", block.start);
}

/* What is done grows at one end, and of the block at its other end a stream asks
 * whether it is free. */
static void move_block(struct player *player)
{
    for (unsigned i = 0; i < 20 && player->hand_count; i++) {
        pass_block(player, NULL);
        if (player->index == 1 && player->hand_count)
            pass_block(player, player->arena->heap[1]);
    }
}

/* --- deals --- */

static void deal_nothing(struct arena *arena, uint64_t *random)
{
    (void)arena;
    (void)random;
}

/* Everything, in blocks of one length, so that neighbours are freed by anybody. */
static void deal_blocks(struct arena *arena, uint64_t *random)
{
    const struct moietyi_view done = {arena->space, NULL, false};
    uint64_t grains = 1 + random_below(random, 6);
    moietyi_grain start;
    while (moietyi_view_take(&done, grains, 1, &start)) {
        struct player *player = &arena->players[random_below(random, PLAYERS)];
        if (player->hand_count < HAND_MAX)
            pick_up(player, start.index, grains);
        else
            (void)moietyi_heap_give(arena->heap[0], start, grains);
    }
}

/* A block at each end of the space, of one length. */
static void deal_ends(struct arena *arena, uint64_t *random)
{
    const struct moietyi_view done = {arena->space, NULL, false};
    uint64_t grains = 1 + random_below(random, 16);
    const uint64_t starts[] = {0, GRAINS - grains};
    for (unsigned i = 0; i < 2; i++)
        if (moietyi_view_claim(&done, moietyi_grain_at(starts[i]), grains))
            pick_up(&arena->players[i], starts[i], grains);
}

static const struct race races[] = {
    {"FreeVsGrowth", deal_ends, {move_block}},
    {"FreeVsFree", deal_blocks, {move_give_all}},
    {"FreeVsAge", deal_blocks, {move_give, move_give, move_age}},
    {"TakeVsFree",
     deal_nothing,
     {move_take, move_take, move_take_many, move_give, move_give}},
    {"ClaimVsDrain",
     deal_nothing,
     {move_take, move_claim, move_claim, move_give, move_give, move_age}},
    {"NumbersVsFree",
     deal_nothing,
     {move_take, move_take_many, move_give, move_create}},
    {"AllVsAll",
     deal_nothing,
     {move_take, move_take, move_take_many, move_claim, move_give, move_give,
      move_give, move_give, move_age, move_create}},
};

/* --- a round --- */

static void *play(void *context)
{
    struct player *player = context;
    const struct race *race = player->race;
    uint32_t dishes = 0;
    while (dishes < MENU_MAX && race->menu[dishes])
        dishes++;
    for (unsigned i = 0; i < MOVES && !player->broken; i++)
        race->menu[choose(player, dishes)](player);
    return NULL;
}

/* What is broken after a round; NULL: nothing. */
static const char *judge(struct arena *arena, uint64_t *at)
{
    moietyi_grain where = {0};
    for (unsigned i = 0; i < PLAYERS; i++)
        if (arena->players[i].broken) {
            *at = arena->players[i].broken_at;
            return arena->players[i].broken;
        }
    const char *broken = moietyi_heap_check(
        (const struct moietyi_heap *const *)arena->heap, STREAMS, &where);
    if (!broken)
        broken = moietyi_space_check(arena->space, &where);
    *at = where.index;
    if (broken)
        return broken;
    if (!places_read(&arena->places, arena->space, arena->heap))
        return "two extents have the same grain";
    for (*at = 0; *at < GRAINS; ++*at)
        if (!arena->owners[*at] != (arena->places.read[*at] != PLACE_NONE))
            return arena->owners[*at] ? "held and free" : "lost";
    return NULL;
}

/* At rest: those of the space's chains, and of hands. */
static uint32_t count_spare_records(const struct arena *arena)
{
    const struct moietyi_space *space = arena->space;
    uint32_t count = space->done->spare_count;
    for (unsigned i = 0; i < STREAMS; i++)
        count += arena->heap[i]->spare_count;
    for (const struct moietyi_heap *heap = space->retired; heap;
         heap = heap->retired_next)
        count += heap->spare_count;
    uint64_t head = atomic_load(&space->spare);
    for (moietyi_extent_id id = (moietyi_extent_id)head; id;
         id = (moietyi_extent_id)moietyi_grains_of(space, id))
        count += MOIETYI_CHAIN_RECORDS;
    return count;
}

/* Everything is given back and done, and must have merged to one extent; all other
 * records are of none. */
static const char *merge_all(struct arena *arena)
{
    const struct moietyi_space *space = arena->space;
    for (unsigned i = 0; i < PLAYERS; i++) {
        move_give_all(&arena->players[i]);
        moietyi_records_leave(arena->space, &arena->players[i].records);
    }
    for (unsigned i = 0; i < STREAMS; i++)
        for (unsigned age = 0; age < MOIETYI_AGES; age++)
            (void)moietyi_heap_drain(arena->heap[i], age);
    if (moietyi_space_longest_page_run(space) != PAGES)
        return "what is given back has not merged";
    return count_spare_records(arena) + 1 + MOIETYI_CHAIN_RECORDS ==
                   atomic_load(&space->extent_end)
               ? NULL
               : "a record is lost";
}

static const char *play_round(struct arena *arena, const struct race *race,
                              uint64_t seed, uint64_t *at)
{
    uint64_t random = random_start(seed, PLAYERS);
    for (unsigned i = 0; i < PLAYERS; i++) {
        struct player *player = &arena->players[i];
        player->arena = arena;
        player->race = race;
        player->index = i;
        player->random = random_start(seed, i);
    }
    race->deal(arena, &random);
    for (unsigned i = 0; i < PLAYERS; i++)
        if (pthread_create(&arena->players[i].thread, NULL, play,
                           &arena->players[i]) != 0)
            return "no thread";
    for (unsigned i = 0; i < PLAYERS; i++)
        pthread_join(arena->players[i].thread, NULL);
    const char *broken = judge(arena, at);
    return broken ? broken : merge_all(arena);
}

size_t heap_race_count(void)
{
    return sizeof(races) / sizeof(races[0]);
}

const char *heap_race_name(size_t index)
{
    return races[index].name;
}

bool heap_race_run(size_t index, uint32_t rounds, uint64_t seed,
                   char message[HEAP_RACE_MESSAGE_BYTES])
{
    static struct arena arena; /* of one race at a time */
    memset(&arena, 0, sizeof(arena));
    const char *broken = NULL;
    uint64_t at = 0;
    message[0] = 0;
    if (!places_init(&arena.places, GRAINS) ||
        !(arena.space = moietyi_space_create(PAGES)))
        broken = "no memory";
    for (unsigned i = 0; i < STREAMS && !broken; i++)
        if (!(arena.heap[i] = moietyi_heap_create(arena.space)))
            broken = "no memory";
    if (!broken && !moietyi_space_add(arena.space, (moietyi_page){0}, PAGES))
        broken = "no memory";
    uint32_t round = 0;
    for (; round < rounds && !broken; round++)
        broken = play_round(&arena, &races[index], seed + round, &at);
    for (unsigned i = 0; i < STREAMS; i++)
        moietyi_heap_destroy(arena.heap[i]);
    moietyi_space_destroy(arena.space);
    places_fini(&arena.places);
    if (broken)
        (void)snprintf(message, HEAP_RACE_MESSAGE_BYTES,
                       "round %u of %s: %s, %llu", round, races[index].name,
                       broken, (unsigned long long)at);
    return !broken;
}

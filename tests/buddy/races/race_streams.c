/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What players do on streams. Everything that is shared here is relaxed, but for
 * the role: the maps' own edges are what is tested.
 */
#include "tests/buddy/races/race_arena.h"

#define BATCH_MAX 16U

bool race_streams_init(struct race_arena *arena)
{
    bool is_made = true;
    for (unsigned i = 0; i < RACE_STREAMS; i++) {
        arena->streams[i].maps = map_probe_create(arena->buddy);
        is_made = is_made && arena->streams[i].maps;
    }
    return is_made;
}

void race_streams_fini(struct race_arena *arena)
{
    for (unsigned i = 0; i < RACE_STREAMS; i++)
        map_probe_destroy(arena->streams[i].maps);
}

static struct map_probe_view view_of(struct race_player *player,
                                     unsigned stream, bool is_own_only)
{
    const struct race_arena *arena = player->arena;
    return (struct map_probe_view){
        arena->buddy,
        stream < RACE_STREAMS ? arena->streams[stream].maps : NULL, is_own_only,
        race_choose(player, 2) != 0};
}

bool race_take_view(struct race_player *player, unsigned stream,
                    bool is_own_only, uint64_t grains)
{
    const struct map_probe_view view = view_of(player, stream, is_own_only);
    uint64_t start;
    if (player->hand_count == RACE_HAND_MAX ||
        !map_probe_view_take(&view, grains, 1, race_choose(player, 2), &start))
        return false;
    race_put_into_hand(player, stream, start, grains);
    return true;
}

bool race_claim(struct race_player *player, unsigned stream, uint64_t start,
                uint64_t grains)
{
    const struct map_probe_view view = view_of(player, stream, false);
    if (player->hand_count == RACE_HAND_MAX ||
        !map_probe_view_claim(&view, start, grains))
        return false;
    race_put_into_hand(player, stream, start, grains);
    return true;
}

bool race_take_words(struct race_player *player, unsigned stream,
                     uint32_t grains, uint32_t count)
{
    uint64_t starts[BATCH_MAX];
    if (count > BATCH_MAX || player->hand_count + count > RACE_HAND_MAX)
        return false;
    uint32_t taken = map_probe_take(player->arena->streams[stream].maps, grains,
                                    count, 1, starts);
    for (uint32_t i = 0; i < taken; i++)
        race_put_into_hand(player, stream, starts[i], grains);
    return taken != 0;
}

static void free_part(struct race_player *player, unsigned stream,
                      uint64_t start, uint64_t grains)
{
    struct race_arena *arena = player->arena;
    uint32_t epoch = atomic_load_explicit(&arena->streams[stream].closed,
                                          memory_order_relaxed);
    for (uint64_t i = start; i < start + grains; i++)
        arena->freed[i] =
            (stream + 1) << RACE_EPOCH_BITS | (epoch & RACE_EPOCH_MASK);
    race_unmark(player, start, grains);
    if (map_probe_give(arena->streams[stream].maps, start, grains) !=
        PROBE_GIVEN)
        race_fail(arena, "a stream refuses grains that were held", start);
}

void race_free(struct race_player *player, unsigned stream, uint64_t piece)
{
    if (!player->hand_count)
        return;
    struct race_interval top = player->hand[--player->hand_count];
    while (top.grains) {
        uint64_t part = top.grains < piece ? top.grains : piece;
        free_part(player, stream, top.start, part);
        top.start += part;
        top.grains -= part;
    }
}

static bool take_role(struct race_stream *stream)
{
    return !atomic_exchange_explicit(&stream->has_role, true,
                                     memory_order_acquire);
}

static void leave_role(struct race_stream *stream)
{
    atomic_store_explicit(&stream->has_role, false, memory_order_release);
}

/* A thread that gets what is drained from now on may have seen it freed in the
 * newest epoch that is closed, not later. */
static void begin_drain(struct race_stream *stream)
{
    uint32_t closed =
        atomic_load_explicit(&stream->closed, memory_order_relaxed);
    atomic_store_explicit(&stream->drained, closed, memory_order_relaxed);
}

void race_move(struct race_arena *arena, unsigned stream)
{
    struct race_stream *moved = &arena->streams[stream];
    if (!take_role(moved))
        return;
    if (moved->is_in_flight) {
        begin_drain(moved);
        map_probe_drain(moved->maps, PROBE_AGEING);
    } else {
        map_probe_close(moved->maps);
        atomic_fetch_add_explicit(&moved->closed, 1, memory_order_relaxed);
    }
    moved->is_in_flight = !moved->is_in_flight;
    leave_role(moved);
}

void race_hand(struct race_arena *arena, unsigned stream)
{
    struct race_stream *moved = &arena->streams[stream];
    if (!take_role(moved))
        return;
    struct moietyi_maps *to = arena->streams[!stream].maps;
    map_probe_hand(moved->maps, PROBE_AGEING, to);
    map_probe_hand(moved->maps, PROBE_FRESH, to);
    moved->is_in_flight = false;
    leave_role(moved);
}

uint64_t race_streams_verify(struct race_arena *arena)
{
    const struct moietyi_maps *maps[RACE_STREAMS];
    uint64_t grains = 0;
    for (unsigned i = 0; i < RACE_STREAMS; i++) {
        maps[i] = arena->streams[i].maps;
        grains += map_probe_grains(maps[i], PROBE_FRESH) +
                  map_probe_grains(maps[i], PROBE_AGEING);
    }
    uint64_t at;
    const char *broken = map_probe_check(maps, RACE_STREAMS, &at);
    if (broken)
        race_fail(arena, broken, at);
    return grains;
}

void race_streams_drain(struct race_arena *arena)
{
    for (unsigned i = 0; i < RACE_STREAMS; i++) {
        struct race_stream *stream = &arena->streams[i];
        atomic_fetch_add_explicit(&stream->closed, 1, memory_order_relaxed);
        begin_drain(stream);
        map_probe_drain(stream->maps, PROBE_AGEING);
        map_probe_drain(stream->maps, PROBE_FRESH);
        stream->is_in_flight = false;
    }
}

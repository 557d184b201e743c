/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What races are played on: one buddy with two streams' maps, and players who
 * take, give and notice when two of them hold the same grain, or when one gets
 * what was freed on another stream and is not done.
 */
#ifndef MOIETY_TESTS_BUDDY_RACES_RACE_ARENA_H_
#define MOIETY_TESTS_BUDDY_RACES_RACE_ARENA_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/buddy/races/race.h"
#include "tests/support/buddy_probe.h"
#include "tests/support/map_probe.h"

#define RACE_PLAYERS_MAX 3U
#define RACE_HAND_MAX 256U
#define RACE_STREAMS 2U
/* In place of a stream: memory that is done. */
#define RACE_DONE RACE_STREAMS

#define RACE_EPOCH_BITS 24U
#define RACE_EPOCH_MASK ((UINT32_C(1) << RACE_EPOCH_BITS) - 1)

struct race_arena;

struct race_interval {
    uint64_t start;
    uint64_t grains;
};

struct race_player {
    struct race_arena *arena;
    unsigned index;
    uint64_t random;
    struct buddy_probe_affinity affinity;
    struct race_interval hand[RACE_HAND_MAX];
    uint32_t hand_count;
};

/* Epochs are numbered from 0, in the order in which they are closed. */
struct race_stream {
    struct moietyi_maps *maps;
    _Atomic bool has_role;    /* somebody closes, drains or hands over */
    bool is_in_flight;        /* the role's holder's: an epoch is ageing */
    _Atomic uint32_t closed;  /* epochs, counted when they are */
    _Atomic uint32_t drained; /* epochs, counted before they are */
};

struct race_arena {
    struct moietyi_buddy *buddy;
    struct race_stream streams[RACE_STREAMS];
    bool are_ordered; /* the streams: each may have what the other freed */
    uint32_t page_capacity;
    uint32_t first_page; /* pages below it are never added */
    uint32_t added_pages;
    uint32_t round;
    /* Of each grain: whether somebody holds it, and what the holder wrote. */
    _Atomic uint8_t *is_held;
    uint32_t *payload;
    /* 0, or on which stream, from 1, and in which epoch or a later one it was
     * freed last. The holder's. */
    uint32_t *freed;
    _Atomic uint64_t held_grains;
    struct race_player players[RACE_PLAYERS_MAX];
    /* Held back for the round, so that the rest is contended. */
    struct race_player dealer;
    _Atomic(const char *) failure; /* the first one; a constant */
    _Atomic uint64_t failure_grain;
};

/* With `pages` pages from `first_page` on, and room for `page_capacity`. */
bool race_arena_init(struct race_arena *arena, uint32_t first_page,
                     uint32_t pages, uint32_t page_capacity, uint64_t seed);
void race_arena_fini(struct race_arena *arena);
void race_fail(struct race_arena *arena, const char *what, uint64_t grain);

/* Below `bound`. */
uint32_t race_choose(struct race_player *player, uint32_t bound);

/* Marks grains as the player's, or no longer so, and complains of overlaps. */
void race_mark(struct race_player *player, uint64_t start, uint64_t grains);
void race_unmark(struct race_player *player, uint64_t start, uint64_t grains);

/* Up to `count` intervals into the hand, as far as there is room. */
bool race_take(struct race_player *player,
               struct buddy_probe_affinity *affinity, uint32_t grains,
               uint32_t count);
/* One, which a search for this stream, or for RACE_DONE, has found. */
void race_put_into_hand(struct race_player *player, unsigned stream,
                        uint64_t start, uint64_t grains);
bool race_take_last(struct race_player *player, uint32_t grains);
bool race_take_run(struct race_player *player, uint32_t chunks);

/* From the top of the hand: one whole, one in pieces of up to `piece` grains,
 * all whole. */
void race_give_one(struct race_player *player,
                   const struct buddy_probe_affinity *affinity);
void race_give_in_pieces(struct race_player *player, uint32_t piece);
void race_give_all(struct race_player *player,
                   const struct buddy_probe_affinity *affinity);

/* Cuts the top of the dealer's hand at a grain, and deals the two parts. */
void race_deal(struct race_arena *arena, unsigned player, uint64_t start,
               uint64_t grains);
/* The dealer takes a page and leaves its first chunks to the players. */
void race_narrow(struct race_arena *arena, uint32_t chunks);

/* race_streams.c: by a view of the stream, or of RACE_DONE, with or without what
 * is done; exactly one interval; several out of a stream's words. */
bool race_take_view(struct race_player *player, unsigned stream,
                    bool is_own_only, uint64_t grains);
bool race_claim(struct race_player *player, unsigned stream, uint64_t start,
                uint64_t grains);
bool race_take_words(struct race_player *player, unsigned stream,
                     uint32_t grains, uint32_t count);
/* The top of the hand, on a stream, in pieces of up to `piece` grains. */
void race_free(struct race_player *player, unsigned stream, uint64_t piece);
/* Under the stream's role, which is not waited for: closes an epoch, or drains
 * the one that is ageing; and gives all to the other stream. */
void race_move(struct race_arena *arena, unsigned stream);
void race_hand(struct race_arena *arena, unsigned stream);
bool race_streams_init(struct race_arena *arena);
void race_streams_fini(struct race_arena *arena);
/* At rest: the verifier of maps, and how many grains they have; everything is
 * done now. */
uint64_t race_streams_verify(struct race_arena *arena);
void race_streams_drain(struct race_arena *arena);

/* At rest: the verifier and conservation; then everything back, and whole. */
void race_settle(struct race_arena *arena);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A player calls the pool at random, as fast as it can, and keeps books.
 */
#ifndef MOIETY_TESTS_STRESS_PLAYER_H_
#define MOIETY_TESTS_STRESS_PLAYER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/moiety.h"
#include "pool/driver/cuda_abi.h"
#include "tests/stress/map.h"
#include "tests/truth/hold.h"

#define PLAYER_HAND 4096
#define TABLE_PLACES 512

/* A mistake that a player makes once, to show that it is found. */
enum plant {
    PLANT_NOTHING,
    PLANT_OVERLAP, /* frees a block and keeps it */
    PLANT_LOSS,    /* forgets a block */
};

/* A block: its first grain in the map, and the bytes asked for. 0: none. */
typedef uint64_t packed_block;

/* What players share. */
struct game {
    moiety_pool *pool;
    CUcontext context;
    struct map map;
    uint64_t share_bytes; /* of the limit, for each player */
    CUstream *streams;
    uint32_t stream_count;
    struct holds holds; /* one for each of them */
    /* Where blocks change hands: whoever puts one takes what was there. */
    _Atomic packed_block table[TABLE_PLACES];
    atomic_bool is_drained;   /* players are to stop and give everything back */
    atomic_bool is_failed;    /* a call returned what it may not */
    _Atomic enum plant plant; /* until somebody took it */
};

struct player {
    struct game *game;
    uint32_t index;
    uint64_t random;
    CUstream own; /* replaced now and then */
    CUevent event;
    packed_block hand[PLAYER_HAND];
    uint32_t hand_count;
    uint32_t hand_target;
    uint64_t hand_bytes;
    uint64_t hand_bytes_max;
    bool has_guard;
    /* Written by its thread, read by whoever reports. */
    _Atomic uint64_t operations; /* blocks allocated and blocks freed */
    _Atomic uint64_t denied;
};

void player_init(struct player *player, struct game *game, uint32_t index,
                 uint64_t seed);
void player_fini(struct player *player);

/* Plays until the game is drained, `steps` at most. */
void player_play(struct player *player, uint64_t steps);

/* Frees what is in its hand and on the table. */
void player_drain(struct player *player);

/* Prints what was wrong with a call and lets the game fail. */
void game_fail(struct game *game, const char *what);

/* Whether this caller is the one who is to do what was planted. */
bool game_takes_plant(struct game *game, enum plant plant);

/* What a player does, in player_alloc.c and player_free.c. */
moiety_stream player_choose_stream(struct player *player);
void player_allocate(struct player *player);
void player_free_one(struct player *player);
void player_free_some(struct player *player);
void player_free_plainly(struct player *player, packed_block block);
void player_call_badly(struct player *player);
uint64_t player_address(const struct player *player, packed_block block);
size_t player_size(packed_block block);

#endif

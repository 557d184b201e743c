/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that keep a pool at its limit, and what they find out.
 */
#ifndef MOIETY_TESTS_OOM_PLAYER_H_
#define MOIETY_TESTS_OOM_PLAYER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/moiety.h"

/* How blocks are freed. */
enum freed { FREED_DONE, FREED_STREAM, FREED_ANY, FREED_MIXED };

struct game {
    moiety_pool *pool;
    enum freed freed;
    bool has_callbacks;
    uint64_t limit_bytes;
    uint64_t size_bytes;   /* of every block; 0: of many sizes */
    uint64_t wanted_bytes; /* by one player, where sizes are mixed */
    uint32_t hand_max;     /* blocks that a player may hold */
    atomic_bool is_over;
    /* Blocks that may still be asked for so that all fit; one size only. */
    _Atomic int64_t permits;
    atomic_uint wrong; /* answers that are none of those expected */

    _Atomic uint64_t operations;
    _Atomic uint64_t failures;  /* for want of memory */
    _Atomic uint64_t inexact;   /* of these, reports that prove nothing */
    _Atomic uint64_t unproved;  /* reports that contradict the failure */
    _Atomic uint64_t callbacks; /* calls of them */
};

struct block {
    moiety_devptr address;
    uint64_t size_bytes;
};

struct player {
    struct game *game;
    uint64_t random;
    moiety_stream stream;
    struct block *hand;
    uint32_t count;
    uint64_t bytes;
};

void player_init(struct player *player, struct game *game, uint32_t index,
                 uint64_t seed);
void player_fini(struct player *player);
/* Until the game is over; then frees all. */
void player_play(struct player *player);
/* Takes a number of permits off, or none if there are not so many. */
bool player_is_permitted(struct game *game, int64_t count);

/* Says that something is wrong, with the library's message; the first times. */
void game_wrong(struct game *game, const char *what);
/* Looks at the report of an allocation that just failed. */
void game_judge(struct game *game, uint64_t size_bytes);

/* stash.c: memory that callbacks give up, and which comes back to them. */
void stash_init(struct game *game);
void stash_fini(struct game *game);
/* Registers and removes one again, beside the others' allocations. */
void stash_stir(struct game *game);

#endif

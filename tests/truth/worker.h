/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A worker: allocates blocks, fills them, has them read and frees them, in
 * every way that the pool offers. It lives in one thread after another.
 */
#ifndef MOIETY_TESTS_TRUTH_WORKER_H_
#define MOIETY_TESTS_TRUTH_WORKER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/truth/history.h"
#include "tests/truth/round.h"
#include "tests/truth/world.h"

#define WORKER_HAND 32
#define WORKER_ROUNDS 4
#define WORKER_OWN 2
#define WORKER_FAVOURITES 4
#define WORKER_EVENTS 64

struct worker {
    struct world *world;
    uint32_t index;
    uint64_t random;
    uint64_t quota;   /* blocks to allocate */
    bool is_restless; /* its threads are short-lived */
    bool has_guard;   /* holds a capture guard */
    struct block hand[WORKER_HAND];
    uint32_t hand_count;
    uint32_t hand_target; /* how many blocks it likes to have */
    struct round round[WORKER_ROUNDS];
    uint32_t current_round;
    CUstream own[WORKER_OWN];
    uint32_t favourite[WORKER_FAVOURITES]; /* of the shared streams, for now */
    CUevent spare_event[WORKER_EVENTS];
    uint32_t spare_events;
    /* Written by its thread, read by whoever reports. */
    _Atomic uint64_t allocated;
    _Atomic uint64_t finished;
    _Atomic uint64_t denied; /* allocations for want of memory */
    _Atomic uint64_t streams_retired;
    _Atomic uint64_t lives;
    struct history history;
};

/* One after the other, in the thread that has the context. */
void worker_init(struct worker *worker, struct world *world, uint32_t index);
void worker_run(struct worker *worker);
void worker_fini(struct worker *worker);

/* Finishes what is left in the mailbox, after all workers have run. */
void worker_empty_mailbox(struct worker *worker);

/* The parts of it, in files of their own. */

/* alloc.c: allocates and fills a block or a few, or makes room. */
void worker_begin_block(struct worker *worker);
/* Frees large blocks on a stream that is held, and has their memory move. */
void worker_force_moves(struct worker *worker);

/* finish.c: has the block at `index` of the hand read, and frees it. */
void worker_finish_block(struct worker *worker, uint32_t index);
/* The same for all blocks of one stream, on that stream. */
void worker_finish_stream(struct worker *worker, CUstream stream);
/* Posts it for another worker to finish; it stays if the mailbox is full. */
void worker_send_block(struct worker *worker, uint32_t index);

/* worker.c */
struct worker_place {
    CUstream stream;
    enum place place;
};
struct worker_place worker_choose_place(struct worker *worker);
CUevent worker_take_event(struct worker *worker);
void worker_spare_event(struct worker *worker, CUevent event);
struct round *worker_round_for(struct worker *worker, CUstream stream);
void worker_turn_round(struct worker *worker);
void worker_settle(struct worker *worker);
void worker_note(struct worker *worker, const struct block *block,
                 CUstream stream, const char *what);

#endif

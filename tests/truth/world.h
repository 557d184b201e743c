/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the threads of the truth test share: the pool, streams that all of them
 * use, a mailbox in which blocks change hands, and the verdict.
 */
#ifndef MOIETY_TESTS_TRUTH_WORLD_H_
#define MOIETY_TESTS_TRUTH_WORLD_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/moiety.h"
#include "pool/driver/cuda_abi.h"
#include "tests/truth/hold.h"

#define MAIL_MAX 64
#define SHOWN_WRONG_MAX 4

/* Which threads may use a stream. */
enum place {
    PLACE_SHARED, /* all threads */
    PLACE_LEGACY, /* all threads, and it orders others */
    PLACE_OWN,    /* created by one worker, which destroys it sometime */
    PLACE_THREAD, /* the per-thread default stream of one thread */
};

/* A block in somebody's hand, filled by work on `stream`. */
struct block {
    CUdeviceptr address;
    size_t size_bytes;   /* as asked for */
    size_t filled_bytes; /* all of them hold the word */
    CUstream stream;
    bool has_moved; /* there, from the one that it was allocated for */
    CUevent event;  /* NULL, or to be waited for before anything else */
    enum place place;
    uint32_t word; /* no two blocks of a run have the same */
};

/* A word that was not what its block was filled with. */
struct wrong {
    CUdeviceptr address;
    CUstream stream; /* that read it */
    uint64_t wrong_words;
    uint32_t expected;
    uint32_t found;
};

struct options {
    uint64_t threads;
    uint64_t streams;
    uint64_t operations;
    uint64_t seconds; /* 0: no limit */
    uint64_t seed;
    uint64_t limit_mib; /* 0: 16 MiB a thread */
    uint64_t wait_ms;
    uint64_t hand_over; /* 0 or 1: may streams be made to wait */
    uint64_t is_mapped; /* 0 or 1: memory whose pieces move */
    uint64_t large;     /* % of blocks of 2 to 32 MiB */
    uint64_t moves;     /* forced once in so many steps; 0: never */
    uint64_t held_us;   /* for how long what moves has readers */
    uint64_t is_noted;  /* for which stream a block was allocated */
    const char *driver;
};

struct world {
    const struct options *options;
    moiety_pool *pool;
    uint64_t limit_bytes;
    CUcontext context;
    CUstream *shared; /* options->streams of them */
    struct holds holds;
    atomic_bool is_stopped;
    atomic_bool is_failed; /* a call of the pool returned what it may not */
    _Atomic uint64_t wrong_bytes;

    pthread_mutex_t lock; /* for what follows */
    struct block mail[MAIL_MAX];
    uint32_t mail_count;
    struct wrong wrong[SHOWN_WRONG_MAX];
    uint32_t wrong_count;
};

void world_begin(struct world *world, const struct options *options,
                 CUcontext context);

/* Destroys the pool; nothing may be in use. Counts as a failure what the pool
 * has not got back. */
void world_end(struct world *world);

/* Posts a block, unless the mailbox is full; takes a random one out. */
bool world_post(struct world *world, const struct block *block);
bool world_receive(struct world *world, uint64_t random, struct block *out);

void world_note_wrong(struct world *world, const struct wrong *wrong);

/* Prints what was wrong with a call of the pool and stops everything. */
void world_fail(struct world *world, const char *what);

/* The index of a stream's hold: of shared ones, then of each worker's own and
 * per-thread ones, then of the legacy stream. */
uint32_t world_shared_hold(const struct world *world, uint32_t index);
uint32_t world_worker_hold(const struct world *world, uint32_t worker,
                           uint32_t index);
uint32_t world_legacy_hold(const struct world *world);

#endif

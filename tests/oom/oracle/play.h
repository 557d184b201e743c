/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One pool on the device, and the calls of a program on it, each written into
 * the history.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_PLAY_H_
#define MOIETY_TESTS_OOM_ORACLE_PLAY_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/moiety.h"
#include "moiety/oom.h"
#include "tests/oom/oracle/device.h"
#include "tests/oom/oracle/judge/history.h"

/* The pool of a game. */
struct setting {
    bool is_mapped;
    uint64_t limit_bytes;
    uint64_t first_segment_bytes;
    uint64_t largest_segment_bytes;
    uint64_t thread_cache_bytes;
    uint32_t wait_ms;
    uint32_t thread_count;
    /* Of the steps for the device, those that queue work; the others finish a
     * stream's. */
    uint32_t queue_percent;
};

enum how {
    FREE_ON,   /* the stream */
    FREE_USED, /* on the stream, with a recorded use on another */
    FREE_ANY,
    FREE_DONE,
    FREE_AFTER, /* an event on the stream */
    HOW_COUNT
};

#define CHANCES_RANDOM UINT64_MAX

/* What games may have. */
struct chances {
    bool is_mapped;
    bool has_one_segment; /* the whole limit is one */
    uint64_t thread_most;
    uint64_t wait_ms; /* of all pools, or CHANCES_RANDOM */
};

/* What came of all games. */
struct tally {
    _Atomic uint64_t games;
    _Atomic uint64_t allocations;
    _Atomic uint64_t failures;
    _Atomic uint64_t verdicts[HISTORY_VERDICTS];
    _Atomic uint64_t inexact; /* false ones whose report is not exact */
    _Atomic uint64_t served;  /* true ones, when tried again */
    _Atomic uint64_t refused; /* others, when tried again */
};

struct play {
    moiety_pool *pool;
    struct device *device;
    struct history *history;
    struct history_rules rules;
    struct tally *tally;
};

/* An allocation that failed. */
struct refusal {
    struct history_failure failure;
    moiety_oom_report report;
    struct fits_answer answer; /* the oracle's */
};

void play_begin(struct play *play, struct device *device,
                const struct setting *setting, size_t block_capacity,
                struct tally *tally);
/* Everything that the pool gave has to be freed, or is given up. */
void play_end(struct play *play);

/* NULL: the pool is out of memory. `stream` is one of the device's, or
 * HISTORY_NO_STREAM for ANY. */
struct history_block *play_alloc(struct play *play, uint32_t stream,
                                 uint64_t size_bytes, struct refusal *out);
void play_free(struct play *play, struct history_block *block, enum how how,
               uint32_t stream, uint32_t other);

/* Judges a refusal while no thread plays, and counts the verdict. */
enum history_verdict play_judge(struct play *play, struct refusal *refusal);

/* Prints what the pool itself says of it. */
void play_print(const struct refusal *refusal);

/* Whether the pool, once nothing is pending and nothing is cached, does what a
 * verdict says: serves the request unless the failure was true. What
 * contradicts the verdict is counted. All threads sleep. */
void play_check(struct play *play, const struct refusal *refusal,
                enum history_verdict verdict);

/* A pool of a random kind, and a size of a block for it. */
struct setting random_setting(uint64_t *random, const struct chances *chances);
uint64_t random_size(uint64_t *random, uint64_t limit_bytes);
enum how random_how(uint64_t *random);

#endif

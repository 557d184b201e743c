/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The history itself, for the two files that judge by it: history.c of memory that
 * stays where it is, history_mapped.c of memory that moves.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_JUDGE_HISTORY_STATE_H_
#define MOIETY_TESTS_OOM_ORACLE_JUDGE_HISTORY_STATE_H_

#include <pthread.h>
#include <stdatomic.h>

#include "tests/oom/oracle/judge/history.h"

#define HISTORY_NO_SEGMENT SIZE_MAX
/* No handle of a pool is longer. */
#define HISTORY_HANDLE_MOST_BYTES (UINT64_C(256) << 20)

struct history_array {
    void *items;
    size_t count;
    size_t capacity;
};

/* A segment, or a handle at a place of mapped memory. */
struct history_piece {
    uint64_t address;
    uint64_t size_bytes;
    struct history_span life;
    /* The piece whose memory this is, which it was before it moved here for an
     * allocation on the stream; or NO_SEGMENT. */
    size_t from;
    uint32_t mover;
    /* Found by the judge: the streams whose work it brought along, a bit each. */
    uint64_t brought;
};

struct history {
    pthread_mutex_t lock;
    struct history_array segments;              /* of struct history_piece */
    struct history_array busy[HISTORY_STREAMS]; /* of struct history_span, in
                                                   order */
    size_t capacity;
    atomic_size_t count;
    struct history_block *blocks;
    uint64_t base; /* the lowest address of any segment */
    /* The judge's. */
    struct fits_segment *places;
    struct fits_range *ranges;
    struct fits_range *ranges_and_segments;
    size_t range_count;
    /* The judge's of mapped memory. */
    size_t known_count;           /* of pieces, from the first on */
    struct history_array present; /* of struct fits_segment, by address */
    struct history_array spread;  /* of struct fits_range */
    struct history_array taken;   /* of struct fits_taken */
};

/* Ends the process with a message unless the condition holds. */
void history_require(bool condition, const char *what);
/* Room for one more item. */
void *history_array_add(struct history_array *array, size_t item_bytes);
size_t history_block_count(const struct history *history);

/* Whether work of one of the streams may be pending when the pool had waited as
 * long as it may. */
bool history_is_pending(const struct history *history, uint64_t streams,
                        const struct history_failure *failure,
                        const struct history_rules *rules);

/* What is in the way of a request in mapped memory. */
enum history_way {
    HISTORY_LIVE,
    HISTORY_AND_PENDING, /* and what waits for streams' work */
    HISTORY_AND_PLACES /* and the old places of handles, which wait for all work */
};

/* history_mapped.c: whether the request fits beside that. */
struct fits_answer history_ask_mapped(struct history *history,
                                      const struct history_failure *failure,
                                      const struct history_rules *rules,
                                      enum history_way way);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a program did to a pool, and when: the oracle's evidence. From it the
 * oracle decides whether an allocation that failed should have succeeded.
 *
 * A failure is false if the request fits when every block that was live at any
 * moment of the call counts as live throughout, everything else as free, and
 * segments without such a block may be given back and grown anew up to the
 * limit. It is excused if the request fits only where blocks lie that wait for a
 * stream with work pending when the pool had waited for `wait_ns`: any work that
 * was queued before the call's end, as nobody records an event at a free. What
 * was freed on the request's own stream waits for nothing. It is excused, too, if
 * it fits only in a segment of its own, the pool says that the device's work keeps
 * others, and that may be: the device worked then, or the pool may not wait until
 * it knows better.
 *
 * Whatever the evidence leaves open is decided for the pool. A block counts as
 * live from the begin of the call that took it to the end of the call that
 * freed it, and work as pending until somebody has seen it done. A segment that
 * came or went during the call is pinned by its blocks, but has no holes.
 *
 * Of mapped memory, whose segments are handles that move, blocks and holes may go on
 * from one to its neighbour, and handles without a block may be put anywhere: see
 * fits_mapped(). A handle that has moved brings the work along that was pending on the
 * stream for which it moved. Its old place, which it is mapped at as well, may wait for
 * all work of the device (docs/dev/adr/0027-mapped-segments.md): if the request fits only
 * there, or if such a handle went elsewhere, the failure is excused by the place.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_JUDGE_HISTORY_H_
#define MOIETY_TESTS_OOM_ORACLE_JUDGE_HISTORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/oom/oracle/judge/fits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HISTORY_STREAMS 64U
#define HISTORY_NEVER UINT64_MAX
#define HISTORY_NO_STREAM UINT32_MAX
#define HISTORY_ALL_STREAMS UINT64_MAX

/* Nanoseconds of one clock for all threads: the begin and the end of a call. */
struct history_span {
    uint64_t begin;
    uint64_t end;
};

/* How a block was freed. */
struct history_free {
    struct history_span call;
    /* Streams whose work the memory waits for, a bit each. */
    uint64_t streams;
    /* The stream that may use the memory before that, or NO_STREAM. */
    uint32_t own_stream;
};

/* A block; its record belongs to whoever owns the block. */
struct history_block {
    uint64_t address;
    uint64_t size_bytes;
    struct history_span alloc;
    struct history_free freed; /* call.begin: NEVER while it is live */
    size_t segment;            /* found by the oracle */
};

struct history_failure {
    struct history_span call;
    uint64_t needed_bytes;
    uint32_t stream; /* or NO_STREAM */
    /* The pool says that whole segments stay as long as the device works. */
    bool is_held_up;
};

/* What is expected of the pool. */
struct history_rules {
    uint64_t limit_bytes;
    uint64_t wait_ns;
    bool is_mapped; /* segments are handles, which move */
};

enum history_verdict {
    HISTORY_TRUE,
    HISTORY_EXCUSED,
    HISTORY_BY_PLACE, /* excused by old places of handles */
    HISTORY_FALSE,
    HISTORY_VERDICTS
};

struct history;

/* Room for so many blocks; NULL if there is no memory. */
struct history *history_create(size_t block_capacity);
void history_destroy(struct history *history);

/* Any thread. NULL: there is no more room. */
struct history_block *history_add_block(struct history *history,
                                        uint64_t address, uint64_t size_bytes,
                                        struct history_span alloc);

/* Any thread. A stream is busy from the first work that is queued on it until
 * all of it was seen done; these two take turns for each stream. */
void history_begin_busy(struct history *history, uint32_t stream, uint64_t at);
void history_end_busy(struct history *history, uint32_t stream, uint64_t at);

/* Any thread. Memory that the pool has got, and that it gives back. */
void history_add_segment(struct history *history, uint64_t address,
                         uint64_t size_bytes, uint64_t at);
void history_remove_segment(struct history *history, uint64_t address,
                            uint64_t at);
/* What was removed last from the one address is at the other from now on, for an
 * allocation on `stream`, or NO_STREAM. */
void history_move_segment(struct history *history, uint64_t from_address,
                          uint64_t address, uint32_t stream, uint64_t at);

/* While nobody writes to the history. `out`: NULL, or where the request would
 * have fitted with all that counts as live. The process ends with a message
 * where the history contradicts itself: a block outside of all segments. */
enum history_verdict history_judge(struct history *history,
                                   const struct history_failure *failure,
                                   const struct history_rules *rules,
                                   struct fits_answer *out);

/* What a pool may need for a request: what it says, within the bounds that
 * moiety_alloc() promises. */
uint64_t history_needed_bytes(uint64_t size_bytes, uint64_t said_bytes);

#ifdef __cplusplus
}
#endif

#endif

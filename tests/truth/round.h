/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A round: blocks whose contents are on their way into pinned memory, to be
 * compared all together when the copies are over.
 */
#ifndef MOIETY_TESTS_TRUTH_ROUND_H_
#define MOIETY_TESTS_TRUTH_ROUND_H_

#include <stdbool.h>
#include <stdint.h>

#include "tests/truth/world.h"

#define ROUND_BLOCKS 64
#define ROUND_STREAMS 16
#define ROUND_COPIES (ROUND_BLOCKS * 3)

/* A part of a block in pinned memory. */
struct round_copy {
    CUdeviceptr address;
    CUstream stream;
    const uint32_t *words;
    uint32_t word_count;
    uint32_t word; /* that each of them should be */
};

struct round {
    struct round_copy copy[ROUND_COPIES];
    uint32_t copy_count;
    uint32_t block_count;
    struct block done[ROUND_BLOCKS]; /* to be freed when the round is over */
    uint32_t done_count;
    CUstream stream[ROUND_STREAMS]; /* on which there are copies */
    CUevent event[ROUND_STREAMS];
    uint32_t stream_count;
    bool is_closed; /* the events are recorded */
    unsigned char *pinned;
    size_t pinned_used_bytes;
};

void round_init(struct round *round);
void round_fini(struct round *round);

/* Whether a block can still be read on `stream`. */
bool round_has_room(const struct round *round, CUstream stream);

/* Queues copies of a block on `stream`: of the whole, or of its ends and a
 * part in the middle. */
void round_read(struct round *round, const struct block *block, CUstream stream,
                uint64_t random);

/* Records the events by which the end is seen. */
void round_close(struct round *round);

/* Waits for a closed round and compares. What is in done[] may be freed then;
 * the caller empties the round by round_reopen(). */
void round_await(struct round *round);
void round_compare(const struct round *round, struct world *world);
void round_reopen(struct round *round);

#endif

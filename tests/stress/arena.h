/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A source of segments that lie in one allocation of the driver's, so that the
 * map of owners is one array. Growing and trimming cost next to nothing here,
 * and so can be had often.
 */
#ifndef MOIETY_TESTS_STRESS_ARENA_H_
#define MOIETY_TESTS_STRESS_ARENA_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/source.h"

#define ARENA_PAGE_BYTES ((uint64_t)2 << 20)

struct arena {
    moiety_devptr allocation; /* as the driver returned it */
    moiety_devptr base;       /* of the first page */
    uint64_t page_count;
    pthread_mutex_t lock; /* for what follows */
    bool *is_reserved;    /* of each page */
    uint64_t reserved_bytes;
    uint64_t bad_releases; /* of pages that were not reserved */
};

/* The context must be current. */
void arena_init(struct arena *arena, uint64_t size_bytes);
void arena_fini(struct arena *arena);

moiety_source arena_source(struct arena *arena);

#endif

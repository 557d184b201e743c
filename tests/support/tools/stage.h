/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Streams of the stand-in driver, some of which are held back with work on
 * them. The stage knows at any time which streams still have work before their
 * tail, because it alone lets them go on.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_STAGE_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_STAGE_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/types.h"

#define STAGE_CREATED 4U
#define STAGE_LEGACY 4U
#define STAGE_PER_THREAD 5U
#define STAGE_STREAMS 6U

/* A bit per stream. */
typedef uint8_t stage_mask;

struct stage_stream {
    moiety_stream handle;
    bool is_held;
    bool is_capturing;
    bool is_retired; /* a pool was told; the handle is not to be named */
    /* Other held streams that its tail waits for. */
    stage_mask waits_for;
};

struct stage {
    struct stage_stream streams[STAGE_STREAMS];
};

/* Opens the stand-in, once per process, and makes the primary context of device
 * 0 current in the calling thread. False, and a message on stderr. */
bool stage_open(void);
/* The latter alone, in a further thread. */
bool stage_enter(void);

bool stage_init(struct stage *stage);
/* Lets everything go on first. */
void stage_fini(struct stage *stage);

static inline stage_mask stage_bit(unsigned index)
{
    return (stage_mask)(1U << index);
}

/* The held streams that a stream's tail comes after; and all held streams. */
stage_mask stage_pending(const struct stage *stage, unsigned index);
stage_mask stage_all_pending(const struct stage *stage);

/* Queues work on a stream and keeps it from starting. */
bool stage_hold(struct stage *stage, unsigned index);
bool stage_release(struct stage *stage, unsigned index);
/* While nothing is held: returns when all work is over. */
bool stage_settle(void);

/* A new stream in the place of one that is retired and not held. */
bool stage_replace(struct stage *stage, unsigned index);

bool stage_begin_capture(struct stage *stage, unsigned index);
bool stage_end_capture(struct stage *stage, unsigned index);
/* The one that captures, or STAGE_STREAMS. */
unsigned stage_capturing(const struct stage *stage);

/* An event at a stream's tail; NULL if the driver refused. */
moiety_event stage_record(const struct stage *stage, unsigned index);
bool stage_is_over(moiety_event event);
void stage_forget(moiety_event event);

/* Calls of cuStreamWaitEvent() so far, and objects that the driver has. */
uint64_t stage_stream_waits(void);
int64_t stage_live_objects(void);

#endif

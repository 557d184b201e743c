/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The device that the programs play with: streams of the stand-in, whose work
 * is done when the program says so, and a source of memory that has addresses
 * only, as nothing is ever written to them. Mapped pools, which take no source, have
 * the stand-in's memory. All tell the history what happens.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_DEVICE_H_
#define MOIETY_TESTS_OOM_ORACLE_DEVICE_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/moiety.h"
#include "tests/oom/oracle/judge/history.h"
#include "tests/truth/kit.h"

#define DEVICE_STREAMS 16U

struct device {
    struct history *history;
    bool is_mapped;
    CUstream streams[DEVICE_STREAMS];
    pthread_mutex_t stream_locks[DEVICE_STREAMS];
    bool is_busy[DEVICE_STREAMS]; /* written under the stream's lock */
    pthread_mutex_t lock;         /* of the source */
    uint32_t unit_count;
    uint32_t next_unit;
    bool *is_unit_used;
    /* Of a mapped pool; one at a time is told. */
    uint32_t segment_count;
    uint64_t leaving;       /* address of the handle that went last, */
    uint64_t leaving_bytes; /* or 0 */
};

/* Finds the stand-in's controls; false after saying why there are none. */
bool device_find_controls(void);

void device_init(struct device *device);
void device_fini(struct device *device);

/* A new history, and memory for a pool of up to `limit_bytes`, unless it is mapped. */
void device_begin(struct device *device, struct history *history,
                  uint64_t limit_bytes);
/* All work has to be done, and all memory back. */
void device_end(struct device *device);

moiety_source device_source(struct device *device);

/* Notes the handles of a mapped pool, which are the driver's memory. */
void device_watch(struct device *device, moiety_pool *pool);
/* The stream for which this thread allocates from now on, as memory moves for it. */
void device_allocates_for(uint32_t stream);

/* Queues work on a stream, which is held until it is to be done. */
void device_queue(struct device *device, uint32_t stream);
/* Lets a stream do all that is queued on it, and waits for that. */
void device_finish(struct device *device, uint32_t stream);
void device_finish_all(struct device *device);

#endif

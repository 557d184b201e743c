/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Replays a trace on a subject that has started. Three ways to do it: on one
 * thread in the trace's order, each call timed; on a thread for each of the
 * trace's, each call timed; in the trace's order by a thread for each of the
 * trace's, with a look at the subject's memory after each allocation.
 */
#ifndef MOIETY_BENCH_REPLAY_RUN_H_
#define MOIETY_BENCH_REPLAY_RUN_H_

#include "bench/base/histogram.h"
#include "bench/replay/trace/source.h"
#include "bench/subjects/subject.h"

struct replay_timing {
    struct histogram allocs; /* in the clock's ticks, as if they were ps */
    struct histogram frees;
    double ns_per_tick;
    uint64_t wall_ns;
    uint64_t ooms;
};

struct replay_sample {
    uint64_t op;
    uint64_t time_ns;
    uint64_t live_bytes; /* as asked for */
    struct subject_memory memory;
};

struct replay_footprint {
    struct replay_sample peak; /* the first at which most was reserved */
    struct replay_sample *samples;
    uint64_t sample_count;
    uint64_t sample_room; /* that are wanted, about evenly over the trace */
    uint64_t peak_live_bytes;
    uint64_t driver_calls;
    uint64_t ooms;
};

struct replay_block {
    uint64_t address;
    uint64_t size_bytes; /* as asked for */
};

/* All: NULL, or why it could not be done. The subject was started for
 * `source->run_threads`, up to REPLAY_THREADS_MAX. What is live at the end is freed. */

/* `is_concurrent`: threads keep their own order, and a free waits for its
 * allocation. Before each call the thread touches so many pages of other memory: touch.h. */
const char *replay_run_timed(const struct subject *subject,
                             struct replay_source *source, bool is_concurrent,
                             uint32_t touch_pages, struct replay_timing *out);

/* `out->samples` has room for `out->sample_room` and one more. */
const char *replay_run_footprint(const struct subject *subject,
                                 struct replay_source *source,
                                 struct replay_footprint *out);

/* Whether no allocation fails. Stops at the first that does. */
const char *replay_run_passes(const struct subject *subject,
                              struct replay_source *source, bool *out);

/* What is live after the call with this number, which `at` is called with; the
 * subject is as it is then. */
typedef void replay_look(void *context, const struct replay_block *blocks,
                         uint32_t block_count);
const char *replay_run_until(const struct subject *subject,
                             struct replay_source *source, uint64_t op,
                             replay_look *at, void *context);

#endif

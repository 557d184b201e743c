/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The smallest limit at which a trace passes, and whether it passes above, too.
 */
#ifndef MOIETY_BENCH_REPLAY_BISECT_H_
#define MOIETY_BENCH_REPLAY_BISECT_H_

#include "bench/replay/trace/source.h"
#include "bench/subjects/subject.h"

/* Exact to 1/1024 of what is live at most, or 2 MiB if that is more; a limit
 * that passes. Where less passes and more does not, as can be of any allocator,
 * it is one of the borders. `reserved_bytes`: what it had without a limit.
 * `out`: SUBJECT_UNKNOWN if it fails with four times that, too. NULL, or why it
 * could not be done. */
const char *replay_bisect(const struct subject *subject,
                          const struct subject_setup *setup,
                          struct replay_source *source, uint64_t reserved_bytes,
                          uint64_t *out);

/* A trace may fail at a limit although it passes with less: blocks lie elsewhere. */
struct replay_fit {
    uint64_t limit_bytes; /* it passes there, and at all limits tried above */
    uint64_t tried_to_bytes; /* the highest */
    uint64_t step_bytes;     /* between two of them */
    uint64_t tried_count;
};

/* Tries limits from a twentieth above `from_bytes` downwards, to the first at which
 * it fails. Where it fails at the highest, that is raised; limit_bytes is
 * SUBJECT_UNKNOWN if that does not help. NULL, or why it could not be done. */
const char *replay_fit_verify(const struct subject *subject,
                              const struct subject_setup *setup,
                              struct replay_source *source, uint64_t from_bytes,
                              struct replay_fit *out);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The smallest limit at which a trace passes.
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

#endif

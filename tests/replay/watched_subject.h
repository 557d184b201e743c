/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A subject under watch: what it hands out must lie in its segments and be
 * nobody else's, and it may have no more of its driver than it was limited to.
 */
#ifndef MOIETY_TESTS_REPLAY_WATCHED_SUBJECT_H_
#define MOIETY_TESTS_REPLAY_WATCHED_SUBJECT_H_

#include <cstdint>

#include "bench/subjects/subject.h"

namespace replay_test
{

// Ends the process where there is no such subject.
const struct subject *SubjectNamed(const char *name);

// The same under watch; one at a time.
const struct subject *Watched(const struct subject *subject);

struct Watch {
    uint64_t allocs;
    uint64_t frees;
    uint64_t failed; // allocations
    uint64_t overlaps;
    uint64_t outside; // of all segments
    uint64_t over_limit;
    uint64_t unequal; // what is measured does not add up
    uint64_t live_at_stop;
};

// Since Watched().
Watch WatchNow();

} // namespace replay_test

#endif

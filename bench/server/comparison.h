/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Subjects that serve the same requests by turns, in one process.
 */
#ifndef MOIETY_BENCH_SERVER_COMPARISON_H_
#define MOIETY_BENCH_SERVER_COMPARISON_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/server/options.h"
#include "bench/server/staging.h"
#include "bench/server/tally.h"

#define SERVER_ROUNDS 4U
#define SERVER_STORY_BYTES 160

/* What became of one subject. */
struct server_total {
    const struct server_subject *subject;
    struct server_tally tally;
    struct server_calls calls;
    double seconds; /* that it served */
    uint64_t next_request;
    uint64_t peak_bytes;
    uint64_t lost_bytes; /* never freed */
    char story[SERVER_STORY_BYTES];
};

/* What came out: a total for each subject of the options, and the staging that
 * they shared. */
struct server_outcome {
    struct server_total totals[SERVER_SUBJECTS_MAX];
    struct server_staging_facts staging;
};

/* Fills `*out`, all 0 before, and shows on standard output how it goes. False
 * when a call failed, which was then said on stderr. Wrong and lost bytes are
 * for the caller to find. */
bool server_compare(const struct server_options *options,
                    const moiety_caps *caps, struct server_outcome *out);

#endif

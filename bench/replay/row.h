/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The result of a replay as an object of JSON. docs/dev/replay.md has its fields.
 */
#ifndef MOIETY_BENCH_REPLAY_ROW_H_
#define MOIETY_BENCH_REPLAY_ROW_H_

#include <stdio.h>

#include "bench/replay/bisect.h"
#include "bench/replay/options.h"
#include "bench/replay/run.h"

struct replay_piece {
    uint64_t address;
    uint64_t size_bytes;
};

struct replay_pieces {
    struct replay_piece *pieces;
    size_t count;
    size_t room;
};

/* What was not measured is NULL. */
struct replay_row {
    const struct replay_options *options;
    const struct subject *subject;
    const struct replay_source *source;
    const char *path;
    const char *refused; /* why nothing else is there */
    const struct replay_timing *timing;
    const struct replay_footprint *footprint;
    const struct replay_pieces *segments;
    const struct replay_pieces *blocks;
    uint64_t
        smallest_limit_bytes; /* SUBJECT_UNKNOWN: not looked for, or none */
    const struct replay_fit *fit;
    uint64_t releases; /* of streams that were held */
};

void replay_row_write(FILE *file, const struct replay_row *row);

/* Of a trace that is only read. */
void replay_row_write_trace(FILE *file, const char *path,
                            const struct replay_source *source);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A mix of blocks that one thread allocates and frees on one stream: places,
 * each empty or with a block, of which one is chosen at random at each step. An
 * empty one gets a block, whose size is equally likely on a logarithmic scale; a
 * full one loses it. What a program with few, large, short-lived buffers does:
 * no size comes twice, and no lifetime has to do with a size.
 *
 * It does not show programs that repeat themselves, as the steps of a training
 * do, nor many small blocks.
 */
#ifndef MOIETY_BENCH_REPLAY_MIX_H_
#define MOIETY_BENCH_REPLAY_MIX_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MIX_NAME_BYTES 64U
#define MIX_PLACES_MAX 4096U
#define MIX_BYTES_MAX (UINT64_C(1) << 40)
#define MIX_STEPS_MAX 1000000U

struct mix {
    char name[MIX_NAME_BYTES];
    uint32_t places;
    uint64_t least_bytes;
    uint64_t most_bytes;
    uint64_t seed; /* not 0 */
    uint32_t steps;
};

/* The sets of mixes that have names. NULL ends them. */
struct mix_set {
    const char *name;
    const char *description;
    const struct mix *mixes;
    uint32_t count;
};

extern const struct mix_set mix_sets[];

/* "PLACES:LEAST:MOST:SEED:STEPS", all numbers. False: it is none. */
bool mix_parse(const char *text, struct mix *out);

/* As a trace, docs/dev/trace-format.md. False: it could not be written, or
 * memory is exhausted. */
bool mix_write(const struct mix *mix, FILE *file);

#ifdef __cplusplus
}
#endif

#endif

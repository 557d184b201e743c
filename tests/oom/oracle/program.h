/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Programs that can be played again, in whole or in part: a step means the same
 * whatever was left out before it. Blocks are in numbered slots; a step that
 * allocates into a full slot or frees an empty one does nothing.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_PROGRAM_H_
#define MOIETY_TESTS_OOM_ORACLE_PROGRAM_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/oom/oracle/play.h"

#define PROGRAM_SLOTS 1024U

enum step_kind {
    STEP_ALLOC,  /* for the stream, into the slot */
    STEP_FREE,   /* the slot's block */
    STEP_QUEUE,  /* work on the stream */
    STEP_FINISH, /* the stream's work */
    STEP_END     /* the thread; another takes its place */
};

struct step {
    enum step_kind kind;
    uint32_t thread;
    uint32_t stream;
    uint32_t slot;
    enum how how;
    uint32_t other; /* stream of a recorded use */
    uint64_t size_bytes;
};

struct program {
    uint64_t seed;
    struct chances chances;
    struct setting setting;
    size_t count;
    size_t capacity;
    struct step *steps;
};

/* A random program of `step_count` steps or a few more. */
struct program program_make(uint64_t seed, size_t step_count,
                            const struct chances *chances);
struct program program_copy(const struct program *program);
void program_free(struct program *program);

/* Leaves out steps from `first` on. */
void program_cut(struct program *program, size_t first, size_t count);

/* Prints the pool and the last `most` steps. */
void program_print(const struct program *program, size_t most, FILE *out);

#endif

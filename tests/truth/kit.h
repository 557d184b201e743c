/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What programs that load a pool with threads have in common: arguments, the
 * driver's entries, a clock and random numbers.
 */
#ifndef MOIETY_TESTS_TRUTH_KIT_H_
#define MOIETY_TESTS_TRUTH_KIT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/stats.h"
#include "moiety/stream.h"
#include "pool/driver/cuda_abi.h"
#include "tests/support/tools/random.h"

enum exit_code {
    EXIT_RIGHT = 0,
    EXIT_WRONG = 1,     /* what the program looks for was found */
    EXIT_USAGE = 2,     /* an argument that is not accepted */
    EXIT_NO_DRIVER = 3, /* no driver or device that was asked for */
    EXIT_DRIVER = 4,    /* the driver refused what it should do */
};

/* An argument "--name=VALUE": a number from least to most, or a text. */
struct argument {
    const char *name;
    uint64_t *number; /* or NULL */
    uint64_t least;
    uint64_t most;
    const char **text; /* or NULL */
};

/* Reads arguments by a table that ends with an empty row. Returns false after
 * saying what is wrong with one, and then `usage`. */
bool kit_arguments(int argc, char **argv, const struct argument *table,
                   const char *usage);

/* The driver's entries, from the table that the pool itself calls through. */
struct kit_driver {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    CUresult(*base) parameters;
#include "pool/driver/cuda_entries.inc"
};
extern struct kit_driver cu;

/* Opens the driver `choice`, or the one that MOIETY_DRIVER names, prints which
 * it is, and makes the first device's primary context current. Returns it, or
 * NULL after saying why not. */
CUcontext kit_open_driver(const char *choice);

/* Ends the process unless a call of the driver succeeded. */
#define MUST(call) kit_must(call, #call)
void kit_must(CUresult code, const char *call);

/* A stream; every fourth waits for the legacy stream's work. */
CUstream kit_create_stream(uint64_t random);

/* Ends the process unless pthread_create(), or what else there has to be, did
 * what it should. */
void kit_require(bool condition, const char *what);

uint64_t kit_now_ns(void);
void kit_pause_us(long duration_us);

/* Prints a snapshot of the pool's numbers, those that are not 0. */
void kit_print_stats(moiety_pool *pool);

#endif

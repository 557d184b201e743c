/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs a program and reads what it prints.
 */
#ifndef MOIETY_BENCH_BASE_SPAWN_H_
#define MOIETY_BENCH_BASE_SPAWN_H_

#include <stdbool.h>
#include <stdint.h>

/* How it ended, unless with an exit status. */
#define SPAWN_ENDED (-1)       /* by a signal, or it could not be started */
#define SPAWN_OVERRAN (-2)     /* killed: its time was over */
#define SPAWN_INTERRUPTED (-3) /* killed: somebody wants us to end */

struct spawn {
    char *const *argv; /* found as a shell would find it */
    bool is_quiet;     /* its standard error is nobody's, else ours */
    /* Each line of its standard output, while it runs. */
    void (*take)(const char *line, void *context);
    void *context;
    /* When it is killed, by clock_now_ns(); `take` may move it. 0: never. */
    uint64_t deadline_ns;
};

/* Runs it to its end. Its exit status, or one of the above. */
int spawn_run(struct spawn *spawn);

/* From now on SIGINT and SIGTERM do not end us, but the program that runs. */
void spawn_catch_signals(void);
bool spawn_is_interrupted(void);

#endif

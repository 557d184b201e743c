/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs a program and reads what it prints.
 */
#ifndef BINADE_BENCH_SPAWN_H_
#define BINADE_BENCH_SPAWN_H_

/* Runs `argv`, found as a shell would find it, and calls `take` with each line
 * of its standard output while it runs. Its exit status, or -1: it could not be
 * started, or a signal ended it. Whether its standard error is ours or
 * nobody's: `is_quiet`. */
int spawn_lines(char *const argv[], int is_quiet,
                void (*take)(const char *line, void *context), void *context);

#endif

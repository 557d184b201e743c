/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The process that replays one trace on one subject.
 */
#ifndef MOIETY_BENCH_REPLAY_CHILD_H_
#define MOIETY_BENCH_REPLAY_CHILD_H_

#include <stdio.h>

#include "bench/replay/options.h"

/* Writes a row, also of a subject that cannot be replayed on: then it is
 * REPLAY_EXIT_FAILED. */
enum replay_exit replay_child_run(const struct replay_options *options,
                                  FILE *file);

#endif

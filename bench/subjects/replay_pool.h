/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool behind the subjects "binade" and "binade-nocache", for programs that
 * also call what other subjects do not have.
 */
#ifndef BINADE_BENCH_SUBJECTS_REPLAY_POOL_H_
#define BINADE_BENCH_SUBJECTS_REPLAY_POOL_H_

#include <stdbool.h>

#include <binade/pool.h>

/* Valid while such a subject runs. */
binade_pool *replay_pool(void);

/* By a subject's name: it is one of these. */
bool replay_pool_is_behind(const char *name);

#endif

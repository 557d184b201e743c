/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool behind the subjects "binade", "binade-nocache" and "binade-mapped", for
 * programs that also call what other subjects do not have.
 */
#ifndef BINADE_BENCH_SUBJECTS_POOL_H_
#define BINADE_BENCH_SUBJECTS_POOL_H_

#include <stdbool.h>

#include <binade/pool.h>

/* Valid while such a subject runs. */
binade_pool *subject_binade_pool(void);

/* By a subject's name: it is one of these. */
bool subject_is_binade(const char *name);

#endif

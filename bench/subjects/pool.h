/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool behind the subjects "moiety", "moiety-nocache" and "moiety-mapped", for
 * programs that also call what other subjects do not have.
 */
#ifndef MOIETY_BENCH_SUBJECTS_POOL_H_
#define MOIETY_BENCH_SUBJECTS_POOL_H_

#include <stdbool.h>

#include <moiety/pool.h>

/* Valid while such a subject runs. */
moiety_pool *subject_moiety_pool(void);

/* By a subject's name: it is one of these. */
bool subject_is_moiety(const char *name);

#endif

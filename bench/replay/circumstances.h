/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * On what, of what and when a row was measured.
 */
#ifndef MOIETY_BENCH_REPLAY_CIRCUMSTANCES_H_
#define MOIETY_BENCH_REPLAY_CIRCUMSTANCES_H_

#include <stdio.h>

#include "bench/subjects/subject.h"

/* Keys with their values, after others. `commit` NULL: what git says. */
void replay_circumstances_write(FILE *file, const struct subject *subject,
                                const char *commit);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Text of a trace, or of a driver, as JSON.
 */
#ifndef MOIETY_BENCH_REPLAY_JSON_H_
#define MOIETY_BENCH_REPLAY_JSON_H_

#include <stdio.h>

/* Any bytes: what is no UTF-8 becomes question marks. */
void replay_json_text(FILE *file, const char *text);

#endif

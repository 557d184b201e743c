/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Values of JSON.
 */
#ifndef BINADE_BENCH_REPLAY_JSON_H_
#define BINADE_BENCH_REPLAY_JSON_H_

#include <stdint.h>
#include <stdio.h>

/* Any bytes: what is no UTF-8 becomes question marks. */
void replay_json_text(FILE *file, const char *text);
/* SUBJECT_UNKNOWN becomes null. */
void replay_json_bytes(FILE *file, uint64_t number);

#endif

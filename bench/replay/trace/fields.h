/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The parts that lines of a trace are made of.
 */
#ifndef MOIETY_BENCH_REPLAY_TRACE_FIELDS_H_
#define MOIETY_BENCH_REPLAY_TRACE_FIELDS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each moves `*at` behind what it takes; false where that is not there. */

/* Decimal below 2^64, without sign and without leading zeros. */
bool replay_take_number(const char **at, uint64_t *out);
bool replay_take_space(const char **at);

/* 1 to 200 bytes of UTF-8 without control characters and without a space at
 * either end. */
bool replay_is_text(const char *text, size_t length_bytes);

/* CUDA's handle of its word or of 0x and hexadecimal digits. */
bool replay_is_stream(const char *text, uint64_t *out);

#endif

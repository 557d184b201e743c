/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Results, as a JSON object a line. A row is begun, gets what was found, and is
 * ended in one of three ways; nothing that was tried is without a row.
 */
#ifndef MOIETY_BENCH_HOST_ROW_H_
#define MOIETY_BENCH_HOST_ROW_H_

#include <stdbool.h>
#include <stdint.h>

/* What stands in all rows from now on. */
void host_row_process(uint64_t number);

/* `subject` NULL: all that `what` has. */
void host_row_begin(const char *what, const char *subject);
void host_row_text(const char *key, const char *value);
void host_row_count(const char *key, uint64_t value);
void host_row_flag(const char *key, bool value);
/* Two digits behind the point for 100 and more, else four. */
void host_row_number(const char *key, double value);

/* It was measured, and came out right. */
void host_row_end(void);
void host_row_fail(const char *why);
/* It cannot be measured here, or there was no time: nobody's fault. */
void host_row_skip(const char *why);

/* Whether this line is a row of a failure. */
bool host_row_is_failure(const char *line);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The one clock of all measurements and deadlines, the same in all processes.
 */
#ifndef MOIETY_BENCH_BASE_CLOCK_H_
#define MOIETY_BENCH_BASE_CLOCK_H_

#include <stdint.h>

/* Nanoseconds since some moment in the past. */
uint64_t clock_now_ns(void);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The results as JSON Lines: one object a measurement.
 */
#ifndef BINADE_BENCH_REPORT_H_
#define BINADE_BENCH_REPORT_H_

#include <stdio.h>

#include "bench/matrix.h"

/* The number of objects written. */
uint32_t report_write(FILE *file, const struct matrix *matrix);

#endif

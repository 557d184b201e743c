/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Measurements in order, for medians and extremes.
 */
#ifndef MOIETY_BENCH_BASE_NUMBERS_H_
#define MOIETY_BENCH_BASE_NUMBERS_H_

#include <stddef.h>

/* The least first; none is NaN. */
void numbers_sort(double *numbers, size_t count);

/* Of sorted ones: the one in the middle, or between the two there. */
double numbers_median(const double *sorted, size_t count);

#endif

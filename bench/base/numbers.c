/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/base/numbers.h"

#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

void numbers_sort(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof(*numbers), compare);
}

double numbers_median(const double *sorted, size_t count)
{
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

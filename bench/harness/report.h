/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The results as JSON Lines: an object for each cell of a subject, with the
 * medians over its processes; also for one that could not be measured.
 */
#ifndef MOIETY_BENCH_HARNESS_REPORT_H_
#define MOIETY_BENCH_HARNESS_REPORT_H_

#include <stdio.h>

#include "bench/base/machine.h"
#include "bench/harness/matrix.h"

/* The number of cells that were measured. */
uint32_t report_write(FILE *file, const struct matrix *matrix,
                      const struct machine *machine);

/* The last measurement of a cell alone, written out at once: what is there if
 * we do not live to see the end. */
void report_write_last(FILE *file, const struct matrix *matrix,
                       const struct machine *machine, uint32_t subject_index,
                       uint32_t cell_index);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The process that runs one subject, and what it tells the one that started it:
 * lines of text on its standard output.
 *
 *   runs IS_STANDIN IS_SIMULATED TEXT   the subject started; its driver
 *   refuses TEXT                        it did not, and why
 *   cell INDEX ...                      a measurement
 *   fails INDEX TEXT                    a cell without one
 */
#ifndef BINADE_BENCH_CHILD_H_
#define BINADE_BENCH_CHILD_H_

#include "bench/cell.h"
#include "bench/options.h"

#define CHILD_TEXT_BYTES 512

enum child_verb {
    CHILD_RUNS,
    CHILD_REFUSES,
    CHILD_CELL,
    CHILD_FAILS,
    CHILD_NONSENSE, /* no line of ours */
};

struct child_line {
    enum child_verb verb;
    uint32_t cell_index;
    bool is_standin;
    bool is_simulated;
    char text[CHILD_TEXT_BYTES];
    struct measurement measurement;
};

/* Runs all cells that the subject can run. The exit status. */
int child_run(const struct options *options);

void child_read_line(const char *line, struct child_line *out);

#endif

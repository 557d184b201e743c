/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The process that runs one subject, and what it tells the one that started it:
 * lines of text on its standard output.
 *
 *   runs IS_STANDIN IS_SIMULATED TEXT   the subject started; its driver
 *   refuses TEXT                        it did not, and why
 *   begin INDEX DEADLINE_NS             a cell; kill us if it takes longer
 *   cell INDEX ...                      its measurement
 *   fails INDEX TEXT                    a cell without one
 *
 * The process may be killed at any moment. It divides its own time among its
 * cells as they come: a cell may take more than its share, at the cost of those
 * that follow. When its time is over it ends, with cells left or not.
 */
#ifndef MOIETY_BENCH_HARNESS_CHILD_H_
#define MOIETY_BENCH_HARNESS_CHILD_H_

#include "bench/harness/cell.h"
#include "bench/harness/options.h"

#define CHILD_TEXT_BYTES 512

/* The least time after which a step of a process (its start, a cell, its end)
 * is believed to be stuck. */
#define CHILD_PATIENCE_NS UINT64_C(3000000000)

enum child_verb {
    CHILD_RUNS,
    CHILD_REFUSES,
    CHILD_BEGIN,
    CHILD_CELL,
    CHILD_FAILS,
    CHILD_NONSENSE, /* no line of ours */
};

struct child_line {
    enum child_verb verb;
    uint32_t cell_index;
    uint64_t deadline_ns;
    bool is_standin;
    bool is_simulated;
    char text[CHILD_TEXT_BYTES];
    struct measurement measurement;
};

/* Runs the cells that the options name. The exit status. */
int child_run(const struct options *options);

void child_read_line(const char *line, struct child_line *out);

#endif

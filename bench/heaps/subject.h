/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The machine as a subject, for one that replays: on offsets without memory behind
 * them, with events of the device's streams.
 */
#ifndef MOIETY_BENCH_HEAPS_SUBJECT_H_
#define MOIETY_BENCH_HEAPS_SUBJECT_H_

#include "bench/heaps/machine.h"
#include "bench/subjects/subject.h"

/* The subject that follows these rules when it starts. */
const struct subject *heap_subject(const struct heap_rules *rules);

/* The figures of the last measurement, and of the end once it has stopped. */
const struct heap_figures *heap_subject_figures(void);

#endif

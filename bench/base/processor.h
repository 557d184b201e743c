/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads on processors of their own.
 */
#ifndef MOIETY_BENCH_BASE_PROCESSOR_H_
#define MOIETY_BENCH_BASE_PROCESSOR_H_

#include <stdbool.h>

/* Threads in order take processors in order, from the first again when there
 * are more threads. False: the calling thread runs where it did. */
bool processor_pin(unsigned index);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Work on a stream that takes a given time. On a GPU it is fills of memory of
 * its own, whose size is found by measuring at the start, so that no kernel
 * has to be compiled; several streams share the memory's bandwidth, as real
 * work does. The stand-in calls a function that sleeps.
 *
 * A real stream takes about a thousand operations that have not begun, and the
 * call that queues one more waits until one has. Work that is queued here does
 * begin, so such a call ends.
 */
#ifndef MOIETY_BENCH_LAG_WORK_H_
#define MOIETY_BENCH_LAG_WORK_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/lag/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the current context. `by_fills`: not by a function that sleeps. NULL, or
 * why that is not possible; then there is nothing to stop. */
const char *lag_work_start(const struct lag_plan *plan, bool by_fills);

/* Queues what the plan says behind a call; `address` 0: behind one that has
 * allocated nothing. Ends the process where the driver refuses, since no
 * number would be worth having. */
void lag_work_queue(const struct lag_plan *plan, void *stream, uint64_t address,
                    size_t size_bytes);

/* After all work is over. */
void lag_work_stop(void);

#ifdef __cplusplus
}
#endif

#endif

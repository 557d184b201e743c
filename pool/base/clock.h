/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The clock for waits: it never goes back, and is not the time of day.
 */
#ifndef MOIETY_POOL_BASE_CLOCK_H_
#define MOIETY_POOL_BASE_CLOCK_H_

#include <stdint.h>

uint64_t moietyi_now_ns(void);
/* Sleeps for about so long; a signal may end it early. */
void moietyi_nap(long duration_ns);
/* The same, and twice as long the next time, until that is `most_ns`. */
void moietyi_nap_longer(long *duration_ns, long most_ns);
/* One round of a wait for a thread that needs an instant more; `rounds` is 0 at
 * first. Yields, and after a while sleeps: a thread of lower priority has no turn
 * as long as this one, under SCHED_FIFO, only yields. */
void moietyi_let_others(unsigned *rounds);

#endif

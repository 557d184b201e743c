/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The clock for waits: it never goes back, and is not the time of day.
 */
#ifndef MOIETY_POOL_BASE_CLOCK_H_
#define MOIETY_POOL_BASE_CLOCK_H_

#include <stdbool.h>
#include <stdint.h>

uint64_t moietyi_now_ns(void);
/* Sleeps for about so long; a signal may end it early. */
void moietyi_nap(long duration_ns);
/* Lets other threads run, if there are any, and returns as soon as so long has
 * passed: for waits too short to sleep. */
void moietyi_yield_for(uint64_t duration_ns);
/* Waits between two looks at work that may be over in some microseconds, twice
 * as long each time; `waited_ns` is 0 at first. False, after 31 us: stop
 * waiting. */
bool moietyi_wait_briefly(uint64_t *waited_ns);
/* The same, and twice as long the next time, until that is `most_ns`. Below 20 us it
 * yields, as a thread that sleeps is away for longer. */
void moietyi_nap_longer(long *duration_ns, long most_ns);
/* One round of a wait for a thread that needs an instant more; `rounds` is 0 at
 * first. Yields, and after a while sleeps: a thread of lower priority has no turn
 * as long as this one, under SCHED_FIFO, only yields. */
void moietyi_let_others(unsigned *rounds);

/* Waits that the program may end early, by moiety_set_interrupt(): a wait asks
 * the function while it naps, and is overdue after its answer. */

/* Asks the thread's function, if it has one and has not asked it lately. With no
 * lock held, outside of slow paths. */
void moietyi_interrupt_ask(void);
/* Whether it has said that the thread's wait is to end. */
bool moietyi_is_interrupted(void);
/* That, or the time has come. */
bool moietyi_is_overdue(uint64_t end_ns);

#endif

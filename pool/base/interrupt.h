/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Waits that the program may end early: moiety_set_interrupt(). A wait asks while
 * it naps, and is overdue from the answer on.
 */
#ifndef MOIETY_POOL_BASE_INTERRUPT_H_
#define MOIETY_POOL_BASE_INTERRUPT_H_

#include <stdbool.h>
#include <stdint.h>

/* Asks the thread's function, if it has one and has not asked it lately. With no
 * lock held, outside of slow paths. */
void moietyi_interrupt_ask(void);
/* Whether it has said that the thread's wait is to end. */
bool moietyi_is_interrupted(void);
/* That, or the time has come. */
bool moietyi_is_overdue(uint64_t end_ns);

#endif

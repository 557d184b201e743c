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

#endif

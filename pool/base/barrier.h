/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A memory barrier in all running threads of the process, paid for by the one
 * who asks: membarrier(2), private and expedited. Not every container allows
 * it.
 */
#ifndef MOIETY_POOL_BASE_BARRIER_H_
#define MOIETY_POOL_BASE_BARRIER_H_

#include <stdbool.h>

/* Whether the kernel lets the process do this; it is asked once. Any thread. */
bool moietyi_barrier_is_there(void);

/* When it returns, each other thread of the process has passed a full barrier
 * since the call began. False: the kernel refused, nothing is known. */
bool moietyi_barrier_all(void);

#endif

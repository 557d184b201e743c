/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Counters of one writer, which anybody may read.
 */
#ifndef MOIETY_POOL_BASE_COUNTER_H_
#define MOIETY_POOL_BASE_COUNTER_H_

#include <stdatomic.h>
#include <stdint.h>

/* Edge CT, relaxed: the owner alone writes; stats read. */
typedef _Atomic uint64_t moietyi_counter;

static inline void moietyi_count_add(moietyi_counter *counter, uint64_t more)
{
    /* CT: the owner alone writes, so this needs no read-modify-write. */
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
        memory_order_relaxed);
}

static inline uint64_t moietyi_count_read(const moietyi_counter *counter)
{
    /* CT: relaxed. */
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/standin/calls.h"

#include <stdatomic.h>

/* Edge: none; relaxed: sums that are exact once the callers are at rest; nothing is
 * published through them. */
static _Atomic uint64_t counts[ENTRY_COUNT];

void calls_count(enum standin_entry entry)
{
    atomic_fetch_add_explicit(&counts[entry], 1, memory_order_relaxed);
}

void calls_reset(void)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        atomic_store_explicit(&counts[i], 0, memory_order_relaxed);
}

uint64_t calls_of(enum standin_entry entry)
{
    return atomic_load_explicit(&counts[entry], memory_order_relaxed);
}

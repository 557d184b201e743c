/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The prologue of every entry, and the counts of calls.
 */
#include "pool/standin/entries/entry.h"

#include <stdatomic.h>

#include "pool/standin/settings/cost.h"
#include "pool/standin/settings/fault.h"
#include "pool/standin/settings/settings.h"
#include "pool/standin/work/capture.h"

CUresult standin_enter(enum standin_entry entry, unsigned needs)
{
    (void)settings_get(); /* the fault plan may name any entry */
    calls_count(entry);
    CUresult code = standin_refusal();
    if (code != CUDA_SUCCESS)
        return code;
    if (thread_state()->is_in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    cost_charge(entry);
    code = fault_take(entry);
    if (code != CUDA_SUCCESS)
        return code;
    if ((needs & NEEDS_INIT) && !standin_is_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    return needs & BREAKS_CAPTURE ? capture_gate() : CUDA_SUCCESS;
}

/* Edge: none; relaxed: sums that are exact once the callers are at rest; nothing
 * is published through them. */
static _Atomic uint64_t counts[ENTRY_COUNT];

/* Edge: none; relaxed: a function of the program's, which is there before. */
static _Atomic(void (*)(const char *)) watcher;

void calls_watch(void (*called)(const char *entry))
{
    /* relaxed: as above. */
    atomic_store_explicit(&watcher, called, memory_order_relaxed);
}

void calls_count(enum standin_entry entry)
{
    /* relaxed: as above. */
    void (*called)(const char *) =
        atomic_load_explicit(&watcher, memory_order_relaxed);
    if (called)
        called(entry_base(entry));
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

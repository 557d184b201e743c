/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The controls that standin.h describes.
 */
#include "pool/standin/standin.h"

#include <string.h>

#include "pool/standin/base/context.h"
#include "pool/standin/base/names.h"
#include "pool/standin/entries/table.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/settings/fault.h"
#include "pool/standin/streams/engine.h"
#include "pool/standin/vmm/vmm.h"

#define VERSION "0.1.0"

STANDIN_EXPORT moiety_standin_version_fn moiety_standin_version;
STANDIN_EXPORT moiety_standin_set_faults_fn moiety_standin_set_faults;
STANDIN_EXPORT moiety_standin_fault_error_fn moiety_standin_fault_error;
STANDIN_EXPORT moiety_standin_calls_fn moiety_standin_calls;
STANDIN_EXPORT moiety_standin_unimplemented_calls_fn
    moiety_standin_unimplemented_calls;
STANDIN_EXPORT moiety_standin_reset_calls_fn moiety_standin_reset_calls;
STANDIN_EXPORT moiety_standin_waits_fn moiety_standin_waits;
STANDIN_EXPORT moiety_standin_is_implemented_fn moiety_standin_is_implemented;
STANDIN_EXPORT moiety_standin_watch_fn moiety_standin_watch;
STANDIN_EXPORT moiety_standin_hold_fn moiety_standin_hold;
STANDIN_EXPORT moiety_standin_release_fn moiety_standin_release;
STANDIN_EXPORT moiety_standin_used_bytes_fn moiety_standin_used_bytes;
STANDIN_EXPORT moiety_standin_live_fn moiety_standin_live;

const char *moiety_standin_version(void)
{
    return VERSION;
}

int moiety_standin_set_faults(const char *plan)
{
    return fault_set_plan(plan) ? 0 : -1;
}

const char *moiety_standin_fault_error(void)
{
    return fault_error();
}

uint64_t moiety_standin_calls(const char *name)
{
    if (!name || !entry_name_is_known(name))
        return UINT64_MAX;
    uint64_t sum = 0;
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (entry_has_name((enum standin_entry)i, name))
            sum += calls_of((enum standin_entry)i);
    return sum;
}

void moiety_standin_watch(void (*called)(const char *entry))
{
    calls_watch(called);
}

uint64_t moiety_standin_unimplemented_calls(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (!entry_row((enum standin_entry)i)->is_implemented)
            sum += calls_of((enum standin_entry)i);
    return sum;
}

void moiety_standin_reset_calls(void)
{
    calls_reset();
}

uint64_t moiety_standin_waits(void)
{
    standin_lock();
    uint64_t count = engine_wait_count();
    standin_unlock();
    return count;
}

int moiety_standin_is_implemented(const char *name)
{
    if (!name || !entry_name_is_known(name))
        return -1;
    for (int i = 0; i < ENTRY_COUNT; i++)
        if (entry_has_name((enum standin_entry)i, name) &&
            entry_row((enum standin_entry)i)->is_implemented)
            return 1;
    return 0;
}

int moiety_standin_hold(void *stream)
{
    if (standin_is_dead() || !standin_is_initialised())
        return -1;
    standin_lock();
    CUresult code = engine_hold(stream);
    standin_unlock();
    return code == CUDA_SUCCESS ? 0 : -1;
}

int moiety_standin_release(void *stream)
{
    if (standin_is_dead() || !standin_is_initialised())
        return -1;
    standin_lock();
    CUresult code = engine_release(stream);
    standin_unlock();
    return code == CUDA_SUCCESS ? 0 : -1;
}

size_t moiety_standin_used_bytes(int device)
{
    if (standin_is_dead() || !device_at(device))
        return SIZE_MAX;
    standin_lock();
    size_t used = memory_used_bytes(device);
    standin_unlock();
    return used;
}

static int64_t count_contexts(void)
{
    int64_t count = 0;
    for (struct CUctx_st *c = context_first(); c; c = c->next)
        count += c->is_alive;
    return count;
}

int64_t moiety_standin_live(const char *kind)
{
    if (!kind || standin_is_dead())
        return -1;
    standin_lock();
    int64_t count = strcmp(kind, "contexts") == 0 ? count_contexts() : -1;
    if (count < 0)
        count = engine_live(kind);
    if (count < 0)
        count = memory_live(kind);
    if (strcmp(kind, "vmm") == 0)
        count += (int64_t)physical_live();
    standin_unlock();
    return count;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "pool/driver/context.h"

#include <sys/mman.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/log.h"

binade_status binadei_context_init(struct binadei_context *context,
                                   const struct binadei_driver *driver,
                                   CUcontext handle, _Atomic uint64_t *mark,
                                   uint64_t mark_bit)
{
    context->driver = driver;
    context->handle = handle;
    context->id = 0;
    context->mark = mark;
    context->mark_bit = mark_bit;
    atomic_init(&context->why, BINADE_OK);
    return driver->cuCtxGetId
               ? BINADEI_CALL(driver, cuCtxGetId, (handle, &context->id))
               : BINADE_OK;
}

void binadei_context_lose(struct binadei_context *context, binade_status why)
{
    int alive = BINADE_OK;
    /* relaxed: the first reason stays, and says nothing of other memory. */
    bool is_first = atomic_compare_exchange_strong_explicit(
        &context->why, &alive, why, memory_order_relaxed, memory_order_relaxed);
    if (is_first && why == BINADE_E_CONTEXT_DESTROYED) {
        binadei_log(BINADE_LOG_ERROR,
                    "the CUDA context %p was reset or destroyed, and a pool's "
                    "memory with it",
                    (void *)context->handle);
    }
    /* AT, relaxed: a hit that does not see it yet touches no device memory. */
    atomic_fetch_or_explicit(context->mark, context->mark_bit,
                             memory_order_relaxed);
}

binade_status binadei_context_refuse(const struct binadei_context *context)
{
    binade_status why = (binade_status)atomic_load_explicit(
        &context->why, memory_order_relaxed);
    return binadei_fail(why, why == BINADE_E_DEINITIALIZED
                                 ? "the driver is shutting down"
                                 : "the pool's CUDA context was reset or "
                                   "destroyed, and its memory with it");
}

/* What an answer about the context itself means; BINADE_OK where it says
 * nothing of its end. */
static binade_status context_end_of(CUresult code)
{
    switch (code) {
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return BINADE_E_CONTEXT_DESTROYED;
    case CUDA_ERROR_DEINITIALIZED:
        return BINADE_E_DEINITIALIZED;
    default:
        return BINADE_OK;
    }
}

static bool context_is_mapped(const void *address)
{
    unsigned char residence;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)address & ~(page - 1);
    return mincore((void *)start, 1, &residence) == 0;
}

binade_status binadei_context_check(const struct binadei_driver *driver,
                                    CUcontext handle)
{
    unsigned long long id = 0;
    unsigned version = 0;
    if (!context_is_mapped(handle))
        return binadei_fail(BINADE_E_INVALID,
                            "%p is no CUDA context: nothing is mapped there",
                            (void *)handle);
    bool has_ids = driver->cuCtxGetId != NULL;
    CUresult code = has_ids ? driver->cuCtxGetId(handle, &id)
                            : driver->cuCtxGetApiVersion(handle, &version);
    if (context_end_of(code) == BINADE_E_CONTEXT_DESTROYED)
        return binadei_fail(BINADE_E_CONTEXT_DESTROYED,
                            "the CUDA context %p was destroyed, or is none",
                            (void *)handle);
    return binadei_driver_status(has_ids ? BINADEI_ENTRY_cuCtxGetId
                                         : BINADEI_ENTRY_cuCtxGetApiVersion,
                                 code);
}

/* An old driver tells the dead from the living, but not one that took the place
 * of another. What else it may answer, the section's own calls will say. */
binade_status binadei_context_ask(const struct binadei_driver *driver,
                                  CUcontext handle, unsigned long long id)
{
    unsigned long long found = 0;
    unsigned version = 0;
    if (!driver->cuCtxGetId)
        return context_end_of(driver->cuCtxGetApiVersion(handle, &version));
    CUresult code = driver->cuCtxGetId(handle, &found);
    return code == CUDA_SUCCESS && found != id ? BINADE_E_CONTEXT_DESTROYED
                                               : context_end_of(code);
}

static binade_status context_enter(struct binadei_context *context,
                                   CUcontext current,
                                   struct binadei_section *out)
{
    /* The section refuses in a child, and says so. */
    if (!binadei_is_forked() && !binadei_context_is_lost(context)) {
        binade_status why =
            binadei_context_ask(context->driver, context->handle, context->id);
        if (why != BINADE_OK)
            binadei_context_lose(context, why);
    }
    return binadei_context_is_lost(context)
               ? binadei_context_refuse(context)
               : binadei_section_enter(context->driver, current, out);
}

binade_status binadei_context_enter(struct binadei_context *context,
                                    struct binadei_section *out)
{
    return context_enter(context, context->handle, out);
}

binade_status binadei_context_watch(struct binadei_context *context,
                                    struct binadei_section *out)
{
    return context_enter(context, NULL, out);
}

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

moiety_status moietyi_context_init(struct moietyi_context *context,
                                   const struct moietyi_driver *driver,
                                   CUcontext handle, _Atomic uint64_t *mark,
                                   uint64_t mark_bit)
{
    context->driver = driver;
    context->handle = handle;
    context->id = 0;
    context->mark = mark;
    context->mark_bit = mark_bit;
    atomic_init(&context->why, MOIETY_OK);
    return driver->cuCtxGetId
               ? MOIETYI_CALL(driver, cuCtxGetId, (handle, &context->id))
               : MOIETY_OK;
}

void moietyi_context_lose(struct moietyi_context *context, moiety_status why)
{
    int alive = MOIETY_OK;
    /* relaxed: the first reason stays, and the mark below publishes it. */
    bool is_first = atomic_compare_exchange_strong_explicit(
        &context->why, &alive, why, memory_order_relaxed, memory_order_relaxed);
    if (is_first && why == MOIETY_E_CONTEXT_DESTROYED) {
        moietyi_log(MOIETY_LOG_ERROR,
                    "the CUDA context %p was reset or destroyed, and a pool's "
                    "memory with it",
                    (void *)context->handle);
    }
    /* LW.release: why. To a hit it says nothing else (AT): one that does not see
     * it yet touches no device memory. */
    atomic_fetch_or_explicit(context->mark, context->mark_bit,
                             memory_order_release);
}

moiety_status moietyi_context_refuse(const struct moietyi_context *context)
{
    /* LW.acquire: the caller may have seen no more than the mark. */
    (void)atomic_load_explicit(context->mark, memory_order_acquire);
    /* relaxed: the mark has published it, or the caller has read it before. */
    moiety_status why = (moiety_status)atomic_load_explicit(
        &context->why, memory_order_relaxed);
    return moietyi_fail(why, why == MOIETY_E_DEINITIALIZED
                                 ? "the driver is shutting down"
                                 : "the pool's CUDA context was reset or "
                                   "destroyed, and its memory with it");
}

/* The meaning of an answer about the context itself; MOIETY_OK if it does not
 * say that the context ended. */
static moiety_status context_end_of(CUresult code)
{
    switch (code) {
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return MOIETY_E_CONTEXT_DESTROYED;
    case CUDA_ERROR_DEINITIALIZED:
        return MOIETY_E_DEINITIALIZED;
    default:
        return MOIETY_OK;
    }
}

static bool context_is_mapped(const void *address)
{
    unsigned char residence;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)address & ~(page - 1);
    return mincore((void *)start, 1, &residence) == 0;
}

moiety_status moietyi_context_check(const struct moietyi_driver *driver,
                                    CUcontext handle)
{
    unsigned long long id = 0;
    unsigned version = 0;
    if (!context_is_mapped(handle))
        return moietyi_fail(MOIETY_E_INVALID,
                            "%p is no CUDA context: nothing is mapped there",
                            (void *)handle);
    bool has_ids = driver->cuCtxGetId != NULL;
    CUresult code = has_ids ? driver->cuCtxGetId(handle, &id)
                            : driver->cuCtxGetApiVersion(handle, &version);
    if (context_end_of(code) == MOIETY_E_CONTEXT_DESTROYED)
        return moietyi_fail(MOIETY_E_CONTEXT_DESTROYED,
                            "the CUDA context %p was destroyed, or is none",
                            (void *)handle);
    return moietyi_driver_status(has_ids ? MOIETYI_ENTRY_cuCtxGetId
                                         : MOIETYI_ENTRY_cuCtxGetApiVersion,
                                 code);
}

/* An old driver recognises a destroyed context, but not one that took its
 * place. Calls of the section find other errors. */
moiety_status moietyi_context_ask(const struct moietyi_driver *driver,
                                  CUcontext handle, unsigned long long id)
{
    unsigned long long found = 0;
    unsigned version = 0;
    if (!driver->cuCtxGetId)
        return context_end_of(driver->cuCtxGetApiVersion(handle, &version));
    CUresult code = driver->cuCtxGetId(handle, &found);
    return code == CUDA_SUCCESS && found != id ? MOIETY_E_CONTEXT_DESTROYED
                                               : context_end_of(code);
}

static moiety_status context_enter(struct moietyi_context *context,
                                   CUcontext current,
                                   struct moietyi_section *out)
{
    /* The section refuses in a child, and says so. */
    if (!moietyi_is_forked() && !moietyi_context_is_lost(context)) {
        moiety_status why =
            moietyi_context_ask(context->driver, context->handle, context->id);
        if (why != MOIETY_OK)
            moietyi_context_lose(context, why);
    }
    return moietyi_context_is_lost(context)
               ? moietyi_context_refuse(context)
               : moietyi_section_enter(context->driver, current, out);
}

moiety_status moietyi_context_enter(struct moietyi_context *context,
                                    struct moietyi_section *out)
{
    return context_enter(context, context->handle, out);
}

moiety_status moietyi_context_watch(struct moietyi_context *context,
                                    struct moietyi_section *out)
{
    return context_enter(context, NULL, out);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A context that memory of ours lies in, and whether it still is the one that
 * it was. A reset gives the same handle to a new context, in which old addresses
 * and events mean nothing, or something else: so before each section the driver
 * is asked who the context is, and once it is lost it is never used again.
 */
#ifndef BINADE_POOL_DRIVER_CONTEXT_H_
#define BINADE_POOL_DRIVER_CONTEXT_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"
#include "pool/driver/driver_table.h"
#include "pool/driver/section.h"

/* In its owner's storage. All but `why` is constant once initialised. */
struct binadei_context {
    const struct binadei_driver *driver;
    CUcontext handle;
    unsigned long long id; /* 0 where the driver has no ids */
    /* Edge AT, relaxed. Gets `mark_bit` when the context is lost. */
    _Atomic uint64_t *mark;
    uint64_t mark_bit;
    /* Edge: none; relaxed: it says nothing of other memory. A binade_status;
     * BINADE_OK while it is not lost. */
    atomic_int why;
};

/* Asks the driver who `handle` is. BINADE_OK, or what the driver said: then
 * there is nothing to end, and nothing is marked. */
BINADE_MUST_USE binade_status binadei_context_init(
    struct binadei_context *context, const struct binadei_driver *driver,
    CUcontext handle, _Atomic uint64_t *mark, uint64_t mark_bit);

/* Whether a context that the caller names can be used, as far as that can be
 * known without a crash: the driver looks into whatever it is given, so what is
 * not mapped is not passed on. BINADE_OK, BINADE_E_INVALID (nothing is mapped
 * there, or NULL), BINADE_E_CONTEXT_DESTROYED (or never was one), or what the
 * driver said. */
BINADE_MUST_USE binade_status
binadei_context_check(const struct binadei_driver *driver, CUcontext handle);

/* Asks the driver, in a process that has not forked, whether `handle` is the
 * context that had `id`. BINADE_OK, BINADE_E_CONTEXT_DESTROYED or
 * BINADE_E_DEINITIALIZED, without a message. */
BINADE_MUST_USE binade_status
binadei_context_ask(const struct binadei_driver *driver, CUcontext handle,
                    unsigned long long id);

static inline bool
binadei_context_is_lost(const struct binadei_context *context)
{
    return atomic_load_explicit(&context->why, memory_order_relaxed) !=
           BINADE_OK;
}

/* From now on it is lost; `why` is the status of calls that want it. The first
 * reason stays. */
void binadei_context_lose(struct binadei_context *context, binade_status why);
/* Why it is lost, with a message. */
BINADE_MUST_USE binade_status
binadei_context_refuse(const struct binadei_context *context);

/* Enters a section in which it is current. BINADE_OK, BINADE_E_FORKED, why it is
 * lost, or what the driver said; as binadei_section_enter(). */
BINADE_MUST_USE binade_status binadei_context_enter(
    struct binadei_context *context, struct binadei_section *out);
/* The same where no context need be current: for queries of its events. */
BINADE_MUST_USE binade_status binadei_context_watch(
    struct binadei_context *context, struct binadei_section *out);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Detects that a context with memory of ours was reset or destroyed. A reset
 * gives the same handle to a new context, in which old addresses and events
 * mean nothing, or something else. So each section first asks the driver for
 * the context's id, and a lost context is never used again.
 */
#ifndef MOIETY_POOL_DRIVER_CONTEXT_H_
#define MOIETY_POOL_DRIVER_CONTEXT_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "pool/driver/driver_table.h"
#include "pool/driver/section.h"

/* In its owner's storage. All but `why` is constant once initialised. */
struct moietyi_context {
    const struct moietyi_driver *driver;
    CUcontext handle;
    unsigned long long id; /* 0 where the driver has no ids */
    /* Edges AT and LW: moietyi_context_lose (release) -> moietyi_context_refuse
     * (acquire). Gets `mark_bit` when the context is lost. */
    _Atomic uint64_t *mark;
    uint64_t mark_bit;
    /* Edge: none; relaxed: a thread that saw the mark has it over LW. A
     * moiety_status; MOIETY_OK while it is not lost. */
    atomic_int why;
};

/* Asks the driver for the id of `handle`. MOIETY_OK, or the driver's error:
 * then there is nothing to end, and nothing is marked. */
MOIETY_MUST_USE moiety_status moietyi_context_init(
    struct moietyi_context *context, const struct moietyi_driver *driver,
    CUcontext handle, _Atomic uint64_t *mark, uint64_t mark_bit);

/* Whether a context of the caller's can be used, as far as that is safe to find
 * out: the driver reads any pointer that it is given, so unmapped addresses are
 * not passed on. MOIETY_OK, MOIETY_E_INVALID (nothing is mapped there, or
 * NULL), MOIETY_E_CONTEXT_DESTROYED (or it never was one), or the driver's
 * error. */
MOIETY_MUST_USE moiety_status
moietyi_context_check(const struct moietyi_driver *driver, CUcontext handle);

/* Asks the driver, in a process that has not forked, whether `handle` is the
 * context that had `id`. MOIETY_OK, MOIETY_E_CONTEXT_DESTROYED or
 * MOIETY_E_DEINITIALIZED, without a message. */
MOIETY_MUST_USE moiety_status
moietyi_context_ask(const struct moietyi_driver *driver, CUcontext handle,
                    unsigned long long id);

static inline bool
moietyi_context_is_lost(const struct moietyi_context *context)
{
    return atomic_load_explicit(&context->why, memory_order_relaxed) !=
           MOIETY_OK;
}

/* From now on it is lost; `why` is the status of calls that want it. The first
 * reason stays. */
void moietyi_context_lose(struct moietyi_context *context, moiety_status why);
/* Why it is lost, with a message. */
MOIETY_MUST_USE moiety_status
moietyi_context_refuse(const struct moietyi_context *context);

/* Enters a section in which it is current. MOIETY_OK, MOIETY_E_FORKED, why it is
 * lost, or what the driver said; as moietyi_section_enter(). */
MOIETY_MUST_USE moiety_status moietyi_context_enter(
    struct moietyi_context *context, struct moietyi_section *out);
/* The same where no context need be current: for queries of its events. */
MOIETY_MUST_USE moiety_status moietyi_context_watch(
    struct moietyi_context *context, struct moietyi_section *out);

#endif

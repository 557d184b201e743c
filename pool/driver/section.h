/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A section of driver calls in a context of ours: with RELAXED capture mode, in
 * which they break nobody's graph capture, and afterwards the thread's context
 * and mode as they were.
 */
#ifndef BINADE_POOL_DRIVER_SECTION_H_
#define BINADE_POOL_DRIVER_SECTION_H_

#include "binade/status.h"
#include "pool/driver/driver_table.h"

struct binadei_section {
    const struct binadei_driver *driver;
    CUstreamCaptureMode mode; /* the thread's own */
    bool has_context;         /* one was pushed */
};

/* `context` is NULL for calls that need none, such as queries of events: each
 * call of the driver may wait for other threads' calls.
 * BINADE_OK, BINADE_E_FORKED, or what the driver said; then nothing has
 * changed and there is nothing to leave. */
BINADE_MUST_USE binade_status
binadei_section_enter(const struct binadei_driver *driver, CUcontext context,
                      struct binadei_section *out);
/* BINADE_OK, or what the driver said. */
binade_status binadei_section_leave(const struct binadei_section *section);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A section of driver calls in a context of ours: with RELAXED capture mode, in
 * which they break nobody's graph capture, and afterwards the thread's context
 * and mode as they were.
 */
#ifndef MOIETY_POOL_DRIVER_SECTION_H_
#define MOIETY_POOL_DRIVER_SECTION_H_

#include "moiety/status.h"
#include "pool/driver/driver_table.h"

/* How often a call that undoes something is made, as long as the driver refuses
 * it: nobody would make it later. */
#define MOIETYI_UNDO_TRIES 4

struct moietyi_section {
    const struct moietyi_driver *driver;
    CUstreamCaptureMode mode; /* the thread's own */
    CUcontext context;        /* NULL, or which was pushed */
};

/* `context` is NULL for calls that need none, such as queries of events: each
 * call of the driver may wait for other threads' calls.
 * MOIETY_OK, MOIETY_E_FORKED, or what the driver said; then nothing has
 * changed and there is nothing to leave. */
MOIETY_MUST_USE moiety_status
moietyi_section_enter(const struct moietyi_driver *driver, CUcontext context,
                      struct moietyi_section *out);
/* A context that was pushed within a section goes; tried again as long as it is
 * current. */
CUresult moietyi_section_pop(const struct moietyi_driver *driver,
                             CUcontext context);
/* MOIETY_OK, or what the driver said. */
moiety_status moietyi_section_leave(const struct moietyi_section *section);

#endif

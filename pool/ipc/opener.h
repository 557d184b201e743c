/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the driver is asked for an import; no lock held.
 */
#ifndef MOIETY_POOL_IPC_OPENER_H_
#define MOIETY_POOL_IPC_OPENER_H_

#include "pool/driver/driver_table.h"
#include "pool/driver/section.h"
#include "pool/ipc/message/channel.h"
#include "pool/ipc/openings.h"

/* The context, or for NULL the current one, or where there is none the primary
 * one of the device that the handle names: then it is retained. The caller
 * gives that back by moietyi_opener_release() if `has_primary` is left set: once,
 * so that a reference stays where the driver refuses. */
MOIETY_MUST_USE moiety_status moietyi_opener_context(
    const struct moietyi_driver *driver, const moiety_ipc_handle *handle,
    CUcontext context, struct moietyi_importer *out);
void moietyi_opener_release(const struct moietyi_driver *driver,
                            const struct moietyi_importer *importer);

/* Enters a section in the opening's context; as moietyi_section_enter(), and
 * refuses if it is not the context any more that it was. */
MOIETY_MUST_USE moiety_status moietyi_opener_enter(
    const struct moietyi_driver *driver, const struct moietyi_opening *opening,
    struct moietyi_section *out);
/* Opens the segment in the opening's context. Statuses of
 * moiety_ipc_import(). `memory`: what came with a handle of mapped memory, or
 * NULL. */
MOIETY_MUST_USE moiety_status moietyi_opener_open(
    const struct moietyi_driver *driver, const struct moietyi_opening *opening,
    const moiety_ipc_handle *handle, const struct moietyi_received *memory,
    moiety_devptr *out);
/* Gives it back, and the primary context that it kept; waits for all work that
 * is queued in the process. MOIETY_OK, also when the context is gone and the
 * memory with it. */
MOIETY_MUST_USE moiety_status moietyi_opener_close(
    const struct moietyi_driver *driver, const struct moietyi_opening *opening);

/* Whether what the driver said means that the context went, and all with it. */
bool moietyi_opener_is_gone(moiety_status status);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the driver is asked for an import; no lock held.
 */
#ifndef BINADE_POOL_IPC_OPENER_H_
#define BINADE_POOL_IPC_OPENER_H_

#include "pool/driver/driver_table.h"
#include "pool/driver/section.h"
#include "pool/ipc/message/channel.h"
#include "pool/ipc/openings.h"

/* The context, or for NULL the current one, or where there is none the primary
 * one of the device that the handle names: then it is retained. The caller
 * gives that back by binadei_opener_release() if `has_primary` is left set. */
BINADE_MUST_USE binade_status binadei_opener_context(
    const struct binadei_driver *driver, const binade_ipc_handle *handle,
    CUcontext context, struct binadei_importer *out);
void binadei_opener_release(const struct binadei_driver *driver,
                            const struct binadei_importer *importer);

/* Enters a section in the opening's context; as binadei_section_enter(), and
 * refuses if it is not the context any more that it was. */
BINADE_MUST_USE binade_status binadei_opener_enter(
    const struct binadei_driver *driver, const struct binadei_opening *opening,
    struct binadei_section *out);
/* Opens the segment in the opening's context. Statuses of
 * binade_ipc_import(). `memory`: what came with a handle of mapped memory, or
 * NULL. */
BINADE_MUST_USE binade_status binadei_opener_open(
    const struct binadei_driver *driver, const struct binadei_opening *opening,
    const binade_ipc_handle *handle, const struct binadei_received *memory,
    binade_devptr *out);
/* Gives it back, and the primary context that it kept; waits for all work that
 * is queued in the process. BINADE_OK, also when the context is gone and the
 * memory with it. */
BINADE_MUST_USE binade_status binadei_opener_close(
    const struct binadei_driver *driver, const struct binadei_opening *opening);

/* Whether what the driver said means that the context went, and all with it. */
bool binadei_opener_is_gone(binade_status status);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Closes: the event behind an import's last work, and who asks for it.
 */
#ifndef BINADE_POOL_IPC_CLOSINGS_H_
#define BINADE_POOL_IPC_CLOSINGS_H_

#include "binade/stream.h"
#include "pool/driver/driver_table.h"
#include "pool/ipc/openings.h"

/* Records an event on `stream`, in the opening's context where it names none.
 * NULL: nothing is pending. BINADE_E_BUSY: a capture is in the way. */
BINADE_MUST_USE binade_status binadei_closing_record(
    const struct binadei_driver *driver, const struct binadei_opening *opening,
    binade_stream stream, CUevent *out);

/* Asks all that are not over. BINADE_OK, or the first thing that the driver
 * said; then that one is asked again. */
binade_status binadei_closings_poll(const struct binadei_driver *driver);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Closes: the event behind an import's last work, and who asks for it.
 */
#ifndef MOIETY_POOL_IPC_CLOSINGS_H_
#define MOIETY_POOL_IPC_CLOSINGS_H_

#include "moiety/stream.h"
#include "pool/driver/driver_table.h"
#include "pool/ipc/openings.h"

/* Records an event on `stream`, in the opening's context where it names none.
 * NULL: nothing is pending. MOIETY_E_CAPTURING: a capture is in the way. */
MOIETY_MUST_USE moiety_status moietyi_closing_record(
    const struct moietyi_driver *driver, const struct moietyi_opening *opening,
    moiety_stream stream, CUevent *out);

/* Asks all that are not over. MOIETY_OK, or the first thing that the driver
 * said; then that one is asked again. */
moiety_status moietyi_closings_poll(const struct moietyi_driver *driver);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The importing side, for the facade: one cache of open segments per process,
 * of no pool. The statuses are those of moiety/ipc.h; arguments were checked,
 * and the calling thread is inside (pool/cache/thread.h).
 */
#ifndef MOIETY_POOL_IPC_IMPORT_H_
#define MOIETY_POOL_IPC_IMPORT_H_

#include "moiety/ipc.h"
#include "pool/driver/driver_table.h"

struct moietyi_received;

/* `memory`: what came with a handle of mapped memory, or NULL. */
MOIETY_MUST_USE moiety_status moietyi_import(
    const struct moietyi_driver *driver, const moiety_ipc_handle *handle,
    const struct moietyi_received *memory, CUcontext context,
    moiety_devptr *out);
/* As moiety_ipc_receive(). */
MOIETY_MUST_USE moiety_status moietyi_import_received(
    const struct moietyi_driver *driver, int socket, CUcontext context,
    moiety_ipc_handle *out_handle, moiety_devptr *out);
/* MOIETY_E_FOREIGN without a message: of no segment that is open here. */
MOIETY_MUST_USE moiety_status
moietyi_import_close(const struct moietyi_driver *driver, moiety_devptr address,
                     moiety_stream stream, uint64_t *out_closing);
MOIETY_MUST_USE moiety_status moietyi_import_wait(
    const struct moietyi_driver *driver, uint64_t closing, uint32_t timeout_ms);
MOIETY_MUST_USE moiety_status
moietyi_import_trim(const struct moietyi_driver *driver, uint32_t keep_count,
                    uint32_t *out_open);

#endif

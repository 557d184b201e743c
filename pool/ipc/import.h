/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The importing side, for the facade: one cache of open segments per process,
 * of no pool. The statuses are those of binade/ipc.h; arguments were checked,
 * and the calling thread is inside (pool/cache/thread.h).
 */
#ifndef BINADE_POOL_IPC_IMPORT_H_
#define BINADE_POOL_IPC_IMPORT_H_

#include "binade/ipc.h"
#include "pool/driver/driver_table.h"

struct binadei_received;

/* `memory`: what came with a handle of mapped memory, or NULL. */
BINADE_MUST_USE binade_status binadei_import(
    const struct binadei_driver *driver, const binade_ipc_handle *handle,
    const struct binadei_received *memory, CUcontext context,
    binade_devptr *out);
/* As binade_ipc_receive(). */
BINADE_MUST_USE binade_status binadei_import_received(
    const struct binadei_driver *driver, int socket, CUcontext context,
    binade_ipc_handle *out_handle, binade_devptr *out);
/* BINADE_E_FOREIGN without a message: of no segment that is open here. */
BINADE_MUST_USE binade_status
binadei_import_close(const struct binadei_driver *driver, binade_devptr address,
                     binade_stream stream, uint64_t *out_closing);
BINADE_MUST_USE binade_status binadei_import_wait(
    const struct binadei_driver *driver, uint64_t closing, uint32_t timeout_ms);
BINADE_MUST_USE binade_status
binadei_import_trim(const struct binadei_driver *driver, uint32_t keep_count,
                    uint32_t *out_open);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory that another process mapped and sent, mapped here: addresses for the
 * run alone, its pieces one behind the other. In a section; no lock held.
 */
#ifndef BINADE_POOL_IPC_MESSAGE_MAPPING_H_
#define BINADE_POOL_IPC_MESSAGE_MAPPING_H_

#include "pool/driver/driver_table.h"
#include "pool/ipc/message/channel.h"

bool binadei_mapping_is_possible(const struct binadei_driver *driver);

/* For the device of the current context. The descriptors stay the caller's. A
 * failed call has left nothing behind. BINADE_OK; BINADE_E_CORRUPT: one is no
 * memory of the driver's, or of another size; BINADE_E_STALE, BINADE_E_UNSUPPORTED
 * of fabric handles; or what the driver said. */
BINADE_MUST_USE binade_status
binadei_mapping_open(const struct binadei_driver *driver,
                     const struct binadei_received *memory, CUdeviceptr *out);
/* BINADE_OK, or what the driver said: then it is mapped still. */
BINADE_MUST_USE binade_status
binadei_mapping_close(const struct binadei_driver *driver, CUdeviceptr address,
                      uint64_t size_bytes);

#endif

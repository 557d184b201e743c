/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory that another process mapped and sent, mapped here: addresses for the
 * run alone, its pieces one behind the other. In a section; no lock held.
 */
#ifndef MOIETY_POOL_IPC_MESSAGE_MAPPING_H_
#define MOIETY_POOL_IPC_MESSAGE_MAPPING_H_

#include "pool/driver/driver_table.h"
#include "pool/ipc/message/channel.h"

bool moietyi_mapping_is_possible(const struct moietyi_driver *driver);

/* For the device of the current context. The descriptors stay the caller's. A
 * failed call has left nothing behind. MOIETY_OK; MOIETY_E_CORRUPT: one is no
 * memory of the driver's, or of another size; MOIETY_E_STALE, MOIETY_E_UNSUPPORTED
 * of fabric handles; or what the driver said. */
MOIETY_MUST_USE moiety_status
moietyi_mapping_open(const struct moietyi_driver *driver,
                     const struct moietyi_received *memory, CUdeviceptr *out);
/* MOIETY_OK, or what the driver said: then it is mapped still. */
MOIETY_MUST_USE moiety_status
moietyi_mapping_close(const struct moietyi_driver *driver, CUdeviceptr address,
                      uint64_t size_bytes);

#endif

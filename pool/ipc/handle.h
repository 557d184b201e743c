/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a handle: sealing them and believing them. Pure; what they name
 * is looked for elsewhere.
 */
#ifndef BINADE_POOL_IPC_HANDLE_H_
#define BINADE_POOL_IPC_HANDLE_H_

#include "binade/ipc.h"

/* Writes version, size and checksum; all else is the caller's. */
void binadei_handle_seal(binade_ipc_handle *handle);

/* Copies `bytes` to `out` if they are a handle that is sound in itself: offset
 * and size lie within the segment. BINADE_OK, BINADE_E_INVALID (the length),
 * BINADE_E_UNSUPPORTED (the version) or BINADE_E_CORRUPT. */
BINADE_MUST_USE binade_status binadei_handle_read(const void *bytes,
                                                  size_t handle_bytes,
                                                  binade_ipc_handle *out);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a handle: sealing them and believing them. Pure; what they name
 * is looked for elsewhere.
 */
#ifndef MOIETY_POOL_IPC_HANDLE_H_
#define MOIETY_POOL_IPC_HANDLE_H_

#include <string.h>

#include "moiety/ipc.h"
#include "pool/ipc/process.h"

/* Writes version, size and checksum; all else is the caller's. */
void moietyi_handle_seal(moiety_ipc_handle *handle);

/* Of a multiple of 8 bytes. */
uint64_t moietyi_checksum(const void *bytes, size_t size_bytes);

/* Instead of the driver's handle, where the memory is mapped: which handles of
 * the exporter's these are, without a way to them. No padding. */
struct moietyi_run_name {
    uint64_t sum; /* of the nonce and the segments' ids and lengths, in their
                     order: differs between machines too; not 0 */
    uint64_t piece_count;
    struct moietyi_process exporter;
    uint64_t nonce; /* the exporter's: moietyi_process_nonce() */
};

static inline struct moietyi_run_name
moietyi_run_name_of(const moiety_ipc_handle *handle)
{
    struct moietyi_run_name name;
    memcpy(&name, handle->driver_handle, sizeof(name));
    return name;
}

/* Copies `bytes` to `out` if they are a handle that is sound in itself: offset
 * and size lie within the segment. MOIETY_OK, MOIETY_E_INVALID (the length),
 * MOIETY_E_UNSUPPORTED (the version) or MOIETY_E_CORRUPT. */
MOIETY_MUST_USE moiety_status moietyi_handle_read(const void *bytes,
                                                  size_t handle_bytes,
                                                  moiety_ipc_handle *out);

#endif

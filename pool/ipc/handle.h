/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a handle: sealing them and believing them. Pure; what they name
 * is looked for elsewhere.
 */
#ifndef BINADE_POOL_IPC_HANDLE_H_
#define BINADE_POOL_IPC_HANDLE_H_

#include <string.h>

#include "binade/ipc.h"
#include "pool/ipc/process.h"

/* Writes version, size and checksum; all else is the caller's. */
void binadei_handle_seal(binade_ipc_handle *handle);

/* Of a multiple of 8 bytes. */
uint64_t binadei_checksum(const void *bytes, size_t size_bytes);

/* Instead of the driver's handle, where the memory is mapped: which handles of
 * the exporter's these are, without a way to them. No padding. */
struct binadei_run_name {
    uint64_t sum; /* of the nonce and the segments' ids and lengths, in their
                     order: differs between machines too; not 0 */
    uint64_t piece_count;
    struct binadei_process exporter;
    uint64_t nonce; /* the exporter's: binadei_process_nonce() */
};

static inline struct binadei_run_name
binadei_run_name_of(const binade_ipc_handle *handle)
{
    struct binadei_run_name name;
    memcpy(&name, handle->driver_handle, sizeof(name));
    return name;
}

/* Copies `bytes` to `out` if they are a handle that is sound in itself: offset
 * and size lie within the segment. BINADE_OK, BINADE_E_INVALID (the length),
 * BINADE_E_UNSUPPORTED (the version) or BINADE_E_CORRUPT. */
BINADE_MUST_USE binade_status binadei_handle_read(const void *bytes,
                                                  size_t handle_bytes,
                                                  binade_ipc_handle *out);

#endif

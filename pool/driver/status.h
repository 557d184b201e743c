/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * CUresult -> binade_status, and the last error of the driver per thread.
 */
#ifndef BINADE_POOL_DRIVER_STATUS_H_
#define BINADE_POOL_DRIVER_STATUS_H_

#include "binade/status.h"
#include "pool/driver/cuda_abi.h"

/* Names the entry that returned an error: what "out of memory" means depends
 * on it. */
enum binadei_entry {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    BINADEI_ENTRY_##base,
#include "pool/driver/cuda_entries.inc"
    BINADEI_ENTRY_COUNT
};

/* The status for `code` returned by `entry`. Unless `code` is CUDA_SUCCESS,
 * keeps code and name as the calling thread's last driver error and makes the
 * failure message. Not for answers that are no failure, such as
 * CUDA_ERROR_NOT_READY of a query: compare those first. */
binade_status binadei_driver_status(enum binadei_entry entry, CUresult code);

/* The calling thread's last driver error; struct_size is 0. */
binade_driver_error binadei_driver_last_error(void);

#endif

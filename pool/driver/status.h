/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * CUresult -> moiety_status, and the last error of the driver per thread.
 */
#ifndef MOIETY_POOL_DRIVER_STATUS_H_
#define MOIETY_POOL_DRIVER_STATUS_H_

#include <stdbool.h>

#include "moiety/status.h"
#include "pool/driver/cuda_abi.h"

/* Names the entry that returned an error: what "out of memory" means depends
 * on it. */
enum moietyi_entry {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    MOIETYI_ENTRY_##base,
#include "pool/driver/cuda_entries.inc"
    MOIETYI_ENTRY_COUNT
};

/* The status for `code` returned by `entry`. Unless `code` is CUDA_SUCCESS,
 * keeps code and name as the calling thread's last driver error and makes the
 * failure message. Not for answers that are no failure, such as
 * CUDA_ERROR_NOT_READY of a query: compare those first. */
moiety_status moietyi_driver_status(enum moietyi_entry entry, CUresult code);

/* The calling thread's last driver error; struct_size is 0. */
moiety_driver_error moietyi_driver_last_error(void);
/* Whether that error says that no work runs any more in the context it is about:
 * the context is gone, or a fault of the device ended all that was queued. */
bool moietyi_driver_has_stopped(void);

#endif

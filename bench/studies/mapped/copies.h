/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How fast the driver copies between two places of device memory.
 */
#ifndef MOIETY_BENCH_STUDIES_MAPPED_COPIES_H_
#define MOIETY_BENCH_STUDIES_MAPPED_COPIES_H_

#include <stddef.h>

#include "pool/driver/driver_table.h"

/* Median GB/s of ten copies on a stream of the current context. What fails ends
 * the process, after saying so. */
double copies_speed(const struct moietyi_driver *driver, CUstream stream,
                    CUdeviceptr to, CUdeviceptr from, size_t size_bytes);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The device's default memory pool: cuMemAllocAsync(). The driver table has no
 * entries for its attributes, because nothing but benchmarks sets any.
 */
#ifndef MOIETY_BENCH_SUBJECTS_DRIVER_POOL_H_
#define MOIETY_BENCH_SUBJECTS_DRIVER_POOL_H_

#include <stdint.h>

#include "pool/driver/driver_table.h"

/* Sets the release threshold to its maximum, without which the pool gives its
 * memory back at every synchronisation. NULL, or why there is no such pool. */
const char *driver_pool_keep(const struct moietyi_driver *driver);

/* 0: no memory. What was freed on a stream may not be there before the stream
 * has come to it; so who finds none waits for all streams once, and asks again.
 */
uint64_t driver_pool_alloc(const struct moietyi_driver *driver,
                           uint64_t size_bytes, CUstream stream);

/* Bytes in use and bytes reserved; UINT64_MAX where the driver does not tell.
 */
void driver_pool_sizes(const struct moietyi_driver *driver, uint64_t *out_used,
                       uint64_t *out_reserved);

/* Waits for all work and gives back what is not in use. */
void driver_pool_empty(const struct moietyi_driver *driver);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that write blocks, and read them through all caches, since copies and
 * memsets go past some of them. Only a GPU has kernels.
 *
 * They are no part of what the pool calls, so the door to the driver has none of
 * it.
 */
#ifndef MOIETY_BENCH_STUDIES_MAPPED_KERNELS_H_
#define MOIETY_BENCH_STUDIES_MAPPED_KERNELS_H_

#include <stdint.h>

#include "pool/driver/driver_table.h"

typedef void *kernel;

/* Of one context. */
struct kernels {
    const struct moietyi_driver *driver;
    kernel fill;            /* word i of a block is `value` + i */
    kernel check;           /* counts words that are something else */
    kernel check_read_only; /* the same, through the read-only cache */
    CUdeviceptr wrong;      /* that count */
};

/* All of them: what fails ends the process, after saying so. The context is
 * current. */
void kernels_load(const struct moietyi_driver *driver, struct kernels *out);
void kernels_launch(const struct kernels *kernels, CUstream stream,
                    kernel which, CUdeviceptr block, uint32_t value,
                    unsigned words);
void kernels_forget_wrong(const struct kernels *kernels, CUstream stream);
/* Waits for the stream. */
uint32_t kernels_count_wrong(const struct kernels *kernels, CUstream stream);

#endif

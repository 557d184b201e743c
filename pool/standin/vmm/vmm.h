/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory of the VMM calls: what a CUmemGenericAllocationHandle names.
 * It lives while the handle has references or mappings show it.
 *
 * All functions: lock held.
 */
#ifndef BINADE_POOL_STANDIN_VMM_VMM_H_
#define BINADE_POOL_STANDIN_VMM_VMM_H_

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "pool/standin/memory/device_memory.h"

struct physical {
    CUmemGenericAllocationHandle handle; /* never used again */
    size_t size_bytes;
    CUmemAllocationProp properties;
    struct device *device;  /* NULL for host memory */
    int fd;                 /* file that has the memory, */
    off_t offset;           /* from here on */
    bool has_own_file;      /* exportable, imported or host memory */
    bool is_charged;        /* counts as used on `device` */
    ino_t inode;            /* of its own file */
    unsigned handle_count;  /* references by the user */
    unsigned mapping_count; /* of cuMemMap */
};

/* NULL for what is no handle, or is released. */
struct physical *physical_find(CUmemGenericAllocationHandle handle);

/* Frees it when neither references nor mappings are left. */
void physical_drop_unused(struct physical *physical);

/* Handles that have references. */
size_t physical_live(void);

#endif

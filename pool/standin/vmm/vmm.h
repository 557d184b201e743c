/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory of the VMM calls: what a CUmemGenericAllocationHandle names.
 * It lives while the handle has references or mappings show it.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_VMM_VMM_H_
#define MOIETY_POOL_STANDIN_VMM_VMM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
    uint64_t proof;         /* in its file while fabric handles of it are good;
                               0: none were made */
    unsigned handle_count;  /* references by the user */
    unsigned mapping_count; /* of cuMemMap */
};

/* NULL for what is no handle, or is released. */
struct physical *physical_find(CUmemGenericAllocationHandle handle);

/* Frees it when neither references nor mappings are left. */
void physical_drop_unused(struct physical *physical);

/* Handles that have references. */
size_t physical_live(void);

/* fabric.c. */

/* Of memory that was created for them. */
CUresult fabric_handle_make(struct physical *physical, CUmemFabricHandle *out);
/* The file of a handle that this or another process made; the caller closes it.
 * INVALID_VALUE for bytes that are no handle, and for one that is not good any
 * more. */
CUresult fabric_handle_open(const CUmemFabricHandle *raw, int *out_fd);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Physical memory of the VMM calls: what a CUmemGenericAllocationHandle names.
 * It lives while the handle has references or mappings show it.
 *
 * All functions: lock held.
 */
#ifndef BINADE_POOL_STANDIN_VMM_H_
#define BINADE_POOL_STANDIN_VMM_H_

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "pool/standin/device_memory.h"

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

/* The one whose own file this is; NULL when none. */
struct physical *physical_find_file(ino_t inode);

/* Notes a copy of `physical` under a fresh handle with one reference. NULL
 * when host memory ran out. */
struct physical *physical_add(const struct physical *physical);

/* Frees it when neither references nor mappings are left. */
void physical_drop_unused(struct physical *physical);

/* Handles that have references. */
size_t physical_live(void);

/* What an exportable file carries behind its memory, so that the importer
 * learns what it is. */
bool physical_write_trailer(int fd, size_t size_bytes,
                            const CUmemAllocationProp *properties);

#endif

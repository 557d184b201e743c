/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The exports of a pool, for the files of this folder only.
 */
#ifndef MOIETY_POOL_IPC_STATE_H_
#define MOIETY_POOL_IPC_STATE_H_

#include <pthread.h>

#include "pool/ipc/exports.h"
#include "pool/ipc/held.h"

/* A segment of which handles were made; it is pinned. Of mapped memory, a run of
 * handles of the driver's as if they were one; runs may overlap. */
struct moietyi_export {
    struct moietyi_segment_info info;
    /* All that handles of one segment have in common. */
    moiety_ipc_handle common;
    uint64_t import_count; /* by this process; the lock */
};

struct moietyi_exports {
    /* Constant. */
    struct moietyi_exports_options options;
    moiety_ipc_handle common;     /* what all handles of the pool have so */
    uint64_t serial;              /* of the pool; upper half of segment ids */
    struct moietyi_exports *next; /* of all pools; the registry's lock */

    pthread_mutex_t lock;
    /* Under the lock; sorted by address, then by length. */
    struct moietyi_export *segments;
    size_t segment_count;
    size_t segment_capacity;
    uint64_t last_generation;
    struct moietyi_held_table blocks;
};

/* A part of all addresses. */
struct moietyi_export_range {
    moiety_devptr first;
    moiety_devptr end;
};

/* exports.c; lock held. The segment that has `address`, or NULL; not of mapped
 * memory. */
struct moietyi_export *moietyi_export_at(const struct moietyi_exports *exports,
                                         moiety_devptr address);
/* The run of mapped memory, or NULL. */
struct moietyi_export *moietyi_export_run(const struct moietyi_exports *exports,
                                          moiety_devptr address,
                                          uint64_t size_bytes);
/* The segment that has `address`, or of mapped memory all runs that overlap one
 * another there; empty where none has it. */
struct moietyi_export_range
moietyi_export_range_of(const struct moietyi_exports *exports,
                        moiety_devptr address);
/* Copies it to its place. False: no memory. */
bool moietyi_export_insert(struct moietyi_exports *exports,
                           const struct moietyi_export *fresh);
void moietyi_export_remove(struct moietyi_exports *exports, size_t index);

/* export.c: notes the block as exported; lock held. */
MOIETY_MUST_USE moiety_status moietyi_export_note(
    struct moietyi_exports *exports, const struct moietyi_engine *engine,
    const struct moietyi_block *block, moiety_devptr start);
moiety_status moietyi_export_no_memory(void);

/* block.c: the live block that `address` is in, as its metadata says. Searches
 * backwards for the start, to the segment's. MOIETY_OK or MOIETY_E_INVALID. */
MOIETY_MUST_USE moiety_status moietyi_block_around(
    const struct moietyi_engine *engine,
    const struct moietyi_segment_info *segment, moiety_devptr address,
    struct moietyi_block *out, moiety_devptr *out_start);

#endif

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The exports of a pool, for the files of this folder only.
 */
#ifndef BINADE_POOL_IPC_STATE_H_
#define BINADE_POOL_IPC_STATE_H_

#include <pthread.h>

#include "pool/ipc/exports.h"
#include "pool/ipc/held.h"

/* A segment of which handles were made; it is pinned. Of mapped memory, a run of
 * handles of the driver's as if they were one; runs may overlap. */
struct binadei_export {
    struct binadei_segment_info info;
    /* All that handles of one segment have in common. */
    binade_ipc_handle common;
    uint64_t import_count; /* by this process; the lock */
};

struct binadei_exports {
    /* Constant. */
    struct binadei_exports_options options;
    binade_ipc_handle common;     /* what all handles of the pool have so */
    uint64_t serial;              /* of the pool; upper half of segment ids */
    struct binadei_exports *next; /* of all pools; the registry's lock */

    pthread_mutex_t lock;
    /* Under the lock; sorted by address, then by length. */
    struct binadei_export *segments;
    size_t segment_count;
    size_t segment_capacity;
    uint64_t last_generation;
    struct binadei_held_table blocks;
};

/* A part of all addresses. */
struct binadei_export_range {
    binade_devptr first;
    binade_devptr end;
};

/* exports.c; lock held. The segment that has `address`, or NULL; not of mapped
 * memory. */
struct binadei_export *binadei_export_at(const struct binadei_exports *exports,
                                         binade_devptr address);
/* The run of mapped memory, or NULL. */
struct binadei_export *binadei_export_run(const struct binadei_exports *exports,
                                          binade_devptr address,
                                          uint64_t size_bytes);
/* The segment that has `address`, or of mapped memory all runs that overlap one
 * another there; empty where none has it. */
struct binadei_export_range
binadei_export_range_of(const struct binadei_exports *exports,
                        binade_devptr address);
/* Copies it to its place. False: no memory. */
bool binadei_export_insert(struct binadei_exports *exports,
                           const struct binadei_export *fresh);
void binadei_export_remove(struct binadei_exports *exports, size_t index);

/* export.c: notes the block as exported; lock held. */
BINADE_MUST_USE binade_status binadei_export_note(
    struct binadei_exports *exports, const struct binadei_engine *engine,
    const struct binadei_block *block, binade_devptr start);
binade_status binadei_export_no_memory(void);

/* block.c: the live block that `address` is in, as its metadata says. Searches
 * backwards for the start, to the segment's. BINADE_OK or BINADE_E_INVALID. */
BINADE_MUST_USE binade_status binadei_block_around(
    const struct binadei_engine *engine,
    const struct binadei_segment_info *segment, binade_devptr address,
    struct binadei_block *out, binade_devptr *out_start);

#endif

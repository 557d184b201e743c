/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Freeing every live block: a snapshot tells where they are, and each goes the way
 * of any free, so that whatever is noted of it is heeded.
 */
#include "binade/pool.h"

#include "binade/heap.h"
#include "pool/base/failure.h"
#include "pool/checked/checked.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"

static binade_status free_counted(binade_pool *pool, binade_devptr address,
                                  binade_stream stream, uint64_t *freed)
{
    binade_status status = binade_free(pool, address, stream);
    *freed += status == BINADE_OK;
    return status;
}

static binade_status free_found(binade_pool *pool, binade_stream stream,
                                uint64_t *freed)
{
    binade_heap_snapshot *snapshot;
    size_t count = 0;
    binade_status status = binade_heap_snapshot_create(pool, &snapshot);
    if (status != BINADE_OK)
        return status;
    const binade_heap_interval *intervals =
        binade_heap_snapshot_intervals(snapshot, &count);
    for (size_t i = 0; i < count && status == BINADE_OK; i++)
        if (intervals[i].kind == BINADE_HEAP_USED)
            status = free_counted(pool, intervals[i].address, stream, freed);
    binade_heap_snapshot_destroy(snapshot);
    return status;
}

/* One after the other: a record may be gone once its block is freed. */
static binade_status free_recorded(binade_pool *pool, binade_stream stream,
                                   uint64_t *freed)
{
    struct binadei_checked *checked = pool->body->checked;
    uint64_t sequence = binadei_checked_sequence(checked);
    uint32_t bucket = 0;
    binade_status status = BINADE_OK;
    binade_devptr address;
    while (status == BINADE_OK &&
           (address = binadei_checked_live(checked, sequence, &bucket)) != 0)
        status = free_counted(pool, address, stream, freed);
    return status;
}

/* Whether a pool is there, and knows its blocks by records. */
static binade_status free_all_ask(binade_pool *pool, bool *out_has_records)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    *out_has_records = pool->body->ops->has_records;
    binadei_call_leave(&call);
    return BINADE_OK;
}

binade_status binade_free_all(binade_pool *pool, binade_stream stream,
                              uint64_t *out_freed)
{
    bool has_records = false;
    uint64_t freed = 0;
    binade_status status = free_all_ask(pool, &has_records);
    if (status == BINADE_OK)
        status = has_records ? free_recorded(pool, stream, &freed)
                             : free_found(pool, stream, &freed);
    if (out_freed)
        *out_freed = freed;
    return status;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Freeing every live block: a snapshot tells where they are, and each goes the way
 * of any free, so that whatever is noted of it is heeded.
 */
#include "moiety/pool.h"

#include "moiety/heap.h"
#include "pool/base/failure.h"
#include "pool/checked/checked.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"

static moiety_status free_counted(moiety_pool *pool, moiety_devptr address,
                                  moiety_stream stream, uint64_t *freed)
{
    moiety_status status = moiety_free(pool, address, stream);
    *freed += status == MOIETY_OK;
    return status;
}

static moiety_status free_found(moiety_pool *pool, moiety_stream stream,
                                uint64_t *freed)
{
    moiety_heap_snapshot *snapshot;
    size_t count = 0;
    moiety_status status = moiety_heap_snapshot_create(pool, &snapshot);
    if (status != MOIETY_OK)
        return status;
    const moiety_heap_interval *intervals =
        moiety_heap_snapshot_intervals(snapshot, &count);
    for (size_t i = 0; i < count && status == MOIETY_OK; i++)
        if (intervals[i].kind == MOIETY_HEAP_USED)
            status = free_counted(pool, intervals[i].address, stream, freed);
    moiety_heap_snapshot_destroy(snapshot);
    return status;
}

/* One after the other: a record may be gone once its block is freed. */
static moiety_status free_recorded(moiety_pool *pool, moiety_stream stream,
                                   uint64_t *freed)
{
    struct moietyi_checked *checked = pool->body->checked;
    uint64_t sequence = moietyi_checked_sequence(checked);
    uint32_t bucket = 0;
    moiety_status status = MOIETY_OK;
    moiety_devptr address;
    while (status == MOIETY_OK &&
           (address = moietyi_checked_live(checked, sequence, &bucket)) != 0)
        status = free_counted(pool, address, stream, freed);
    return status;
}

/* Whether a pool is there, and knows its blocks by records. */
static moiety_status free_all_ask(moiety_pool *pool, bool *out_has_records)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    *out_has_records = pool->body->ops->has_records;
    moietyi_call_leave(&call);
    return MOIETY_OK;
}

moiety_status moiety_free_all(moiety_pool *pool, moiety_stream stream,
                              uint64_t *out_freed)
{
    bool has_records = false;
    uint64_t freed = 0;
    moiety_status status = free_all_ask(pool, &has_records);
    if (status == MOIETY_OK)
        status = has_records ? free_recorded(pool, stream, &freed)
                             : free_found(pool, stream, &freed);
    if (out_freed)
        *out_freed = freed;
    return status;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Many blocks at once: all of them, or none.
 */
#include <stdint.h>

#include "binade/pool.h"
#include "pool/base/failure.h"
#include "pool/config/options.h"
#include "pool/core/body.h"

/* A block that the caller never got. Its last life may still be in use on the
 * stream that it was taken for, unless that is none, or captures and got a
 * block that is done. */
static void give_unused(binade_pool *pool, binade_devptr address,
                        binade_stream stream)
{
    if (stream == BINADE_STREAM_ANY ||
        binade_free(pool, address, stream) == BINADE_E_BUSY)
        /* It cannot be refused twice. */
        if (binade_free(pool, address, BINADE_STREAM_DONE) != BINADE_OK)
            return;
}

/* How many blocks of this size the pool can ever have at once. */
static uint64_t most_blocks(uint64_t limit_bytes, size_t size_bytes)
{
    uint64_t limit_grains = limit_bytes / BINADEI_GRAIN_BYTES;
    uint64_t grains = (size_bytes - 1) / BINADEI_GRAIN_BYTES + 1;
    return limit_grains / grains;
}

/* Refuses what can never be had before the first block is taken. A pool that is
 * NULL or destroyed is left to the first allocation. */
static binade_status check_batch(const binade_pool *pool, size_t size_bytes,
                                 size_t count, const binade_devptr *out)
{
    if (!out && count)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_alloc_batch: out is NULL");
    if (!pool || binadei_is_dead(pool))
        return BINADE_OK;
    uint64_t limit_bytes = binadei_limit_of(pool->body);
    if (limit_bytes > BINADEI_CAPACITY_BYTES)
        limit_bytes = BINADEI_CAPACITY_BYTES;
    if (size_bytes && count > most_blocks(limit_bytes, size_bytes)) {
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%zu blocks of %zu bytes: the pool never reserves "
                            "more than %llu",
                            count, size_bytes, (unsigned long long)limit_bytes);
    }
    if (count > PTRDIFF_MAX / sizeof(*out)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_alloc_batch: no array has room for %zu "
                            "addresses",
                            count);
    }
    return BINADE_OK;
}

binade_status binade_alloc_batch(binade_pool *pool, size_t size_bytes,
                                 binade_stream stream, size_t count,
                                 binade_devptr *out)
{
    size_t taken = 0;
    binade_status status = check_batch(pool, size_bytes, count, out);
    while (taken < count && status == BINADE_OK) {
        status = binade_alloc(pool, size_bytes, stream, &out[taken]);
        taken += status == BINADE_OK;
    }
    for (size_t i = 0; status != BINADE_OK && i < taken; i++)
        give_unused(pool, out[i], stream);
    return status;
}

binade_status binade_free_batch(binade_pool *pool,
                                const binade_devptr *addresses, size_t count,
                                binade_stream stream, size_t *out_freed)
{
    binade_status status = BINADE_OK;
    size_t freed = 0;
    if (!addresses && count)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_free_batch: addresses is NULL");
    while (freed < count) {
        status = binade_free(pool, addresses[freed], stream);
        if (status != BINADE_OK)
            break;
        freed++;
    }
    if (out_freed)
        *out_freed = freed;
    return status;
}

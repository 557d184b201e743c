/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Many blocks at once: all of them, or none.
 */
#include <stdint.h>

#include "moiety/pool.h"
#include "pool/base/failure.h"
#include "pool/config/options.h"
#include "pool/core/body.h"

/* A block that the caller never got. Its last work may still run on the stream
 * that it was taken for, unless there is none, or the stream captures and got a
 * done block. */
static void give_unused(moiety_pool *pool, moiety_devptr address,
                        moiety_stream stream)
{
    if (stream == MOIETY_STREAM_ANY ||
        moiety_free(pool, address, stream) == MOIETY_E_CAPTURING)
        /* It cannot be refused twice. */
        if (moiety_free(pool, address, MOIETY_STREAM_DONE) != MOIETY_OK)
            return;
}

/* The failure of a block counts those before it as in use: so the message says
 * which one it was. */
static moiety_status give_up(moiety_pool *pool, const moiety_devptr *addresses,
                             size_t taken, moiety_stream stream,
                             moiety_status status)
{
    struct moietyi_failure kept;
    moietyi_failure_keep(&kept);
    for (size_t i = 0; i < taken; i++)
        give_unused(pool, addresses[i], stream);
    return moietyi_fail(status,
                        "beside %zu blocks of the batch, which are free again: "
                        "%s",
                        taken, kept.message);
}

/* How many blocks of this size the pool can ever have at once. */
static uint64_t most_blocks(uint64_t limit_bytes, size_t size_bytes)
{
    uint64_t limit_grains = limit_bytes / MOIETYI_GRAIN_BYTES;
    uint64_t grains = (size_bytes - 1) / MOIETYI_GRAIN_BYTES + 1;
    return limit_grains / grains;
}

/* Refuses an impossible batch before the first block is taken. A pool that is
 * NULL or destroyed is left to the first allocation. */
static moiety_status check_batch(const moiety_pool *pool, size_t size_bytes,
                                 size_t count, const moiety_devptr *out)
{
    if (!out && count)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_alloc_batch: out is NULL");
    if (!pool || moietyi_is_dead(pool))
        return MOIETY_OK;
    uint64_t limit_bytes = moietyi_limit_of(pool->body);
    if (limit_bytes > MOIETYI_CAPACITY_BYTES)
        limit_bytes = MOIETYI_CAPACITY_BYTES;
    if (size_bytes && count > most_blocks(limit_bytes, size_bytes)) {
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%zu blocks of %zu bytes: the pool never reserves "
                            "more than %llu",
                            count, size_bytes, (unsigned long long)limit_bytes);
    }
    if (count > PTRDIFF_MAX / sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_alloc_batch: no array has room for %zu "
                            "addresses",
                            count);
    }
    return MOIETY_OK;
}

moiety_status moiety_alloc_batch(moiety_pool *pool, size_t size_bytes,
                                 moiety_stream stream, size_t count,
                                 moiety_devptr *out)
{
    size_t taken = 0;
    moiety_status status = check_batch(pool, size_bytes, count, out);
    while (taken < count && status == MOIETY_OK) {
        status = moiety_alloc(pool, size_bytes, stream, &out[taken]);
        taken += status == MOIETY_OK;
    }
    return status == MOIETY_OK || !taken
               ? status
               : give_up(pool, out, taken, stream, status);
}

moiety_status moiety_free_batch(moiety_pool *pool,
                                const moiety_devptr *addresses, size_t count,
                                moiety_stream stream, size_t *out_freed)
{
    moiety_status status = MOIETY_OK;
    size_t freed = 0;
    if (!addresses && count)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_free_batch: addresses is NULL");
    while (freed < count) {
        status = moiety_free(pool, addresses[freed], stream);
        if (status != MOIETY_OK)
            break;
        freed++;
    }
    if (out_freed)
        *out_freed = freed;
    return status;
}

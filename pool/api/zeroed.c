/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that are filled with zeroes where their stream's work begins.
 */
#include "binade/pool.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/driver/section.h"

/* On the stream, in its context. */
static binade_status zeroed_fill(binade_pool *pool, binade_devptr address,
                                 size_t size_bytes, binade_stream stream)
{
    struct binadei_call call;
    struct binadei_section section;
    binade_status status = binadei_call_begin(pool, stream, &call);
    if (status != BINADE_OK)
        return status;
    const struct binadei_driver *driver = pool->body->driver;
    status = binadei_section_enter(driver, call.push->stream_state->context,
                                   &section);
    if (status == BINADE_OK) {
        status = BINADEI_CALL(driver, cuMemsetD8Async,
                              (address, 0, size_bytes, stream));
        (void)binadei_section_leave(&section);
    }
    binadei_call_end(&call);
    return status;
}

binade_status binade_alloc_zeroed(binade_pool *pool, size_t size_bytes,
                                  binade_stream stream, binade_devptr *out)
{
    binade_devptr address = 0;
    if (!out || stream == BINADE_STREAM_ANY || stream == BINADE_STREAM_DONE) {
        return binadei_fail(BINADE_E_INVALID, "binade_alloc_zeroed: %s",
                            out ? "the zeroes need a stream of their own order"
                                : "out is NULL");
    }
    binade_status status = binade_alloc(pool, size_bytes, stream, &address);
    if (status != BINADE_OK)
        return status;
    if (size_bytes)
        status = zeroed_fill(pool, address, size_bytes, stream);
    if (status == BINADE_OK) {
        *out = address;
        return BINADE_OK;
    }
    if (binade_free(pool, address, stream) == BINADE_OK)
        return status;
    /* Once more, as nobody else could. */
    binade_status freed = binade_free(pool, address, stream);
    return freed == BINADE_OK ? status : freed;
}

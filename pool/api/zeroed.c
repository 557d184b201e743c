/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that are filled with zeroes where their stream's work begins.
 */
#include "moiety/pool.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/driver/section.h"

/* On the stream, in its context. */
static moiety_status zeroed_fill(moiety_pool *pool, moiety_devptr address,
                                 size_t size_bytes, moiety_stream stream)
{
    struct moietyi_call call;
    struct moietyi_section section;
    moiety_status status = moietyi_call_begin(pool, stream, &call);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_driver *driver = pool->body->driver;
    status = moietyi_section_enter(driver, call.push->stream_state->context,
                                   &section);
    if (status == MOIETY_OK) {
        status = MOIETYI_CALL(driver, cuMemsetD8Async,
                              (address, 0, size_bytes, stream));
        (void)moietyi_section_leave(&section);
    }
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_alloc_zeroed(moiety_pool *pool, size_t size_bytes,
                                  moiety_stream stream, moiety_devptr *out)
{
    moiety_devptr address = 0;
    if (!out || stream == MOIETY_STREAM_ANY || stream == MOIETY_STREAM_DONE) {
        return moietyi_fail(MOIETY_E_INVALID, "moiety_alloc_zeroed: %s",
                            out ? "the zeroes need a stream of their own order"
                                : "out is NULL");
    }
    moiety_status status = moiety_alloc(pool, size_bytes, stream, &address);
    if (status != MOIETY_OK)
        return status;
    if (size_bytes)
        status = zeroed_fill(pool, address, size_bytes, stream);
    if (status == MOIETY_OK) {
        *out = address;
        return MOIETY_OK;
    }
    if (moiety_free(pool, address, stream) == MOIETY_OK)
        return status;
    /* Once more, as nobody else could. */
    moiety_status freed = moiety_free(pool, address, stream);
    return freed == MOIETY_OK ? status : freed;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A program that knows that a pool's context goes, and says so. What follows
 * from it is where it matters: binadei_context_enter() keeps all calls from the
 * driver, binadei_put() takes blocks back that are nowhere any more, and
 * binadei_climb() finds none.
 */
#include "binade/pool.h"

#include "pool/core/body.h"

binade_status binade_pool_context_lost(binade_pool *pool)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_context_lose(call.engine->home, BINADE_E_CONTEXT_DESTROYED);
    binadei_call_leave(&call);
    return BINADE_OK;
}

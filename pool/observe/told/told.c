/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The thread is in no slow path while it tells, so nobody waits for the program; the
 * mark of an allocation that goes on later keeps the pool from its end, and the
 * thread's caches from others.
 */
#include "pool/observe/told/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binade/callbacks.h"
#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/core/ops.h"
#include "pool/core/outside.h"
#include "pool/oom/beside.h"

struct binadei_told {
    struct binadei_pool_ops ops; /* the pool's */
    const struct binadei_pool_ops *kind;
    binade_allocation_callbacks callbacks;
};

static const struct binadei_told *told_of(const struct binadei_call *call)
{
    return call->pool->body->told;
}

static void told_tell(struct binadei_call *call,
                      binade_allocation_callback function,
                      const binade_allocation *allocation)
{
    struct binadei_outside outside;
    bool was_beside = binadei_is_beside(call);
    if (!function)
        return;
    binadei_set_beside(call, true);
    binadei_slow_path_end(call->thread_state);
    binadei_step_out(call->pool, &outside);
    function(told_of(call)->callbacks.user, allocation);
    binadei_step_in(&outside);
    binadei_call_resume(call);
    binadei_set_beside(call, was_beside);
}

static binade_allocation told_block(struct binadei_call *call,
                                    binade_devptr address)
{
    return (binade_allocation){
        .struct_size = (uint32_t)sizeof(binade_allocation),
        .pool = call->pool,
        .address = address,
        .size_bytes = told_of(call)->kind->live_bytes(call, address),
        .stream = call->stream,
    };
}

static void told_tell_allocated(struct binadei_call *call,
                                binade_devptr address, size_t size_bytes)
{
    binade_allocation allocation = told_block(call, address);
    allocation.requested_bytes = size_bytes;
    told_tell(call, told_of(call)->callbacks.allocated, &allocation);
}

static binade_status told_alloc(struct binadei_call *call,
                                const struct binadei_alloc_args *args,
                                binade_devptr *out)
{
    binade_status status = told_of(call)->kind->alloc(call, args, out);
    if (status == BINADE_OK)
        told_tell_allocated(call, *out, args->size_bytes);
    return status;
}

static binade_status
told_alloc_private(struct binadei_call *call,
                   const struct binadei_private_ref *arena_ref,
                   binade_scope number, size_t size_bytes, binade_devptr *out)
{
    binade_status status = told_of(call)->kind->alloc_private(
        call, arena_ref, number, size_bytes, out);
    if (status == BINADE_OK)
        told_tell_allocated(call, *out, size_bytes);
    return status;
}

static binade_status told_claim(struct binadei_call *call,
                                const struct binadei_private_ref *arena_ref,
                                binade_devptr address, size_t size_bytes)
{
    binade_status status =
        told_of(call)->kind->claim(call, arena_ref, address, size_bytes);
    if (status == BINADE_OK)
        told_tell_allocated(call, address, size_bytes);
    return status;
}

/* The block is there still; what the functions do changes no message. */
static void told_take_back(struct binadei_call *call, binade_status status,
                           const binade_allocation *allocation)
{
    char message[BINADEI_MESSAGE_BYTES];
    (void)snprintf(message, sizeof(message), "%s", binadei_failure_message());
    told_tell(call, told_of(call)->callbacks.allocated, allocation);
    (void)binadei_fail(status, "%s", message);
}

static binade_allocation told_freeing(struct binadei_call *call,
                                      binade_devptr address,
                                      binade_stream stream)
{
    binade_allocation allocation = told_block(call, address);
    allocation.stream = stream;
    if (allocation.size_bytes)
        told_tell(call, told_of(call)->callbacks.freeing, &allocation);
    return allocation;
}

static binade_status told_freed(struct binadei_call *call, binade_status status,
                                const binade_allocation *allocation)
{
    if (allocation->size_bytes && status != BINADE_OK)
        told_take_back(call, status, allocation);
    return status;
}

static binade_status told_free(struct binadei_call *call, binade_devptr address,
                               size_t size_bytes, uint64_t *out_bytes)
{
    const struct binadei_pool_ops *kind = told_of(call)->kind;
    binade_allocation allocation = told_freeing(call, address, call->stream);
    return told_freed(call, kind->free(call, address, size_bytes, out_bytes),
                      &allocation);
}

static binade_status told_free_after(struct binadei_call *call,
                                     binade_devptr address, binade_event event)
{
    const struct binadei_pool_ops *kind = told_of(call)->kind;
    binade_allocation allocation =
        told_freeing(call, address, BINADE_STREAM_ANY);
    return told_freed(call, kind->free_after(call, address, event),
                      &allocation);
}

/* A block that changes its length is told of as in a history: the old one goes, and
 * one at the same address comes. */
static binade_status told_resize(struct binadei_call *call,
                                 binade_devptr address, size_t size_bytes)
{
    const struct binadei_told *told = told_of(call);
    binade_allocation before = told_block(call, address);
    binade_status status = told->kind->resize(call, address, size_bytes);
    if (status == BINADE_OK) {
        told_tell(call, told->callbacks.freeing, &before);
        told_tell_allocated(call, address, size_bytes);
    }
    return status;
}

static binade_status told_check(const binade_allocation_callbacks *given)
{
    if (given->struct_size < sizeof(*given) || given->flags) {
        return binadei_fail(
            BINADE_E_INVALID,
            "option allocation_callbacks: struct_size is %u and "
            "flags 0x%x; accepted are %zu or more, and 0",
            given->struct_size, given->flags, sizeof(*given));
    }
    return given->allocated || given->freeing
               ? BINADE_OK
               : binadei_fail(BINADE_E_INVALID,
                              "option allocation_callbacks: allocated and "
                              "freeing are NULL; accepted is one of them");
}

static void told_wrap(struct binadei_told *told,
                      const struct binadei_pool_ops *kind)
{
    told->kind = kind;
    told->ops = *kind;
    told->ops.alloc = told_alloc;
    told->ops.alloc_private = told_alloc_private;
    told->ops.claim = told_claim;
    told->ops.free = told_free;
    told->ops.free_after = told_free_after;
    told->ops.resize = told_resize;
}

binade_status binadei_told_create(struct binadei_pool_body *body)
{
    const binade_allocation_callbacks *given =
        body->options.allocation_callbacks;
    if (!given)
        return BINADE_OK;
    binade_status status = told_check(given);
    if (status != BINADE_OK)
        return status;
    struct binadei_told *told = calloc(1, sizeof(*told));
    if (!told)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for a pool");
    memcpy(&told->callbacks, given, sizeof(told->callbacks));
    told->callbacks.struct_size = (uint32_t)sizeof(told->callbacks);
    told_wrap(told, body->ops);
    body->told = told;
    body->ops = &told->ops;
    /* AT, relaxed: nobody else has the handle yet. */
    atomic_fetch_or_explicit(&body->pool->attention, BINADEI_ATTENTION_TOLD,
                             memory_order_relaxed);
    return BINADE_OK;
}

void binadei_told_destroy(struct binadei_told *told)
{
    free(told);
}

const binade_allocation_callbacks *
binadei_told_callbacks(const struct binadei_told *told)
{
    return told ? &told->callbacks : NULL;
}

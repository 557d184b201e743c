/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The thread is in no slow path while it tells, so nobody waits for the program; the
 * mark of an allocation that goes on later keeps the pool from its end, and the
 * thread's caches from others.
 */
#include "pool/observe/told/told.h"

#include <stdlib.h>
#include <string.h>

#include "moiety/callbacks.h"
#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/core/ops.h"
#include "pool/core/outside.h"
#include "pool/oom/beside.h"

struct moietyi_told {
    struct moietyi_pool_ops ops; /* the pool's */
    const struct moietyi_pool_ops *kind;
    moiety_allocation_callbacks callbacks;
};

static const struct moietyi_told *told_of(const struct moietyi_call *call)
{
    return call->pool->body->told;
}

static void told_tell(struct moietyi_call *call,
                      moiety_allocation_callback function,
                      const moiety_allocation *allocation)
{
    struct moietyi_outside outside;
    bool was_beside = moietyi_is_beside(call);
    if (!function)
        return;
    moietyi_set_beside(call, true);
    moietyi_slow_path_end(call->thread_state);
    moietyi_step_out(call->pool, &outside);
    function(told_of(call)->callbacks.user, allocation);
    moietyi_step_in(&outside);
    moietyi_call_resume(call);
    moietyi_set_beside(call, was_beside);
}

static moiety_allocation told_block(struct moietyi_call *call,
                                    moiety_devptr address)
{
    return (moiety_allocation){
        .struct_size = (uint32_t)sizeof(moiety_allocation),
        .pool = call->pool,
        .address = address,
        .size_bytes = told_of(call)->kind->live_bytes(call, address),
        .stream = call->stream,
    };
}

static void told_tell_allocated(struct moietyi_call *call,
                                moiety_devptr address, size_t size_bytes)
{
    moiety_allocation allocation = told_block(call, address);
    allocation.requested_bytes = size_bytes;
    told_tell(call, told_of(call)->callbacks.allocated, &allocation);
}

static moiety_status told_alloc(struct moietyi_call *call,
                                const struct moietyi_alloc_args *args,
                                moiety_devptr *out)
{
    moiety_status status = told_of(call)->kind->alloc(call, args, out);
    if (status == MOIETY_OK)
        told_tell_allocated(call, *out, args->size_bytes);
    return status;
}

static moiety_status
told_alloc_private(struct moietyi_call *call,
                   const struct moietyi_private_ref *arena_ref,
                   moiety_scope number, const struct moietyi_alloc_args *args,
                   moiety_devptr *out)
{
    moiety_status status =
        told_of(call)->kind->alloc_private(call, arena_ref, number, args, out);
    if (status == MOIETY_OK)
        told_tell_allocated(call, *out, args->size_bytes);
    return status;
}

static moiety_status told_claim(struct moietyi_call *call,
                                const struct moietyi_private_ref *arena_ref,
                                moiety_devptr address, size_t size_bytes)
{
    moiety_status status =
        told_of(call)->kind->claim(call, arena_ref, address, size_bytes);
    if (status == MOIETY_OK)
        told_tell_allocated(call, address, size_bytes);
    return status;
}

/* The block is there still; what the functions do changes no message. */
static void told_take_back(struct moietyi_call *call,
                           const moiety_allocation *allocation)
{
    struct moietyi_failure kept;
    moietyi_failure_keep(&kept);
    told_tell(call, told_of(call)->callbacks.allocated, allocation);
    moietyi_failure_restore(&kept);
}

static moiety_allocation told_freeing(struct moietyi_call *call,
                                      moiety_devptr address,
                                      moiety_stream stream)
{
    moiety_allocation allocation = told_block(call, address);
    allocation.stream = stream;
    if (allocation.size_bytes)
        told_tell(call, told_of(call)->callbacks.freeing, &allocation);
    return allocation;
}

static moiety_status told_freed(struct moietyi_call *call, moiety_status status,
                                const moiety_allocation *allocation)
{
    if (allocation->size_bytes && status != MOIETY_OK)
        told_take_back(call, allocation);
    return status;
}

static moiety_status told_free(struct moietyi_call *call, moiety_devptr address,
                               size_t size_bytes, uint64_t *out_bytes)
{
    const struct moietyi_pool_ops *kind = told_of(call)->kind;
    moiety_allocation allocation = told_freeing(call, address, call->stream);
    return told_freed(call, kind->free(call, address, size_bytes, out_bytes),
                      &allocation);
}

static moiety_status told_free_after(struct moietyi_call *call,
                                     moiety_devptr address, moiety_event event)
{
    const struct moietyi_pool_ops *kind = told_of(call)->kind;
    moiety_allocation allocation =
        told_freeing(call, address, MOIETY_STREAM_ANY);
    return told_freed(call, kind->free_after(call, address, event),
                      &allocation);
}

/* A change of length is reported as in a history: the old block goes, and one
 * at the same address comes. */
static moiety_status told_resize(struct moietyi_call *call,
                                 moiety_devptr address, size_t size_bytes)
{
    const struct moietyi_told *told = told_of(call);
    moiety_allocation before = told_block(call, address);
    moiety_status status = told->kind->resize(call, address, size_bytes);
    if (status == MOIETY_OK) {
        told_tell(call, told->callbacks.freeing, &before);
        told_tell_allocated(call, address, size_bytes);
    }
    return status;
}

static moiety_status told_check(const moiety_allocation_callbacks *given)
{
    if (given->struct_size < sizeof(*given) || given->flags) {
        return moietyi_fail(
            MOIETY_E_INVALID,
            "option allocation_callbacks: struct_size is %u and "
            "flags 0x%x; accepted are %zu or more, and 0",
            given->struct_size, given->flags, sizeof(*given));
    }
    return given->allocated || given->freeing
               ? MOIETY_OK
               : moietyi_fail(MOIETY_E_INVALID,
                              "option allocation_callbacks: allocated and "
                              "freeing are NULL; accepted is one of them");
}

static void told_wrap(struct moietyi_told *told,
                      const struct moietyi_pool_ops *kind)
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

moiety_status moietyi_told_create(struct moietyi_pool_body *body)
{
    const moiety_allocation_callbacks *given =
        body->options.allocation_callbacks;
    if (!given)
        return MOIETY_OK;
    moiety_status status = told_check(given);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_told *told = calloc(1, sizeof(*told));
    if (!told)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a pool");
    memcpy(&told->callbacks, given, sizeof(told->callbacks));
    told->callbacks.struct_size = (uint32_t)sizeof(told->callbacks);
    told_wrap(told, body->ops);
    body->told = told;
    body->ops = &told->ops;
    /* AT, relaxed: nobody else has the handle yet. */
    atomic_fetch_or_explicit(&body->pool->attention, MOIETYI_ATTENTION_TOLD,
                             memory_order_relaxed);
    return MOIETY_OK;
}

void moietyi_told_destroy(struct moietyi_told *told)
{
    free(told);
}

const moiety_allocation_callbacks *
moietyi_told_callbacks(const struct moietyi_told *told)
{
    return told ? &told->callbacks : NULL;
}

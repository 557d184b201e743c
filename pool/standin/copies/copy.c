/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How copies are checked, staged, queued and done.
 */
#include "pool/standin/copies/copy.h"

#include <stdlib.h>
#include <string.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/memory/address.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

/* Up to here the driver keeps a copy of pageable memory and returns. */
#define STAGED_MAX_BYTES ((size_t)64 << 10)

bool copy_extent(size_t width_bytes, size_t height, size_t pitch_bytes,
                 size_t *out)
{
    size_t lines_bytes;
    return !__builtin_mul_overflow(height - 1, pitch_bytes, &lines_bytes) &&
           !__builtin_add_overflow(lines_bytes, width_bytes, out);
}

static CUresult copy_resolve(const struct copy *copy, unsigned char **out_dst,
                             unsigned char **out_src)
{
    size_t dst_bytes;
    size_t src_bytes;
    if (!copy_extent(copy->width_bytes, copy->height, copy->dst_pitch_bytes,
                     &dst_bytes) ||
        !copy_extent(copy->width_bytes, copy->height, copy->src_pitch_bytes,
                     &src_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult code = memory_resolve(copy->dst, dst_bytes, out_dst);
    if (code != CUDA_SUCCESS)
        return code;
    if (!copy->staged)
        return memory_resolve(copy->src, src_bytes, out_src);
    *out_src = copy->staged;
    return CUDA_SUCCESS;
}

static CUresult copy_run(struct work *work)
{
    const struct copy *copy = &work->as.copy;
    unsigned char *dst;
    unsigned char *src;
    standin_lock();
    CUresult code = copy_resolve(copy, &dst, &src);
    standin_unlock();
    if (code != CUDA_SUCCESS)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t line = 0; line < copy->height; line++)
        memmove(dst + line * copy->dst_pitch_bytes,
                src + line * copy->src_pitch_bytes, copy->width_bytes);
    return CUDA_SUCCESS;
}

static void copy_drop(struct work *work)
{
    free(work->as.copy.staged);
}

static bool side_is_good(CUdeviceptr address, enum copy_side side)
{
    return address && (side != SIDE_DEVICE || !memory_is_pageable(address));
}

static CUresult copy_check(const struct copy_request *request)
{
    const struct copy *copy = &request->copy;
    unsigned char *dst;
    unsigned char *src;
    if (!side_is_good(copy->dst, request->dst_side) ||
        !side_is_good(copy->src, request->src_side))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_resolve(copy, &dst, &src);
}

static bool is_device_memory(CUdeviceptr address)
{
    const struct address_range *range = address_find(&address_live, address);
    return range && range->device && range->kind != ADDRESS_MANAGED;
}

/* A call returns before its copy is done where the driver can read and write
 * both sides later by itself. */
static bool must_wait(const struct copy_request *request)
{
    const struct copy *copy = &request->copy;
    if (request->is_sync)
        return !is_device_memory(copy->dst) || !is_device_memory(copy->src);
    return memory_is_pageable(copy->dst) ||
           (memory_is_pageable(copy->src) && !copy->staged);
}

/* Keeps what a small pageable source holds now. */
static void stage(const struct copy_request *request, struct copy *copy)
{
    if (request->is_sync || copy->height != 1 ||
        copy->width_bytes > STAGED_MAX_BYTES ||
        !memory_is_pageable(copy->src) || memory_is_pageable(copy->dst))
        return;
    copy->staged = engine_alloc(copy->width_bytes);
    memcpy(copy->staged, (const void *)(uintptr_t)copy->src, copy->width_bytes);
}

/* The other contexts whose memory a copy touches. */
static size_t foreign_contexts(const struct copy *copy,
                               const struct CUctx_st *own,
                               struct CUctx_st *out[2])
{
    const CUdeviceptr sides[2] = {copy->dst, copy->src};
    size_t count = 0;
    for (int i = 0; i < 2; i++) {
        const struct address_range *range =
            address_find(&address_live, sides[i]);
        if (!range || !range->context || range->context == own ||
            !range->context->engine || (count && out[0] == range->context))
            continue;
        out[count++] = range->context;
    }
    return count;
}

/* A copy between contexts keeps their memory busy until it is done; a plain
 * one also takes its turn among the work of them all. Referenced. */
static struct op *enqueue_copy(struct CUstream_st *stream,
                               const struct work *work, bool is_sync)
{
    struct CUctx_st *others[2];
    size_t count = foreign_contexts(&work->as.copy, stream->context, others);
    struct op *before = NULL;
    for (size_t i = 0; is_sync && i < count; i++) {
        struct op *turn =
            enqueue(others[i]->engine->legacy, &op_marker, before);
        op_unref(before);
        before = turn;
    }
    struct op *op = enqueue(stream, work, before);
    op_unref(before);
    for (size_t i = 0; i < count; i++) {
        struct engine *engine = others[i]->engine;
        engine_keep_busy(engine, op);
        if (is_sync)
            op_unref(enqueue(engine->legacy, &op_marker, op));
    }
    return op;
}

/* On its stream's device. */
static bool may_access(const struct copy *copy,
                       const struct CUstream_st *stream)
{
    int device = stream->context->device->ordinal;
    size_t dst_bytes;
    size_t src_bytes;
    return copy_extent(copy->width_bytes, copy->height, copy->dst_pitch_bytes,
                       &dst_bytes) &&
           copy_extent(copy->width_bytes, copy->height, copy->src_pitch_bytes,
                       &src_bytes) &&
           memory_is_for(copy->dst, dst_bytes, device) &&
           memory_is_for(copy->src, src_bytes, device);
}

static CUresult copy_queue(struct CUstream_st *stream,
                           struct copy_request *request)
{
    struct CUctx_st *context = stream->context;
    stage(request, &request->copy);
    bool waits = must_wait(request);
    const struct work work = {.run = copy_run,
                              .drop = copy_drop,
                              .node_type = CU_GRAPH_NODE_TYPE_MEMCPY,
                              .as.copy = request->copy};
    struct op *op = enqueue_copy(stream, &work, request->is_sync);
    if (waits)
        return engine_wait_for(context, op);
    op_unref(op);
    return CUDA_SUCCESS;
}

static CUresult capture_copy(struct CUstream_st *stream,
                             const struct copy_request *request)
{
    const struct work work = {.run = copy_run,
                              .node_type = CU_GRAPH_NODE_TYPE_MEMCPY,
                              .as.copy = request->copy};
    if (request->is_sync)
        return capture_refuse(stream);
    return launch(stream, &work, NULL);
}

CUresult copy_submit(const struct copy_request *request)
{
    CUresult why;
    struct copy_request own = *request;
    bool is_empty = own.copy.width_bytes == 0 || own.copy.height == 0;
    if (!is_empty && (why = copy_check(&own)) != CUDA_SUCCESS)
        return why;
    struct CUstream_st *stream =
        launch_begin(own.stream, own.is_per_thread, &why);
    if (!stream || is_empty)
        return why;
    if (!own.is_between_peers && !may_access(&own.copy, stream))
        return CUDA_ERROR_INVALID_VALUE;
    return stream->capture ? capture_copy(stream, &own)
                           : copy_queue(stream, &own);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory set to a value of 8, 16 or 32 bits, in a run or in lines. The plain
 * calls return at once for device memory, as the driver's do.
 */
#include <string.h>

#include "pool/standin/copies/copy.h"
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/memory/address.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/streams/engine_internal.h"
#include "pool/standin/work/capture.h"

static CUresult memset_resolve(const struct fill *fill, unsigned char **out)
{
    size_t width_bytes;
    size_t extent_bytes;
    if (__builtin_mul_overflow(fill->width, fill->element_bytes,
                               &width_bytes) ||
        !copy_extent(width_bytes, fill->height, fill->pitch_bytes,
                     &extent_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return memory_resolve(fill->dst, extent_bytes, out);
}

static void fill_line(unsigned char *line, const struct fill *fill)
{
    if (fill->element_bytes == 1) {
        memset(line, (int)fill->value, fill->width);
        return;
    }
    if (!fill->width)
        return;
    size_t size_bytes = fill->width * fill->element_bytes;
    size_t filled = fill->element_bytes;
    /* The value's low bytes come first on every machine that has CUDA. */
    memcpy(line, &fill->value, filled);
    /* Sanitizers look at each call: few long ones. */
    while (filled < size_bytes) {
        size_t rest = size_bytes - filled;
        size_t more = filled < rest ? filled : rest;
        memcpy(line + filled, line, more);
        filled += more;
    }
}

static CUresult memset_run(struct work *work)
{
    const struct fill *fill = &work->as.fill;
    unsigned char *dst;
    standin_lock();
    CUresult code = memset_resolve(fill, &dst);
    standin_unlock();
    if (code != CUDA_SUCCESS)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t line = 0; line < fill->height; line++)
        fill_line(dst + line * fill->pitch_bytes, fill);
    return CUDA_SUCCESS;
}

static CUresult memset_check(const struct fill *fill)
{
    unsigned char *dst;
    if (!fill->dst || fill->dst % fill->element_bytes ||
        memory_is_pageable(fill->dst))
        return CUDA_ERROR_INVALID_VALUE;
    if (fill->height > 1 &&
        (fill->pitch_bytes % fill->element_bytes ||
         fill->pitch_bytes / fill->element_bytes < fill->width))
        return CUDA_ERROR_INVALID_VALUE;
    return memset_resolve(fill, &dst);
}

/* Memory that the CPU sees is set when a plain call returns. */
static bool is_host_visible(CUdeviceptr address)
{
    const struct address_range *range = address_find(&address_live, address);
    return range && (!range->device || range->kind == ADDRESS_MANAGED);
}

static CUresult memset_queue(struct CUstream_st *stream,
                             const struct work *work, bool is_sync)
{
    struct op *op;
    struct CUctx_st *context = stream->context;
    if (stream->capture && is_sync)
        return capture_refuse(stream);
    bool waits = is_sync && is_host_visible(work->as.fill.dst);
    CUresult code = launch(stream, work, &op);
    if (waits && code == CUDA_SUCCESS)
        return engine_wait_for(context, op);
    op_unref(op);
    return code;
}

static CUresult memset_submit(bool is_per_thread, CUstream handle, bool is_sync,
                              const struct fill *fill)
{
    CUresult why;
    const struct work work = {.run = memset_run,
                              .node_type = CU_GRAPH_NODE_TYPE_MEMSET,
                              .as.fill = *fill};
    bool is_empty = fill->width == 0 || fill->height == 0;
    if (!is_empty && (why = memset_check(fill)) != CUDA_SUCCESS)
        return why;
    struct CUstream_st *stream = launch_begin(handle, is_per_thread, &why);
    if (!stream || is_empty)
        return why;
    if (!memory_is_for(fill->dst, fill->width * fill->element_bytes,
                       stream->context->device->ordinal))
        return CUDA_ERROR_INVALID_VALUE;
    return memset_queue(stream, &work, is_sync);
}

static CUresult fill_sync(bool is_per_thread, struct fill fill)
{
    return memset_submit(is_per_thread, NULL, true, &fill);
}

static CUresult fill_async(bool is_per_thread, CUstream stream,
                           struct fill fill)
{
    return memset_submit(is_per_thread, stream, false, &fill);
}

static struct fill run_of(CUdeviceptr dst, uint32_t value, size_t width,
                          size_t element_bytes)
{
    return (struct fill){.dst = dst,
                         .element_bytes = element_bytes,
                         .width = width,
                         .height = 1,
                         .value = value};
}

static struct fill lines_of(struct fill line, size_t pitch_bytes, size_t height)
{
    line.pitch_bytes = pitch_bytes;
    line.height = height;
    return line;
}

#define DEFINE_FILLS(bits, type)                                               \
    DEFINE_BOTH(cuMemsetD##bits##_v2, _ptds,                                   \
                (CUdeviceptr dst, type value, size_t count), fill_sync,        \
                run_of(dst, value, count, (bits) / 8))                         \
    DEFINE_BOTH(cuMemsetD##bits##Async, _ptsz,                                 \
                (CUdeviceptr dst, type value, size_t count, CUstream stream),  \
                fill_async, stream, run_of(dst, value, count, (bits) / 8))     \
    DEFINE_BOTH(                                                               \
        cuMemsetD2D##bits##_v2, _ptds,                                         \
        (CUdeviceptr dst, size_t pitch, type value, size_t width,              \
         size_t height),                                                       \
        fill_sync,                                                             \
        lines_of(run_of(dst, value, width, (bits) / 8), pitch, height))        \
    DEFINE_BOTH(                                                               \
        cuMemsetD2D##bits##Async, _ptsz,                                       \
        (CUdeviceptr dst, size_t pitch, type value, size_t width,              \
         size_t height, CUstream stream),                                      \
        fill_async, stream,                                                    \
        lines_of(run_of(dst, value, width, (bits) / 8), pitch, height))

DEFINE_FILLS(8, unsigned char)
DEFINE_FILLS(16, unsigned short)
DEFINE_FILLS(32, unsigned)

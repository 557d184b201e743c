/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries that copy lines of bytes. There are no arrays here: a line is in
 * host, device or unified memory.
 */
#include "pool/standin/copies/copy.h"
#include "pool/standin/entries/engine_api.h"

/* One side of a CUDA_MEMCPY2D. */
struct plane {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x_bytes, y, pitch_bytes;
};

static CUresult planes_side_of(const struct plane *plane, size_t width_bytes,
                               CUdeviceptr *out, enum copy_side *out_side)
{
    CUdeviceptr base = plane->device;
    switch (plane->type) {
    case CU_MEMORYTYPE_HOST:
        base = (CUdeviceptr)(uintptr_t)plane->host;
        *out_side = SIDE_HOST;
        break;
    case CU_MEMORYTYPE_DEVICE:
        *out_side = SIDE_DEVICE;
        break;
    case CU_MEMORYTYPE_UNIFIED:
        *out_side = SIDE_ANY;
        break;
    case CU_MEMORYTYPE_ARRAY:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (plane->pitch_bytes && plane->pitch_bytes < plane->x_bytes + width_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *out = base ? base + plane->y * plane->pitch_bytes + plane->x_bytes : 0;
    return CUDA_SUCCESS;
}

/* Pitch 0 means lines without a gap. */
static size_t pitch_or(size_t pitch_bytes, size_t width_bytes)
{
    return pitch_bytes ? pitch_bytes : width_bytes;
}

static CUresult fill_in(const CUDA_MEMCPY2D *from, struct copy_request *out)
{
    size_t width = from->WidthInBytes;
    struct copy *copy = &out->copy;
    const struct plane dst = {
        from->dstMemoryType, from->dstHost, from->dstDevice,
        from->dstXInBytes,   from->dstY,    pitch_or(from->dstPitch, width)};
    const struct plane src = {
        from->srcMemoryType, from->srcHost, from->srcDevice,
        from->srcXInBytes,   from->srcY,    pitch_or(from->srcPitch, width)};
    copy->width_bytes = width;
    copy->height = from->Height;
    copy->dst_pitch_bytes = dst.pitch_bytes;
    copy->src_pitch_bytes = src.pitch_bytes;
    CUresult code = planes_side_of(&dst, width, &copy->dst, &out->dst_side);
    if (code != CUDA_SUCCESS)
        return code;
    return planes_side_of(&src, width, &copy->src, &out->src_side);
}

static CUresult planes_submit(const CUDA_MEMCPY2D *from,
                              struct copy_request *request)
{
    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult code = fill_in(from, request);
    return code == CUDA_SUCCESS ? copy_submit(request) : code;
}

static CUresult planes_copy_sync(bool is_per_thread, const CUDA_MEMCPY2D *from)
{
    struct copy_request request = {.is_per_thread = is_per_thread,
                                   .is_sync = true};
    return planes_submit(from, &request);
}

static CUresult planes_copy_async(bool is_per_thread, const CUDA_MEMCPY2D *from,
                                  CUstream stream)
{
    struct copy_request request = {.is_per_thread = is_per_thread,
                                   .stream = stream};
    return planes_submit(from, &request);
}

DEFINE_BOTH(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *from), planes_copy_sync,
            from)
DEFINE_BOTH(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *from),
            planes_copy_sync, from)
DEFINE_BOTH(cuMemcpy2DAsync_v2, _ptsz,
            (const CUDA_MEMCPY2D *from, CUstream stream), planes_copy_async,
            from, stream)

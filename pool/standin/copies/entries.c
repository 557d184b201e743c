/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries that copy one run of bytes.
 */
#include "pool/standin/base/context.h"
#include "pool/standin/copies/copy.h"
#include "pool/standin/entries/engine_api.h"

struct sides {
    enum copy_side dst, src;
    bool are_peers;
};

static const struct sides any = {SIDE_ANY, SIDE_ANY, false};
static const struct sides in = {SIDE_DEVICE, SIDE_HOST, false};
static const struct sides out = {SIDE_HOST, SIDE_DEVICE, false};
static const struct sides device = {SIDE_DEVICE, SIDE_DEVICE, false};
static const struct sides peers = {SIDE_DEVICE, SIDE_DEVICE, true};

static CUdeviceptr copies_of_pointer(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static struct copy_request request_of(struct sides sides, CUdeviceptr dst,
                                      CUdeviceptr src, size_t size_bytes)
{
    return (struct copy_request){.copy = {.dst = dst,
                                          .src = src,
                                          .width_bytes = size_bytes,
                                          .height = 1},
                                 .dst_side = sides.dst,
                                 .src_side = sides.src,
                                 .is_between_peers = sides.are_peers};
}

static CUresult copies_copy_sync(bool is_per_thread, struct sides sides,
                                 CUdeviceptr dst, CUdeviceptr src,
                                 size_t size_bytes)
{
    struct copy_request request = request_of(sides, dst, src, size_bytes);
    request.is_per_thread = is_per_thread;
    request.is_sync = true;
    return copy_submit(&request);
}

static CUresult copies_copy_async(bool is_per_thread, struct sides sides,
                                  CUdeviceptr dst, CUdeviceptr src,
                                  size_t size_bytes, CUstream stream)
{
    struct copy_request request = request_of(sides, dst, src, size_bytes);
    request.is_per_thread = is_per_thread;
    request.stream = stream;
    return copy_submit(&request);
}

DEFINE_BOTH(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t size),
            copies_copy_sync, any, dst, src, size)
DEFINE_BOTH(cuMemcpyDtoD_v2, _ptds,
            (CUdeviceptr dst, CUdeviceptr src, size_t size), copies_copy_sync,
            device, dst, src, size)
DEFINE_BOTH(cuMemcpyHtoD_v2, _ptds,
            (CUdeviceptr dst, const void *src, size_t size), copies_copy_sync,
            in, dst, copies_of_pointer(src), size)
DEFINE_BOTH(cuMemcpyDtoH_v2, _ptds, (void *dst, CUdeviceptr src, size_t size),
            copies_copy_sync, out, copies_of_pointer(dst), src, size)

DEFINE_BOTH(cuMemcpyAsync, _ptsz,
            (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
            copies_copy_async, any, dst, src, size, stream)
DEFINE_BOTH(cuMemcpyDtoDAsync_v2, _ptsz,
            (CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream),
            copies_copy_async, device, dst, src, size, stream)
DEFINE_BOTH(cuMemcpyHtoDAsync_v2, _ptsz,
            (CUdeviceptr dst, const void *src, size_t size, CUstream stream),
            copies_copy_async, in, dst, copies_of_pointer(src), size, stream)
DEFINE_BOTH(cuMemcpyDtoHAsync_v2, _ptsz,
            (void *dst, CUdeviceptr src, size_t size, CUstream stream),
            copies_copy_async, out, copies_of_pointer(dst), src, size, stream)

/* Both contexts must live; the copy goes on a stream of the current one. */
static CUresult check_contexts(CUcontext dst, CUcontext src)
{
    CUresult code = context_check(dst);
    return code == CUDA_SUCCESS ? context_check(src) : code;
}

static CUresult peer_sync(bool is_per_thread, CUdeviceptr dst, CUcontext dst_in,
                          CUdeviceptr src, CUcontext src_in, size_t size_bytes)
{
    CUresult code = check_contexts(dst_in, src_in);
    if (code != CUDA_SUCCESS)
        return code;
    return copies_copy_sync(is_per_thread, peers, dst, src, size_bytes);
}

static CUresult peer_async(bool is_per_thread, CUdeviceptr dst,
                           CUcontext dst_in, CUdeviceptr src, CUcontext src_in,
                           size_t size_bytes, CUstream stream)
{
    CUresult code = check_contexts(dst_in, src_in);
    if (code != CUDA_SUCCESS)
        return code;
    return copies_copy_async(is_per_thread, peers, dst, src, size_bytes,
                             stream);
}

DEFINE_BOTH(cuMemcpyPeer, _ptds,
            (CUdeviceptr dst, CUcontext dst_in, CUdeviceptr src,
             CUcontext src_in, size_t size),
            peer_sync, dst, dst_in, src, src_in, size)
DEFINE_BOTH(cuMemcpyPeerAsync, _ptsz,
            (CUdeviceptr dst, CUcontext dst_in, CUdeviceptr src,
             CUcontext src_in, size_t size, CUstream stream),
            peer_async, dst, dst_in, src, src_in, size, stream)

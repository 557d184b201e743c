/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Other processes and other devices.
 */
#include "allocator.h"

#include <moiety/segment.h>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

namespace moiety_torch
{

caching::ShareableHandle Allocator::shareIpcHandle(void *block)
{
    size_t bytes;
    int device = pools_.device_of(block, c10::cuda::current_device(), &bytes);
    TORCH_CHECK(device >= 0, "invalid device pointer: ", block);
    return sharing_.share(pools_.find(device), block);
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle)
{
    return sharing_.open(handle);
}

/* The device `device` is to reach memory of the device `of`. */
void Allocator::enablePeerAccess(Device device, Device of)
{
    c10::cuda::CUDAGuard guard(device);
    cudaError_t error = C10_CUDA_ERROR_HANDLED(
        cudaDeviceEnablePeerAccess(static_cast<int>(of), 0));
    if (error == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
    else
        C10_CUDA_CHECK(error);
    moiety_pool *pool = pools_.get(of);
    moiety_status status = moiety_pool_add_peer(pool, device);
    /* Memory that is not mapped is reached by what the driver has enabled. */
    if (status != MOIETY_E_UNSUPPORTED)
        check(status, "the device cannot reach the other's memory");
}

cudaError_t Allocator::memcpyAsync(void *to, int to_device, const void *from,
                                   int from_device, size_t bytes,
                                   cudaStream_t stream, bool is_peer_enabled)
{
    if (is_peer_enabled || to_device == from_device)
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                               stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

} // namespace moiety_torch

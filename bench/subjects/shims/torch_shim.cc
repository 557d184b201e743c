/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's caching allocator behind shim.h: the calls that a library makes that
 * wants raw memory from it. Built by build_shim.sh alone.
 */
#include "shim.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cuda_runtime_api.h>

#include <exception>
#include <string>

namespace caching = c10::cuda::CUDACachingAllocator;

namespace
{

/* False: the device does not tell how much memory it has. */
bool limit(uint64_t limit_bytes)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        return false;
    double fraction = limit_bytes == 0 ? 1.0
                                       : static_cast<double>(limit_bytes) /
                                             static_cast<double>(total_bytes);
    caching::setMemoryFraction(fraction < 1.0 ? fraction : 1.0, 0);
    return true;
}

} // namespace

const char *moiety_shim_start(const char *, uint64_t limit_bytes)
{
    static std::string reason;
    try {
        const auto device_count = c10::cuda::device_count_ensure_non_zero();
        c10::cuda::set_device(0);
        caching::init(device_count);
        return limit(limit_bytes)
                   ? nullptr
                   : "the device does not tell how much memory it has";
    } catch (const std::exception &error) {
        reason = error.what();
        return reason.c_str();
    }
}

int moiety_shim_attach()
{
    try {
        c10::cuda::set_device(0);
        return 1;
    } catch (const std::exception &) {
        return 0;
    }
}

void *moiety_shim_alloc(size_t size_bytes, void *stream)
{
    try {
        return caching::raw_alloc_with_stream(
            size_bytes, static_cast<cudaStream_t>(stream));
    } catch (const std::exception &) {
        return nullptr;
    }
}

void moiety_shim_free(void *block, size_t, void *)
{
    caching::raw_delete(block);
}

void moiety_shim_measure(struct moiety_shim_memory *out)
{
    // The first of each kind is of both of its pools.
    const auto stats = caching::getDeviceStats(0);
    out->allocated_bytes =
        static_cast<uint64_t>(stats.allocated_bytes[0].current);
    out->reserved_bytes =
        static_cast<uint64_t>(stats.reserved_bytes[0].current);
    out->segments_made = static_cast<uint64_t>(stats.segment[0].allocated);
    out->segments_freed = static_cast<uint64_t>(stats.segment[0].freed);
}

void moiety_shim_stop()
{
    try {
        caching::emptyCache();
    } catch (const std::exception &) {
        // The next start says what is wrong.
    }
}

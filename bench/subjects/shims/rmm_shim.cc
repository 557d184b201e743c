/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * RMM's pool and arena behind shim.h, over cudaMalloc. Built by build_shim.sh
 * alone. The pool begins empty and grows as it needs; the arena takes its limit at
 * once, or half of the device's free memory, as is its default.
 */
#include "shim.h"

#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

#include <cuda/memory_resource>
#include <cuda_runtime_api.h>

#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace
{

constexpr size_t kAlignment = 256;

struct Resources {
    rmm::mr::statistics_resource_adaptor upstream;
    rmm::mr::statistics_resource_adaptor resource;
};
std::unique_ptr<Resources> resources;

std::optional<size_t> rounded(uint64_t limit_bytes)
{
    if (limit_bytes == 0)
        return std::nullopt;
    return limit_bytes / kAlignment * kAlignment;
}

std::unique_ptr<Resources> make(const std::string &name, uint64_t limit_bytes)
{
    rmm::mr::statistics_resource_adaptor upstream{
        rmm::mr::cuda_memory_resource{}};
    auto limit = rounded(limit_bytes);
    if (name == "rmm-arena")
        return std::make_unique<Resources>(Resources{
            upstream, rmm::mr::statistics_resource_adaptor{
                          rmm::mr::arena_memory_resource{upstream, limit}}});
    return std::make_unique<Resources>(Resources{
        upstream, rmm::mr::statistics_resource_adaptor{
                      rmm::mr::pool_memory_resource{upstream, 0, limit}}});
}

cuda::stream_ref stream_of(void *stream)
{
    return cuda::stream_ref{static_cast<cudaStream_t>(stream)};
}

} // namespace

const char *moiety_shim_start(const char *name, uint64_t limit_bytes)
{
    static std::string reason;
    try {
        if (cudaSetDevice(0) != cudaSuccess)
            return "the runtime refuses device 0";
        resources = make(name, limit_bytes);
        return nullptr;
    } catch (const std::exception &error) {
        reason = error.what();
        return reason.c_str();
    }
}

int moiety_shim_attach()
{
    return cudaSetDevice(0) == cudaSuccess;
}

void *moiety_shim_alloc(size_t size_bytes, void *stream)
{
    try {
        return resources->resource.allocate(stream_of(stream), size_bytes,
                                            kAlignment);
    } catch (const std::exception &) {
        return nullptr;
    }
}

void moiety_shim_free(void *block, size_t size_bytes, void *stream)
{
    resources->resource.deallocate(stream_of(stream), block, size_bytes,
                                   kAlignment);
}

void moiety_shim_measure(struct moiety_shim_memory *out)
{
    auto bytes = resources->upstream.get_bytes_counter();
    auto segments = resources->upstream.get_allocations_counter();
    out->allocated_bytes =
        static_cast<uint64_t>(resources->resource.get_bytes_counter().value);
    out->reserved_bytes = static_cast<uint64_t>(bytes.value);
    out->segments_made = static_cast<uint64_t>(segments.total);
    out->segments_freed =
        static_cast<uint64_t>(segments.total - segments.value);
}

void moiety_shim_stop()
{
    resources.reset();
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's caching allocator behind torch_shim.h: the calls that a library
 * makes that wants raw memory from it. Built by build_torch_shim.sh alone.
 */
#include "torch_shim.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <exception>
#include <string>

namespace caching = c10::cuda::CUDACachingAllocator;

const char *binade_torch_shim_start()
{
    static std::string reason;
    try {
        const auto device_count = c10::cuda::device_count_ensure_non_zero();
        c10::cuda::set_device(0);
        caching::init(device_count);
        return nullptr;
    } catch (const std::exception &error) {
        reason = error.what();
        return reason.c_str();
    }
}

int binade_torch_shim_attach()
{
    try {
        c10::cuda::set_device(0);
        return 1;
    } catch (const std::exception &) {
        return 0;
    }
}

void *binade_torch_shim_alloc(size_t size_bytes, void *stream)
{
    try {
        return caching::raw_alloc_with_stream(
            size_bytes, static_cast<cudaStream_t>(stream));
    } catch (const std::exception &) {
        return nullptr;
    }
}

void binade_torch_shim_free(void *block)
{
    caching::raw_delete(block);
}

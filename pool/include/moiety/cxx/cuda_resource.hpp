/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool, or a tenant of one, as a resource of cuda::mr, for RMM and for CCCL's containers. Needs
 * CCCL, 3.0 or later, which comes with the CUDA Toolkit.
 */
#ifndef MOIETY_CXX_CUDA_RESOURCE_HPP_
#define MOIETY_CXX_CUDA_RESOURCE_HPP_

/* CCCL 3.0 declares resources only where this is defined before its first header
 * of them; later releases do not ask for it. */
#if !defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#if defined(_CUDA__MEMORY_RESOURCE_RESOURCE_H) && CCCL_VERSION < 3001000
#error                                                                         \
    "include moiety/cxx/cuda_resource.hpp before CCCL's headers, or define \
LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE before all of them (CCCL 3.0)"
#endif
#endif

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include "moiety/cxx/error.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/cxx/tenant.hpp"

namespace moiety
{

/**
 * A copyable handle: the pool, and the tenant if it has one, must outlive every copy
 * and what was allocated through it. Two are equal that have the same pool and tenant.
 * Alignment: up to 2 MiB; up to 512 bytes of a tenant that can be paused.
 * Functions that allocate throw out_of_memory or status_error; those that
 * deallocate throw nothing, and report() has what they are refused. Those of the older
 * interface (CCCL 3.0: `allocate_async`) and of the later one (3.1:
 * `allocate(stream, ...)`, `allocate_sync`) are there side by side.
 */
class device_resource
{
  public:
    explicit device_resource(pool_ref pool) noexcept : pool_(pool.get()) {}
    explicit device_resource(const tenant &tenant) noexcept
        : pool_(tenant.pool().get()), tenant_(tenant.get())
    {
    }
    moiety_pool *get() const noexcept
    {
        return pool_;
    }

    /** In the stream's order. */
    void *allocate(cuda::stream_ref stream, std::size_t size_bytes,
                   std::size_t alignment = default_alignment)
    {
        return allocate_for(stream.get(), size_bytes, alignment);
    }
    void deallocate(cuda::stream_ref stream, void *memory, std::size_t,
                    std::size_t = default_alignment) noexcept
    {
        deallocate_for(stream.get(), memory);
    }
    /** With nothing pending: on allocation nothing on any stream, and the caller
     *  has waited for what used the memory before it is deallocated. */
    void *allocate_sync(std::size_t size_bytes,
                        std::size_t alignment = default_alignment)
    {
        return allocate_for(MOIETY_STREAM_DONE, size_bytes, alignment);
    }
    void deallocate_sync(void *memory, std::size_t,
                         std::size_t = default_alignment) noexcept
    {
        deallocate_for(MOIETY_STREAM_DONE, memory);
    }

    void *allocate_async(std::size_t size_bytes, std::size_t alignment,
                         cuda::stream_ref stream)
    {
        return allocate_for(stream.get(), size_bytes, alignment);
    }
    void deallocate_async(void *memory, std::size_t, std::size_t,
                          cuda::stream_ref stream) noexcept
    {
        deallocate_for(stream.get(), memory);
    }
    void *allocate(std::size_t size_bytes,
                   std::size_t alignment = default_alignment)
    {
        return allocate_sync(size_bytes, alignment);
    }
    void deallocate(void *memory, std::size_t size_bytes,
                    std::size_t alignment = default_alignment) noexcept
    {
        deallocate_sync(memory, size_bytes, alignment);
    }

    friend bool operator==(const device_resource &a,
                           const device_resource &b) noexcept
    {
        return a.pool_ == b.pool_ && a.tenant_ == b.tenant_;
    }
    friend bool operator!=(const device_resource &a,
                           const device_resource &b) noexcept
    {
        return !(a == b);
    }
    friend void get_property(const device_resource &,
                             cuda::mr::device_accessible) noexcept
    {
    }

  private:
    static constexpr std::size_t default_alignment = 256;

    void *allocate_for(moiety_stream stream, std::size_t size_bytes,
                       std::size_t alignment) const
    {
        moiety_devptr address = 0;
        moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
        options.alignment_bytes = alignment;
        options.tenant = tenant_;
        check(moiety_alloc_with(pool_, size_bytes, stream, &options, &address));
        return reinterpret_cast<void *>(address);
    }
    void deallocate_for(moiety_stream stream, void *memory) const noexcept
    {
        report(
            moiety_free(pool_, reinterpret_cast<moiety_devptr>(memory), stream),
            "moiety::device_resource");
    }

    moiety_pool *pool_;
    moiety_tenant tenant_ = nullptr;
};

} // namespace moiety

#endif

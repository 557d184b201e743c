/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool as TensorRT's allocator. Needs TensorRT's headers, 10.0 or later.
 */
#ifndef MOIETY_STACKS_TENSORRT_HPP_
#define MOIETY_STACKS_TENSORRT_HPP_

#include <NvInferRuntime.h>

#include "moiety/cxx/pool.hpp"

namespace moiety
{

/**
 * For setGpuAllocator() of an nvinfer1::IRuntime or IBuilder. The pool must
 * outlive it, and it must outlive what TensorRT makes with it. Any thread may
 * call any function, and none throws: nullptr or false says that it failed, and
 * moiety_last_error_message() of the thread says why.
 */
class tensorrt_allocator final : public nvinfer1::IGpuAsyncAllocator
{
  public:
    explicit tensorrt_allocator(pool_ref pool) noexcept : pool_(pool.get()) {}
    moiety_pool *get() const noexcept
    {
        return pool_;
    }

    /** In the stream's order. `alignment` is 0, or a power of two up to 2 MiB. */
    void *allocateAsync(std::uint64_t size_bytes, std::uint64_t alignment,
                        nvinfer1::AllocatorFlags,
                        cudaStream_t stream) noexcept override
    {
        return allocate_for(named(stream), size_bytes, alignment);
    }
    bool deallocateAsync(void *memory, cudaStream_t stream) noexcept override
    {
        return deallocate_for(named(stream), memory);
    }
    /** Where no stream is named, whatever stream uses the memory. */
    void *allocate(std::uint64_t size_bytes, std::uint64_t alignment,
                   nvinfer1::AllocatorFlags) noexcept override
    {
        return allocate_for(MOIETY_STREAM_ANY, size_bytes, alignment);
    }
    bool deallocate(void *memory) noexcept override
    {
        return deallocate_for(MOIETY_STREAM_ANY, memory);
    }
    /** Makes memory longer or shorter where it lies; nullptr where there is no
     *  room behind it, and it is as it was. */
    void *reallocate(void *memory, std::uint64_t,
                     std::uint64_t size_bytes) noexcept override
    {
        return moiety_resize(pool_, reinterpret_cast<moiety_devptr>(memory),
                             size_bytes, MOIETY_STREAM_ANY) == MOIETY_OK
                   ? memory
                   : nullptr;
    }

  private:
    /* TensorRT's null stream is the legacy one, whatever the caller's is. */
    static moiety_stream named(cudaStream_t stream) noexcept
    {
        return stream ? stream : MOIETY_STREAM_LEGACY;
    }
    void *allocate_for(moiety_stream stream, std::uint64_t size_bytes,
                       std::uint64_t alignment) const noexcept
    {
        moiety_devptr address = 0;
        moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
        options.alignment_bytes = alignment;
        moiety_status status =
            moiety_alloc_with(pool_, size_bytes, stream, &options, &address);
        return status == MOIETY_OK ? reinterpret_cast<void *>(address)
                                   : nullptr;
    }
    bool deallocate_for(moiety_stream stream, void *memory) const noexcept
    {
        return moiety_free(pool_, reinterpret_cast<moiety_devptr>(memory),
                           stream) == MOIETY_OK;
    }

    moiety_pool *pool_;
};

} // namespace moiety

#endif

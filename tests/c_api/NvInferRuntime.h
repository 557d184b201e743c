/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * As much of TensorRT's interface for allocators as moiety/stacks/tensorrt.hpp
 * uses, in declarations of our own: for where TensorRT is not.
 */
#ifndef MOIETY_TESTS_C_API_NVINFERRUNTIME_H_
#define MOIETY_TESTS_C_API_NVINFERRUNTIME_H_

#include <cstdint>

typedef struct CUstream_st *cudaStream_t;

namespace nvinfer1
{

using AllocatorFlags = uint32_t;

class IGpuAllocator
{
  public:
    virtual ~IGpuAllocator() noexcept = default;
    [[deprecated]] virtual void *allocate(uint64_t size, uint64_t alignment,
                                          AllocatorFlags flags) noexcept = 0;
    virtual void *reallocate(void *, uint64_t, uint64_t) noexcept
    {
        return nullptr;
    }
    [[deprecated]] virtual bool deallocate(void *memory) noexcept = 0;
    virtual void *allocateAsync(uint64_t size, uint64_t alignment,
                                AllocatorFlags flags,
                                cudaStream_t stream) noexcept = 0;
    virtual bool deallocateAsync(void *memory,
                                 cudaStream_t stream) noexcept = 0;
};

class IGpuAsyncAllocator : public IGpuAllocator
{
  public:
    void *allocateAsync(uint64_t size, uint64_t alignment, AllocatorFlags flags,
                        cudaStream_t stream) noexcept override = 0;
    bool deallocateAsync(void *memory,
                         cudaStream_t stream) noexcept override = 0;
    [[deprecated]] void *allocate(uint64_t size, uint64_t alignment,
                                  AllocatorFlags flags) noexcept override
    {
        return allocateAsync(size, alignment, flags, nullptr);
    }
    [[deprecated]] bool deallocate(void *memory) noexcept override
    {
        return deallocateAsync(memory, nullptr);
    }
};

} // namespace nvinfer1

#endif

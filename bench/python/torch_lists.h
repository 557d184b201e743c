/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An allocator for PyTorch that does next to nothing, to measure others by: a list
 * of blocks for each size, which are never split. It is PyTorch's own with another
 * function in its table of virtual ones, of which the third is allocate(): as g++
 * lays them out for x86-64.
 */
#ifndef MOIETY_BENCH_PYTHON_TORCH_LISTS_H_
#define MOIETY_BENCH_PYTHON_TORCH_LISTS_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <array>
#include <cstring>
#include <unordered_map>

namespace torch_lists
{

using Native = c10::cuda::CUDACachingAllocator::CUDAAllocator;
using Allocate = c10::DataPtr (*)(c10::Allocator *, size_t);

constexpr size_t kBefore = 2; /* words of a table in front of its functions */
constexpr size_t kWords = 128;
constexpr size_t kAllocate = 2;
constexpr size_t kRoundBytes = 512;

using Table = std::array<void *, kWords>;

inline void set_allocate(Table *table, Allocate allocate)
{
    std::memcpy(&(*table)[kBefore + kAllocate], &allocate, sizeof(allocate));
}

struct Block {
    void *address;
    size_t bytes;
    Block *next;
};

using Lists = std::unordered_map<size_t, Block *>;

inline void push(Lists *lists, Block *block)
{
    Block *&first = (*lists)[block->bytes];
    block->next = first;
    first = block;
}

/* NULL: there is none. */
inline Block *pop(Lists *lists, size_t bytes)
{
    Block *&first = (*lists)[bytes];
    Block *block = first;
    if (block)
        first = block->next;
    return block;
}

/* By `Owner`, who has the lists: Owner::Push(block) and Owner::Pop(bytes). */
template <class Owner> void give(void *block)
{
    Owner::Push(static_cast<Block *>(block));
}

template <class Owner> c10::DataPtr take(Native *native, size_t bytes)
{
    const c10::Device place(c10::kCUDA, c10::cuda::current_device());
    if (!bytes)
        return {nullptr, nullptr, &give<Owner>, place};
    bytes = (bytes + kRoundBytes - 1) & ~(kRoundBytes - 1);
    Block *block = Owner::Pop(bytes);
    if (!block)
        block = new Block{native->raw_alloc(bytes), bytes, nullptr};
    return {block->address, block, &give<Owner>, place};
}

} // namespace torch_lists

#endif

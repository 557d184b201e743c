// SPDX-License-Identifier: Apache-2.0
//
// What both forms of PyTorch's algorithm share: how sizes are rounded, which free
// block is the best, and what becomes of neighbours. A Block has `stream`,
// `size_bytes`, `address`, and the neighbours `before` and `after`.
#ifndef MOIETY_BENCH_SUBJECTS_MODELS_BLOCKS_H_
#define MOIETY_BENCH_SUBJECTS_MODELS_BLOCKS_H_

#include <cstdint>
#include <tuple>

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kBlockBytesMin = 512;
constexpr uint64_t kSmallBytesMax = kMiB;
// So that no rounding overflows; nobody has as much.
constexpr uint64_t kSizeBytesMax = UINT64_C(1) << 60;

inline uint64_t RoundUp(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

// What is asked for as nothing is a block all the same.
inline uint64_t BlockBytes(uint64_t size_bytes)
{
    return size_bytes ? RoundUp(size_bytes, kBlockBytesMin) : kBlockBytesMin;
}

struct ByFit {
    template <typename Block>
    bool operator()(const Block *a, const Block *b) const
    {
        return std::tie(a->stream, a->size_bytes, a->address) <
               std::tie(b->stream, b->size_bytes, b->address);
    }
};

// `gone` is a neighbour of `into`, in no set, and ends.
template <typename Block> void TakeIn(Block *into, Block *gone)
{
    if (gone == into->before) {
        into->address = gone->address;
        into->before = gone->before;
        if (into->before)
            into->before->after = into;
    } else {
        into->after = gone->after;
        if (into->after)
            into->after->before = into;
    }
    into->size_bytes += gone->size_bytes;
    delete gone;
}

// Cuts `block`, and returns the rest behind it, which is free and in no set.
template <typename Block> Block *CutOff(Block *block, uint64_t size_bytes)
{
    auto *rest = new Block(*block);
    rest->is_allocated = false;
    rest->size_bytes -= size_bytes;
    rest->address += size_bytes;
    rest->before = block;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->size_bytes = size_bytes;
    return rest;
}

#endif

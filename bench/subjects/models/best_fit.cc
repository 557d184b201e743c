// SPDX-License-Identifier: Apache-2.0
//
// In C++ because the algorithm that it stands for is made of the standard
// library's ordered sets, and what they cost is a part of what is compared.
#include "bench/subjects/models/best_fit.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <unordered_map>

#include "bench/subjects/models/blocks.h"
#include "bench/subjects/models/model_state.h"

namespace
{

constexpr uint64_t kSmallSegmentBytes = 2 * kMiB;
constexpr uint64_t kLargeSegmentBytes = 20 * kMiB;
constexpr uint64_t kOwnSegmentBytesMin = 10 * kMiB;
constexpr uint64_t kSegmentStepBytes = 2 * kMiB;

struct Block {
    uint32_t stream;
    bool is_small;
    bool is_allocated;
    uint64_t size_bytes;
    uint64_t address;
    Block *before; // neighbours of the same segment
    Block *after;
};

using FreeBlocks = std::set<Block *, ByFit>;

uint64_t SegmentBytes(uint64_t rounded_bytes)
{
    if (rounded_bytes <= kSmallBytesMax)
        return kSmallSegmentBytes;
    if (rounded_bytes < kOwnSegmentBytesMin)
        return kLargeSegmentBytes;
    return RoundUp(rounded_bytes, kSegmentStepBytes);
}

struct BestFit final : model {
    using model::model;

    FreeBlocks small;
    FreeBlocks large;
    std::unordered_map<uint64_t, Block *> allocated;

    FreeBlocks &FreeOf(const Block *block)
    {
        return block->is_small ? small : large;
    }

    Block *TakeFree(const Block &wish)
    {
        FreeBlocks &blocks = FreeOf(&wish);
        // The lowest address of all is 0: of equal ones the first.
        auto found = blocks.lower_bound(const_cast<Block *>(&wish));
        if (found == blocks.end() || (*found)->stream != wish.stream)
            return nullptr;
        Block *block = *found;
        blocks.erase(found);
        return block;
    }

    Block *Grow(const Block &wish)
    {
        const uint64_t bytes = SegmentBytes(wish.size_bytes);
        const uint64_t address = source.take(bytes);
        if (address == 0)
            return nullptr;
        segments.emplace(address, bytes);
        return new Block{wish.stream, wish.is_small, false,  bytes,
                         address,     nullptr,       nullptr};
    }

    void ReleaseFree(FreeBlocks &blocks)
    {
        for (auto at = blocks.begin(); at != blocks.end();) {
            Block *block = *at;
            if (block->before || block->after) {
                ++at;
                continue;
            }
            at = blocks.erase(at);
            segments.erase(block->address);
            source.give(block->address, block->size_bytes);
            delete block;
        }
    }

    Block *GrowAnyhow(const Block &wish)
    {
        Block *block = Grow(wish);
        if (block)
            return block;
        ReleaseFree(large);
        ReleaseFree(small);
        return Grow(wish);
    }

    static bool ShouldSplit(const Block *block, uint64_t size_bytes)
    {
        const uint64_t rest = block->size_bytes - size_bytes;
        return block->is_small ? rest >= kBlockBytesMin : rest > kSmallBytesMax;
    }

    void SplitOff(Block *block, uint64_t size_bytes)
    {
        Block *rest = CutOff(block, size_bytes);
        FreeOf(rest).insert(rest);
    }

    // `into` and `gone` are neighbours; `gone` is free, and in its set.
    void Merge(Block *into, Block *gone)
    {
        FreeOf(gone).erase(gone);
        TakeIn(into, gone);
    }

    uint64_t Alloc(uint64_t size_bytes, uint32_t stream) override
    {
        if (size_bytes > kSizeBytesMax)
            return 0;
        const uint64_t rounded = BlockBytes(size_bytes);
        const Block wish = {
            stream, rounded <= kSmallBytesMax, false, rounded, 0, nullptr,
            nullptr};
        Block *block = TakeFree(wish);
        if (!block)
            block = GrowAnyhow(wish);
        if (!block)
            return 0;
        if (ShouldSplit(block, rounded))
            SplitOff(block, rounded);
        block->is_allocated = true;
        allocated.emplace(block->address, block);
        handed_bytes += block->size_bytes;
        return block->address;
    }

    void Free(uint64_t address) override
    {
        const auto found = allocated.find(address);
        if (found == allocated.end())
            std::abort();
        Block *block = found->second;
        allocated.erase(found);
        handed_bytes -= block->size_bytes;
        block->is_allocated = false;
        if (block->before && !block->before->is_allocated)
            Merge(block, block->before);
        if (block->after && !block->after->is_allocated)
            Merge(block, block->after);
        FreeOf(block).insert(block);
    }

    ~BestFit() override
    {
        for (const FreeBlocks *blocks : {&small, &large})
            for (Block *block : *blocks)
                delete block;
        for (const auto &one : allocated)
            delete one.second;
    }
};

} // namespace

model *best_fit_create(const model_source *source)
{
    return new (std::nothrow) BestFit(*source);
}

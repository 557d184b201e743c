// SPDX-License-Identifier: Apache-2.0
//
// In C++, and of ordered sets, as best_fit.cc is.
#include "bench/subjects/models/expandable.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bench/subjects/models/blocks.h"
#include "bench/subjects/models/model_state.h"

namespace
{

struct Pool;

struct Block {
    Pool *pool;
    uint32_t stream;
    bool is_mapped;
    bool is_allocated;
    uint64_t span; // its first address
    uint64_t size_bytes;
    uint64_t address;
    Block *before; // neighbours of the same span
    Block *after;
};

struct ByAddress {
    bool operator()(const Block *a, const Block *b) const
    {
        return std::tie(a->stream, a->address) <
               std::tie(b->stream, b->address);
    }
};

struct Pool {
    uint64_t page_bytes;
    std::set<Block *, ByFit> free;
    std::set<Block *, ByAddress> unmapped;
};

bool IsFree(const Block *block)
{
    return block && !block->is_allocated;
}

// What a free block could become without another's memory.
uint64_t ExpandableBytes(const Block *block)
{
    const Block *after = block->after;
    return block->size_bytes +
           (after && !after->is_mapped ? after->size_bytes : 0);
}

bool HasRoom(const Block *block, uint64_t size_bytes)
{
    uint64_t bytes = 0;
    for (; bytes < size_bytes && IsFree(block); block = block->after)
        bytes += block->size_bytes;
    return bytes >= size_bytes;
}

struct Span {
    uint64_t size_bytes;
    uint64_t page_bytes;
};

struct Expandable final : model {
    explicit Expandable(const model_pages &from)
        : model({nullptr, nullptr}), pages(from)
    {
    }

    model_pages pages;
    Pool small = {2 * kMiB, {}, {}};
    Pool large = {20 * kMiB, {}, {}};
    std::map<uint64_t, Span> spans;
    std::unordered_map<uint64_t, Block *> allocated;

    // Ranges of one span that touch are one.
    void NoteMapped(uint64_t address, uint64_t bytes)
    {
        auto at = segments.emplace(address, bytes).first;
        const auto after = std::next(at);
        if (after != segments.end() && after->first == address + bytes &&
            spans.count(after->first) == 0) {
            at->second += after->second;
            segments.erase(after);
        }
        if (at == segments.begin() || spans.count(address) != 0)
            return;
        const auto before = std::prev(at);
        if (before->first + before->second != address)
            return;
        before->second += at->second;
        segments.erase(at);
    }

    void NoteUnmapped(uint64_t address, uint64_t bytes)
    {
        const auto range = std::prev(segments.upper_bound(address));
        const uint64_t start = range->first;
        const uint64_t end = start + range->second;
        segments.erase(range);
        if (start < address)
            segments.emplace(start, address - start);
        if (address + bytes < end)
            segments.emplace(address + bytes, end - address - bytes);
    }

    static void Forget(Block *block)
    {
        if (block->is_mapped)
            block->pool->free.erase(block);
        else
            block->pool->unmapped.erase(block);
    }

    static void Remember(Block *block)
    {
        if (block->is_mapped)
            block->pool->free.insert(block);
        else
            block->pool->unmapped.insert(block);
    }

    // `block` is in no set; a neighbour that is like it, and free, is taken in.
    static void MergeOne(Block *block, Block *gone)
    {
        if (!IsFree(gone) || gone->is_mapped != block->is_mapped)
            return;
        Forget(gone);
        TakeIn(block, gone);
    }

    static void MergeAndRemember(Block *block)
    {
        MergeOne(block, block->before);
        MergeOne(block, block->after);
        Remember(block);
    }

    Block *FindFree(Block *wish)
    {
        auto &free = wish->pool->free;
        auto found = free.lower_bound(wish);
        if (found == free.end() || (*found)->stream != wish->stream)
            return nullptr;
        for (auto next = std::next(found);
             next != free.end() && (*next)->stream == wish->stream &&
             ExpandableBytes(*next) < ExpandableBytes(*found);
             ++next)
            found = next;
        Block *block = *found;
        free.erase(found);
        return block;
    }

    Block *NewSpan(const Block *wish)
    {
        const uint64_t page_bytes = wish->pool->page_bytes;
        const uint64_t bytes = RoundUp(pages.device_bytes / 8 * 9, page_bytes);
        if (bytes < wish->size_bytes)
            return nullptr;
        const uint64_t address = pages.reserve(bytes);
        if (address == 0)
            return nullptr;
        spans.emplace(address, Span{bytes, page_bytes});
        auto *block =
            new Block{wish->pool, wish->stream, false,   false,  address,
                      bytes,      address,      nullptr, nullptr};
        Remember(block);
        return block;
    }

    // The first of some that are free, with or without memory, and long enough.
    Block *FindRoom(Block *wish)
    {
        const auto &unmapped = wish->pool->unmapped;
        for (auto at = unmapped.lower_bound(wish);
             at != unmapped.end() && (*at)->stream == wish->stream; ++at) {
            Block *block = *at;
            if (IsFree(block->before))
                block = block->before;
            if (HasRoom(block, wish->size_bytes))
                return block;
        }
        return NewSpan(wish);
    }

    bool Map(Block *block, uint64_t size_bytes)
    {
        const uint64_t page_bytes = block->pool->page_bytes;
        const uint64_t bytes = RoundUp(size_bytes, page_bytes);
        if (!pages.map(block->address, page_bytes, bytes / page_bytes))
            return false;
        NoteMapped(block->address, bytes);
        Forget(block);
        if (bytes < block->size_bytes)
            Remember(CutOff(block, bytes));
        block->is_mapped = true;
        MergeAndRemember(block);
        return true;
    }

    Block *Expand(Block *wish)
    {
        Block *block = FindRoom(wish);
        if (!block)
            return nullptr;
        while (!block->is_mapped || block->size_bytes < wish->size_bytes) {
            uint64_t missing = wish->size_bytes;
            if (block->is_mapped) {
                missing -= block->size_bytes;
                block = block->after;
            }
            if (!Map(block, std::min(missing, block->size_bytes)))
                return nullptr;
        }
        Forget(block);
        return block;
    }

    void UnmapPagesOf(Block *block)
    {
        const uint64_t page_bytes = block->pool->page_bytes;
        const uint64_t start =
            block->span + RoundUp(block->address - block->span, page_bytes);
        const uint64_t end =
            block->address + block->size_bytes -
            (block->address + block->size_bytes - block->span) % page_bytes;
        if (start >= end)
            return;
        Forget(block);
        if (end < block->address + block->size_bytes)
            Remember(CutOff(block, end - block->address));
        if (start > block->address) {
            Block *rest = CutOff(block, start - block->address);
            Remember(block);
            block = rest;
        }
        pages.unmap(start, page_bytes, (end - start) / page_bytes);
        NoteUnmapped(start, end - start);
        block->is_mapped = false;
        MergeAndRemember(block);
        if (!block->before && !block->after)
            ReleaseSpan(block);
    }

    void ReleaseSpan(Block *block)
    {
        Forget(block);
        spans.erase(block->span);
        pages.release(block->span, block->size_bytes);
        delete block;
    }

    void UnmapFree(Pool &pool)
    {
        const std::vector<Block *> blocks(pool.free.begin(), pool.free.end());
        for (Block *block : blocks)
            UnmapPagesOf(block);
    }

    Block *ExpandAnyhow(Block *wish)
    {
        Block *block = Expand(wish);
        if (block)
            return block;
        UnmapFree(large);
        UnmapFree(small);
        return Expand(wish);
    }

    uint64_t Alloc(uint64_t size_bytes, uint32_t stream) override
    {
        if (size_bytes > kSizeBytesMax)
            return 0;
        const uint64_t rounded = BlockBytes(size_bytes);
        Pool &pool = rounded <= kSmallBytesMax ? small : large;
        Block wish = {&pool,   stream, true,    false,  0,
                      rounded, 0,      nullptr, nullptr};
        Block *block = FindFree(&wish);
        if (!block)
            block = ExpandAnyhow(&wish);
        if (!block)
            return 0;
        if (block->size_bytes > rounded)
            Remember(CutOff(block, rounded));
        block->is_allocated = true;
        allocated.emplace(block->address, block);
        handed_bytes += rounded;
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
        MergeAndRemember(block);
    }

    ~Expandable() override
    {
        for (const auto &[address, bytes] : segments) {
            const uint64_t page_bytes =
                std::prev(spans.upper_bound(address))->second.page_bytes;
            pages.unmap(address, page_bytes, bytes / page_bytes);
        }
        segments.clear();
        for (const auto &[address, span] : spans)
            pages.release(address, span.size_bytes);
        for (Pool *pool : {&small, &large}) {
            for (Block *block : pool->free)
                delete block;
            for (Block *block : pool->unmapped)
                delete block;
        }
        for (const auto &one : allocated)
            delete one.second;
    }
};

} // namespace

model *expandable_create(const model_pages *pages)
{
    return new (std::nothrow) Expandable(*pages);
}

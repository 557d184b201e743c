// SPDX-License-Identifier: Apache-2.0
#include "bench/subjects/models/pow2_buddy.h"

#include <cstdlib>
#include <new>
#include <set>
#include <unordered_map>

#include "bench/subjects/models/model_state.h"

namespace
{

constexpr unsigned kOrderMin = 9;
constexpr unsigned kOrderSegment = 28;
constexpr unsigned kOrders = 64;
// So that there is an order for it; nobody has as much.
constexpr uint64_t kSizeBytesMax = UINT64_C(1) << 60;

unsigned OrderOf(uint64_t size_bytes)
{
    unsigned order = kOrderMin;
    while ((UINT64_C(1) << order) < size_bytes)
        order++;
    return order;
}

struct Pow2Buddy final : model {
    using model::model;

    std::set<uint64_t> free_blocks[kOrders];          // addresses, by order
    std::unordered_map<uint64_t, unsigned> allocated; // orders

    bool Grow(unsigned order)
    {
        const unsigned wanted = order > kOrderSegment ? order : kOrderSegment;
        const uint64_t bytes = UINT64_C(1) << wanted;
        const uint64_t address = source.take(bytes);
        if (address == 0)
            return false;
        segments.emplace(address, bytes);
        free_blocks[wanted].insert(address);
        return true;
    }

    // The smallest block that is large enough, the lowest of them.
    unsigned OrderWithBlock(unsigned order) const
    {
        while (order < kOrders && free_blocks[order].empty())
            order++;
        return order;
    }

    uint64_t Alloc(uint64_t size_bytes, uint32_t) override
    {
        if (size_bytes > kSizeBytesMax)
            return 0;
        const unsigned wanted = OrderOf(size_bytes);
        if (OrderWithBlock(wanted) == kOrders && !Grow(wanted))
            return 0;
        unsigned order = OrderWithBlock(wanted);
        const uint64_t address = *free_blocks[order].begin();
        free_blocks[order].erase(free_blocks[order].begin());
        while (order > wanted) {
            order--;
            free_blocks[order].insert(address + (UINT64_C(1) << order));
        }
        allocated.emplace(address, order);
        handed_bytes += UINT64_C(1) << order;
        return address;
    }

    void Free(uint64_t address) override
    {
        const auto found = allocated.find(address);
        if (found == allocated.end())
            std::abort();
        unsigned order = found->second;
        allocated.erase(found);
        handed_bytes -= UINT64_C(1) << order;
        const auto segment = --segments.upper_bound(address);
        // Halves are told apart by their offsets in the segment.
        while (UINT64_C(1) << order < segment->second) {
            const uint64_t other =
                segment->first +
                ((address - segment->first) ^ (UINT64_C(1) << order));
            if (free_blocks[order].erase(other) == 0)
                break;
            address = address < other ? address : other;
            order++;
        }
        free_blocks[order].insert(address);
    }
};

} // namespace

model *pow2_buddy_create(const model_source *source)
{
    return new (std::nothrow) Pow2Buddy(*source);
}

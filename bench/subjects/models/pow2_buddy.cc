// SPDX-License-Identifier: Apache-2.0
#include "bench/subjects/models/pow2_buddy.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <unordered_map>

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

} // namespace

struct pow2_buddy {
    explicit pow2_buddy(const pow2_buddy_source &from) : source(from) {}

    std::mutex mutex;
    pow2_buddy_source source;
    std::set<uint64_t> free_blocks[kOrders];          // addresses, by order
    std::unordered_map<uint64_t, unsigned> allocated; // orders
    std::map<uint64_t, unsigned> segments;            // orders
    uint64_t handed_bytes = 0;

    bool Grow(unsigned order)
    {
        const unsigned wanted = order > kOrderSegment ? order : kOrderSegment;
        const uint64_t address = source.take(UINT64_C(1) << wanted);
        if (address == 0)
            return false;
        segments.emplace(address, wanted);
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

    uint64_t Alloc(uint64_t size_bytes)
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

    void Free(uint64_t address)
    {
        const auto found = allocated.find(address);
        if (found == allocated.end())
            std::abort();
        unsigned order = found->second;
        allocated.erase(found);
        handed_bytes -= UINT64_C(1) << order;
        const auto segment = --segments.upper_bound(address);
        // Halves are told apart by their offsets in the segment.
        while (order < segment->second) {
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

    ~pow2_buddy()
    {
        for (const auto &[address, order] : segments)
            source.give(address, UINT64_C(1) << order);
    }
};

pow2_buddy *pow2_buddy_create(const pow2_buddy_source *source)
{
    return new (std::nothrow) pow2_buddy(*source);
}

void pow2_buddy_destroy(pow2_buddy *buddy)
{
    delete buddy;
}

uint64_t pow2_buddy_alloc(pow2_buddy *buddy, uint64_t size_bytes)
{
    const std::lock_guard<std::mutex> lock(buddy->mutex);
    return buddy->Alloc(size_bytes);
}

void pow2_buddy_free(pow2_buddy *buddy, uint64_t address)
{
    const std::lock_guard<std::mutex> lock(buddy->mutex);
    buddy->Free(address);
}

uint64_t pow2_buddy_handed_bytes(pow2_buddy *buddy)
{
    const std::lock_guard<std::mutex> lock(buddy->mutex);
    return buddy->handed_bytes;
}

void pow2_buddy_each_segment(pow2_buddy *buddy,
                             void (*take)(void *context, uint64_t address,
                                          uint64_t size_bytes),
                             void *context)
{
    const std::lock_guard<std::mutex> lock(buddy->mutex);
    for (const auto &[address, order] : buddy->segments)
        take(context, address, UINT64_C(1) << order);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is only numbers, for allocators that are compared: segments lie
 * side by side, so that an allocator which merges across their borders is found
 * out, and one that gives back what it does not have ends the process.
 */
#ifndef BINADE_TESTS_REPLAY_SEGMENT_LEDGER_H_
#define BINADE_TESTS_REPLAY_SEGMENT_LEDGER_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <vector>

namespace replay_test
{

struct SegmentLedger {
    std::map<uint64_t, uint64_t> segments; // bytes by address
    std::vector<uint64_t> taken;           // sizes, in the order of the calls
    uint64_t reserved_bytes = 0;
    uint64_t limit_bytes = UINT64_MAX;
    uint64_t refused = 0;
    uint64_t next_address = UINT64_C(1) << 40;

    uint64_t Take(uint64_t size_bytes)
    {
        if (size_bytes > limit_bytes - reserved_bytes) {
            refused++;
            return 0;
        }
        const uint64_t address = next_address;
        next_address += size_bytes;
        segments.emplace(address, size_bytes);
        taken.push_back(size_bytes);
        reserved_bytes += size_bytes;
        return address;
    }

    void Give(uint64_t address, uint64_t size_bytes)
    {
        const auto found = segments.find(address);
        if (found == segments.end() || found->second != size_bytes) {
            std::fputs("a segment that never was is given back\n", stderr);
            std::abort();
        }
        segments.erase(found);
        reserved_bytes -= size_bytes;
    }

    bool Contains(uint64_t address, uint64_t size_bytes) const
    {
        auto after = segments.upper_bound(address);
        if (after == segments.begin())
            return false;
        --after;
        return address + size_bytes <= after->first + after->second;
    }
};

/* What an allocator has handed out of them. */
struct BlockLedger {
    std::map<uint64_t, uint64_t> blocks; // bytes by address

    // False where a byte of it is another block's.
    bool Add(uint64_t address, uint64_t size_bytes)
    {
        const auto after = blocks.lower_bound(address);
        if (after != blocks.end() && address + size_bytes > after->first)
            return false;
        if (after != blocks.begin()) {
            const auto before = std::prev(after);
            if (before->first + before->second > address)
                return false;
        }
        return blocks.emplace(address, size_bytes).second;
    }

    // Forgets one of them, and returns its address.
    uint64_t TakeAny(uint64_t number)
    {
        const auto found = std::next(blocks.begin(),
                                     static_cast<long>(number % blocks.size()));
        const uint64_t address = found->first;
        blocks.erase(found);
        return address;
    }
};

// Up to 64 MiB, of each order of magnitude as often.
template <typename Random> uint64_t AnySize(Random &random)
{
    return random() >> (38 + random() % 26);
}

} // namespace replay_test

#endif

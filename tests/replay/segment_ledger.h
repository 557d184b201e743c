/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is only numbers, for allocators that are compared: segments lie
 * side by side, so that an allocator which merges across their borders is found
 * out, and one that gives back what it does not have ends the process.
 */
#ifndef MOIETY_TESTS_REPLAY_SEGMENT_LEDGER_H_
#define MOIETY_TESTS_REPLAY_SEGMENT_LEDGER_H_

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

    bool IsEmpty() const
    {
        return segments.empty();
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

/* Addresses that are only numbers, side by side as well, and pages there. */
struct PageLedger {
    std::map<uint64_t, uint64_t> spans; // bytes by address
    std::map<uint64_t, uint64_t> pages; // bytes by address
    uint64_t reserved_bytes = 0;        // in pages
    uint64_t limit_bytes = UINT64_MAX;
    uint64_t spans_max = UINT64_MAX;
    uint64_t refused = 0;
    uint64_t next_address = UINT64_C(1) << 40;

    uint64_t Reserve(uint64_t size_bytes)
    {
        if (spans.size() >= spans_max)
            return 0;
        const uint64_t address = next_address;
        next_address += size_bytes;
        spans.emplace(address, size_bytes);
        return address;
    }

    void Release(uint64_t address, uint64_t size_bytes)
    {
        const auto page = pages.lower_bound(address);
        const auto span = spans.find(address);
        if (span == spans.end() || span->second != size_bytes ||
            (page != pages.end() && page->first < address + size_bytes))
            Abort("addresses that are none, or have pages, are given back");
        spans.erase(span);
    }

    bool Map(uint64_t address, uint64_t page_bytes, uint64_t count)
    {
        const auto after = spans.upper_bound(address);
        if (after == spans.begin() ||
            address + count * page_bytes >
                std::prev(after)->first + std::prev(after)->second)
            Abort("pages are mapped outside of all spans");
        if (count * page_bytes > limit_bytes - reserved_bytes) {
            refused++;
            return false;
        }
        for (; count > 0; count--, address += page_bytes) {
            if (!pages.emplace(address, page_bytes).second)
                Abort("a page is mapped twice");
            reserved_bytes += page_bytes;
        }
        return true;
    }

    void Unmap(uint64_t address, uint64_t page_bytes, uint64_t count)
    {
        for (; count > 0; count--, address += page_bytes) {
            const auto found = pages.find(address);
            if (found == pages.end() || found->second != page_bytes)
                Abort("a page that never was is unmapped");
            pages.erase(found);
            reserved_bytes -= page_bytes;
        }
    }

    bool IsEmpty() const
    {
        return pages.empty() && spans.empty();
    }

    // Whether all of it is in pages.
    bool Contains(uint64_t address, uint64_t size_bytes) const
    {
        const uint64_t end = address + size_bytes;
        auto page = pages.upper_bound(address);
        if (page == pages.begin())
            return false;
        for (--page; page != pages.end() && page->first <= address; ++page) {
            if (page->first + page->second <= address)
                return false;
            address = page->first + page->second;
            if (address >= end)
                return true;
        }
        return false;
    }

    [[noreturn]] static void Abort(const char *why)
    {
        std::fprintf(stderr, "%s\n", why);
        std::abort();
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

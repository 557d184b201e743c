// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of a pool's heap, and what is true of every one.
#ifndef MOIETY_TESTS_HEAP_HEAP_UNDER_TEST_H_
#define MOIETY_TESTS_HEAP_HEAP_UNDER_TEST_H_

#include <cstdint>
#include <vector>

#include "moiety/heap.h"
#include "moiety/moiety.h"

namespace heap_test
{

class Heap
{
  public:
    // Expects MOIETY_OK, and the intervals to tile the segments.
    explicit Heap(moiety_pool *pool);

    const moiety_heap_summary &summary() const
    {
        return summary_;
    }
    uint64_t Bytes(moiety_heap_kind kind) const
    {
        return summary_.bytes[kind];
    }
    uint64_t Count(moiety_heap_kind kind) const
    {
        return summary_.counts[kind];
    }
    // The interval that begins there; expects that there is one.
    moiety_heap_interval At(moiety_devptr address) const;
    std::vector<moiety_heap_interval> Of(moiety_heap_kind kind) const;
    const std::vector<moiety_heap_segment> &segments() const
    {
        return segments_;
    }

    // At rest: that it says what the pool's statistics say.
    void ExpectStatsOf(moiety_pool *pool) const;
    // The same of a pool whose segments are shown in one piece where they touch.
    void ExpectStatsOfMapped(moiety_pool *pool) const;

  private:
    void ExpectBytesOf(const moiety_pool_stats &stats) const;
    void ExpectTiles() const;
    void ExpectSums() const;

    moiety_heap_summary summary_ = {};
    std::vector<moiety_heap_segment> segments_;
    std::vector<moiety_heap_interval> intervals_;
};

} // namespace heap_test

#endif

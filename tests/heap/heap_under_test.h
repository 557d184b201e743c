// SPDX-License-Identifier: Apache-2.0
//
// A snapshot of a pool's heap, and what is true of every one.
#ifndef BINADE_TESTS_HEAP_HEAP_UNDER_TEST_H_
#define BINADE_TESTS_HEAP_HEAP_UNDER_TEST_H_

#include <cstdint>
#include <vector>

#include "binade/binade.h"

namespace heap_test
{

class Heap
{
  public:
    // Expects BINADE_OK, and the intervals to tile the segments.
    explicit Heap(binade_pool *pool);

    const binade_heap_summary &summary() const
    {
        return summary_;
    }
    uint64_t Bytes(binade_heap_kind kind) const
    {
        return summary_.bytes[kind];
    }
    uint64_t Count(binade_heap_kind kind) const
    {
        return summary_.counts[kind];
    }
    // The interval that begins there; expects that there is one.
    binade_heap_interval At(binade_devptr address) const;
    std::vector<binade_heap_interval> Of(binade_heap_kind kind) const;
    const std::vector<binade_heap_segment> &segments() const
    {
        return segments_;
    }

    // At rest: that it says what the pool's statistics say.
    void ExpectStatsOf(binade_pool *pool) const;
    // The same of a pool whose segments are shown in one piece where they touch.
    void ExpectStatsOfMapped(binade_pool *pool) const;

  private:
    void ExpectBytesOf(const binade_stats &stats) const;
    void ExpectTiles() const;
    void ExpectSums() const;

    binade_heap_summary summary_ = {};
    std::vector<binade_heap_segment> segments_;
    std::vector<binade_heap_interval> intervals_;
};

} // namespace heap_test

#endif

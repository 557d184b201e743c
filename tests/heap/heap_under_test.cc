// SPDX-License-Identifier: Apache-2.0
#include "tests/heap/heap_under_test.h"

#include "moiety/heap.h"

#include <gtest/gtest.h>

namespace heap_test
{

Heap::Heap(moiety_pool *pool)
{
    moiety_heap_snapshot *snapshot = nullptr;
    moiety_status status;
    // On a machine that is busy enough, a thread may stand still for long.
    do {
        status = moiety_heap_snapshot_create(pool, &snapshot);
    } while (status == MOIETY_E_TIMEOUT);
    EXPECT_EQ(MOIETY_OK, status) << moiety_last_error_message();
    if (status != MOIETY_OK)
        return;
    summary_.struct_size = sizeof(summary_);
    EXPECT_EQ(MOIETY_OK, moiety_heap_snapshot_summary(snapshot, &summary_));
    size_t count;
    const moiety_heap_segment *segments =
        moiety_heap_snapshot_segments(snapshot, &count);
    segments_.assign(segments, segments + count);
    const moiety_heap_interval *intervals =
        moiety_heap_snapshot_intervals(snapshot, &count);
    intervals_.assign(intervals, intervals + count);
    moiety_heap_snapshot_destroy(snapshot);
    ExpectTiles();
    ExpectSums();
}

void Heap::ExpectTiles() const
{
    uint64_t next_interval = 0;
    for (size_t i = 0; i < segments_.size(); i++) {
        const moiety_heap_segment &segment = segments_[i];
        moiety_devptr next = segment.address;
        bool was_free = false;
        ASSERT_EQ(next_interval, segment.first_interval);
        next_interval += segment.interval_count;
        ASSERT_LE(next_interval, intervals_.size());
        for (uint64_t j = segment.first_interval; j < next_interval; j++) {
            const moiety_heap_interval &interval = intervals_[j];
            ASSERT_EQ(next, interval.address);
            ASSERT_NE(0u, interval.size_bytes);
            ASSERT_EQ(i, interval.segment);
            ASSERT_LT(interval.kind, MOIETY_HEAP_KINDS);
            bool is_free = interval.kind == MOIETY_HEAP_FREE;
            EXPECT_FALSE(is_free && was_free) << "two that are one";
            was_free = is_free;
            next += interval.size_bytes;
        }
        ASSERT_EQ(segment.address + segment.size_bytes, next);
    }
    ASSERT_EQ(intervals_.size(), next_interval);
}

void Heap::ExpectSums() const
{
    uint64_t bytes[MOIETY_HEAP_KINDS] = {};
    uint64_t counts[MOIETY_HEAP_KINDS] = {};
    for (const moiety_heap_interval &interval : intervals_) {
        bytes[interval.kind] += interval.size_bytes;
        counts[interval.kind]++;
    }
    for (uint32_t kind = 0; kind < MOIETY_HEAP_KINDS; kind++) {
        EXPECT_EQ(bytes[kind], summary_.bytes[kind]);
        EXPECT_EQ(counts[kind], summary_.counts[kind]);
    }
    EXPECT_EQ(segments_.size(), summary_.segment_count);
    EXPECT_EQ(intervals_.size(), summary_.interval_count);
    EXPECT_EQ(0u, Bytes(MOIETY_HEAP_LOST));
}

moiety_heap_interval Heap::At(moiety_devptr address) const
{
    for (const moiety_heap_interval &interval : intervals_)
        if (interval.address == address)
            return interval;
    ADD_FAILURE() << "no interval begins at " << address;
    return {};
}

std::vector<moiety_heap_interval> Heap::Of(moiety_heap_kind kind) const
{
    std::vector<moiety_heap_interval> found;
    for (const moiety_heap_interval &interval : intervals_)
        if (interval.kind == kind)
            found.push_back(interval);
    return found;
}

static moiety_pool_stats StatsOf(moiety_pool *pool)
{
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_EQ(MOIETY_OK, moiety_pool_get_stats(pool, &stats));
    return stats;
}

void Heap::ExpectStatsOf(moiety_pool *pool) const
{
    moiety_pool_stats stats = StatsOf(pool);
    ExpectBytesOf(stats);
    EXPECT_EQ(stats.segment_current, segments_.size());
}

void Heap::ExpectStatsOfMapped(moiety_pool *pool) const
{
    moiety_pool_stats stats = StatsOf(pool);
    ExpectBytesOf(stats);
    EXPECT_GE(stats.segment_current, segments_.size());
}

void Heap::ExpectBytesOf(const moiety_pool_stats &stats) const
{
    uint64_t reserved = stats.unreleased_bytes;
    for (const moiety_heap_segment &segment : segments_)
        reserved += segment.memory_bytes;
    EXPECT_EQ(stats.reserved_bytes_current, reserved);
    EXPECT_EQ(stats.allocated_bytes_current,
              Bytes(MOIETY_HEAP_USED) + Bytes(MOIETY_HEAP_KEPT));
    EXPECT_EQ(stats.allocation_current,
              Count(MOIETY_HEAP_USED) + Count(MOIETY_HEAP_KEPT));
    EXPECT_EQ(stats.cached_bytes, Bytes(MOIETY_HEAP_CACHED));
    EXPECT_EQ(stats.retiring_bytes, Bytes(MOIETY_HEAP_RETIRING));
    EXPECT_EQ(stats.free_bytes, Bytes(MOIETY_HEAP_FREE));
}

} // namespace heap_test

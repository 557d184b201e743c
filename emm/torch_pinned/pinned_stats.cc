/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Statistics under PyTorch's names, and the emptied cache. Blocks are counted one
 * by one. Segments are compared with those of the last look: what came and went in
 * between is not seen.
 */
#include "pinned.h"

#include <algorithm>
#include <chrono>

namespace moiety_torch
{

namespace
{

using c10::CachingAllocator::DurationStat;
using c10::CachingAllocator::Stat;

void move_to(Stat &stat, int64_t now)
{
    if (now > stat.current)
        stat.increase(static_cast<size_t>(now - stat.current));
    else
        stat.decrease(static_cast<size_t>(stat.current - now));
}

void add(Stat &sum, const Stat &other)
{
    sum.current += other.current;
    sum.peak += other.peak;
    sum.allocated += other.allocated;
    sum.freed += other.freed;
}

void add(DurationStat &sum, const DurationStat &other)
{
    sum.total += other.total;
    sum.count += other.count;
    sum.max = std::max(sum.max, other.max);
    if (other.min && (!sum.min || other.min < sum.min))
        sum.min = other.min;
}

int64_t now_us()
{
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

} // namespace

void PinnedAllocator::count_locked(const PinnedTotals &totals)
{
    move_to(segments_, totals.segment_count);
    move_to(segment_bytes_, totals.bytes);
    segment_bytes_.peak = std::max(segment_bytes_.peak, totals.peak_bytes);
    if (totals.pin_us > pin_us_)
        pin_time_.increase(totals.pin_us - pin_us_);
    pin_us_ = totals.pin_us;
}

void PinnedAllocator::count()
{
    const PinnedTotals totals = arenas_.totals();
    std::lock_guard<std::mutex> guard(lock_);
    count_locked(totals);
}

at::HostStats PinnedAllocator::get_stats()
{
    at::HostStats out = before_->get_stats();
    const PinnedTotals totals = arenas_.totals();
    std::lock_guard<std::mutex> guard(lock_);
    count_locked(totals);
#if MOIETY_TORCH_IS_BEFORE(2, 10)
    add(out.allocation, requests_);
    add(out.allocated_bytes, request_bytes_);
    add(out.segment, segments_);
    add(out.reserved_bytes, segment_bytes_);
#else
    add(out.active_requests, requests_);
    add(out.active_bytes, request_bytes_);
    add(out.allocations, segments_);
    add(out.allocated_bytes, segment_bytes_);
#endif
    add(out.host_alloc_time, pin_time_);
    add(out.host_free_time, unpin_time_);
    out.num_host_alloc += segments_.allocated;
    out.num_host_free += segments_.freed;
    return out;
}

void PinnedAllocator::reset_accumulated_stats()
{
    before_->reset_accumulated_stats();
    const PinnedTotals totals = arenas_.totals();
    std::lock_guard<std::mutex> guard(lock_);
    count_locked(totals);
    for (Stat *stat :
         {&requests_, &request_bytes_, &segments_, &segment_bytes_})
        stat->reset_accumulated();
    pin_time_.reset_accumulated();
    unpin_time_.reset_accumulated();
}

void PinnedAllocator::reset_peak_stats()
{
    before_->reset_peak_stats();
    arenas_.reset_peaks();
    const PinnedTotals totals = arenas_.totals();
    std::lock_guard<std::mutex> guard(lock_);
    count_locked(totals);
    for (Stat *stat :
         {&requests_, &request_bytes_, &segments_, &segment_bytes_})
        stat->reset_peak();
    pin_time_.reset_peak();
    unpin_time_.reset_peak();
}

/* As PyTorch's own: what work still uses stays, and nothing waits for it. */
void PinnedAllocator::empty_cache()
{
    before_->empty_cache();
    waits_.poll();
    count();
    const int64_t begin_us = now_us();
    const uint64_t bytes = arenas_.trim();
    const int64_t took_us = now_us() - begin_us;
    count();
    std::lock_guard<std::mutex> guard(lock_);
    if (bytes)
        unpin_time_.increase(took_us);
}

} // namespace moiety_torch

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Limits, and numbers under PyTorch's names.
 */
#include "allocator.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

namespace moiety_torch
{

namespace
{

constexpr uint64_t kLeastLimitBytes = UINT64_C(2) << 20; /* of a pool */

/* All sizes share one pool here, so all statistics are of the large one. */
void tell(decltype(caching::DeviceStats::active) &out, int64_t current,
          int64_t peak, int64_t allocated, int64_t freed)
{
    for (size_t i : {size_t(0), size_t(2)}) {
        out[i].current = current;
        out[i].peak = peak;
        out[i].allocated = allocated;
        out[i].freed = freed;
    }
}

} // namespace

DeviceMemory memory_of(c10::DeviceIndex device)
{
    c10::cuda::CUDAGuard guard(device);
    DeviceMemory memory;
    C10_CUDA_CHECK(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes));
    return memory;
}

double Allocator::getMemoryFraction(Device device)
{
    return fractions_[static_cast<size_t>(device)].load(
        std::memory_order_relaxed);
}

void Allocator::setMemoryFraction(double fraction, Device device)
{
    TORCH_CHECK(fraction >= 0 && fraction <= 1, "invalid fraction:", fraction,
                ". Please set within [0, 1].");
    double total_bytes = static_cast<double>(memory_of(device).total_bytes);
    uint64_t limit_bytes = static_cast<uint64_t>(fraction * total_bytes);
    check(moiety_pool_set_limit(pools_.get(device),
                                fraction == 1
                                    ? settings_.limit_bytes
                                    : std::max(limit_bytes, kLeastLimitBytes)),
          "the limit is not accepted");
    /* Relaxed: a number. */
    fractions_[static_cast<size_t>(device)].store(fraction,
                                                  std::memory_order_relaxed);
}

/* What was freed before work that is queued goes back too, as with PyTorch's: all
 * of it is waited for, unless a graph is captured. */
void Allocator::emptyCache(c10::MempoolId_t mempool)
{
    History::Call call(history_, caching::RecordContext::ALL);
    for (int device = 0; device < kDevicesMax; device++) {
        moiety_pool *pool = pools_.find(device);
        if (!pool) { /* It has nothing to wait for. */
            counters_of(device).note_synchronization();
            continue;
        }
        const ArenaKey one(device, mempool);
        const ArenaKey *key =
            mempool == c10::MempoolId_t{0, 0} ? nullptr : &one;
        /* What is freed in an arena goes behind an event at its trims. */
        arenas_.trim(key);
        if (moiety_pool_synchronize(pool, UINT32_MAX) == MOIETY_OK) {
            counters_of(device).note_synchronization();
            arenas_.trim(key);
        }
        check(moiety_pool_trim(pool, 0, nullptr), "memory was not given back");
    }
}

void Allocator::cacheInfo(Device device, size_t *largest)
{
    size_t free_bytes = memory_of(device).free_bytes;
    moiety_pool_stats stats;
    check(read_stats(pools_.get(device), &stats), "no statistics");
    uint64_t growth = stats.limit_bytes - stats.reserved_bytes_current;
    if (growth > free_bytes)
        growth = free_bytes;
    *largest =
        stats.longest_run_bytes > growth ? stats.longest_run_bytes : growth;
}

SegmentSizes Allocator::getExpandableSegmentSizes(Device)
{
    return {};
}

caching::DeviceStats Allocator::getDeviceStats(Device device)
{
    caching::DeviceStats out;
    moiety_pool *pool = pools_.find(device);
    Sums sums = counters_of(device).read();
    out.num_sync_all_streams = sums.synchronizations;
    if (!pool)
        return out;
    moiety_pool_stats stats;
    check(read_stats(pool, &stats), "no statistics");
    tell(out.allocation, sums.blocks, sums.peak_blocks, sums.allocations,
         sums.frees);
    out.active = out.allocation;
    tell(out.allocated_bytes, sums.bytes, sums.peak_bytes, sums.allocated_bytes,
         sums.freed_bytes);
    out.active_bytes = out.allocated_bytes;
    out.requested_bytes = out.allocated_bytes;
    auto as_signed = [](uint64_t value) { return static_cast<int64_t>(value); };
    tell(out.segment, stats.segment_current, stats.segment_current,
         as_signed(stats.segment_allocated), as_signed(stats.segment_freed));
    tell(out.reserved_bytes, as_signed(stats.reserved_bytes_current),
         as_signed(stats.reserved_bytes_peak),
         as_signed(stats.reserved_bytes_current), 0);
    out.num_alloc_retries = as_signed(stats.alloc_retries);
    out.num_ooms = as_signed(stats.ooms);
    out.num_device_alloc = as_signed(stats.segment_allocated);
    out.num_device_free = as_signed(stats.segment_freed);
    return out;
}

void Allocator::resetAccumulatedStats(Device device)
{
    counters_of(device).reset_accumulated();
}

void Allocator::resetPeakStats(Device device)
{
    counters_of(device).reset_peak();
    if (moiety_pool *pool = pools_.find(device))
        check(moiety_pool_reset_peaks(pool), "peaks are not reset");
}

} // namespace moiety_torch

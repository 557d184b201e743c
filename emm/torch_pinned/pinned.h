/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety as PyTorch's allocator of pinned memory for CUDA. It wraps the one that
 * was there: blocks of that one go on there, as do allocations of captures and
 * those that no arena has memory for.
 */
#ifndef MOIETY_EMM_TORCH_PINNED_PINNED_H_
#define MOIETY_EMM_TORCH_PINNED_PINNED_H_

#include <ATen/core/CachingHostAllocator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "pinned_arenas.h"
#include "pinned_waits.h"
#include "release.h"

namespace moiety_torch
{

class PinnedAllocator final : public at::HostAllocator
{
  public:
    /** Never destroyed: tensors are freed while the process exits. */
    static PinnedAllocator &instance();

    /** To be called before all else. */
    void wrap(at::HostAllocator *before);

    c10::DataPtr allocate(size_t bytes) override;
    void copy_data(void *to, const void *from, size_t bytes) const override;
    bool record_event(void *data, void *context, c10::Stream stream) override;
    void empty_cache() override;
    at::HostStats get_stats() override;
    void reset_accumulated_stats() override;
    void reset_peak_stats() override;
#if !MOIETY_TORCH_IS_BEFORE(2, 11)
    void
    begin_allocate_to_pool(c10::MempoolId_t pool,
                           std::function<bool(c10::Stream)> filter) override;
    void end_allocate_to_pool(c10::MempoolId_t pool) override;
    void release_pool(c10::MempoolId_t pool) override;
#endif

    void raw_delete(void *block);

  private:
    /* A fork holds all locks, so that its child finds them free. */
    static void lock_all();
    static void unlock_all();

    struct Block {
        moiety_host *arena = nullptr;
        size_t bytes = 0;
        /** The streams that use it, each once. */
        std::vector<PinnedUse> uses;
        /** A graph uses it at each launch: it is never used again. */
        bool is_kept = false;
    };
    struct Capture {
        c10::MempoolId_t pool;
        std::function<bool(c10::Stream)> filter;
    };

    bool is_captured();
    void *take(size_t bytes);
    bool insert(void *block, Block made);
    Block *find_locked(const void *data);
    bool is_ours(const void *data);
    void count_locked(const PinnedTotals &totals);
    void count();

    at::HostAllocator *before_ = nullptr;
    PinnedArenas arenas_;
    PinnedWaits waits_;
    std::mutex lock_; /* of the rest */
    /* By address, so that one inside of a block finds it. */
    std::map<uintptr_t, Block> blocks_;
    std::vector<Capture> captures_;
    c10::CachingAllocator::Stat requests_;
    c10::CachingAllocator::Stat request_bytes_;
    c10::CachingAllocator::Stat segments_;
    c10::CachingAllocator::Stat segment_bytes_;
    c10::CachingAllocator::DurationStat pin_time_;
    c10::CachingAllocator::DurationStat unpin_time_;
    int64_t pin_us_ = 0; /* of pin_time_, never reset */
};

} // namespace moiety_torch

#endif

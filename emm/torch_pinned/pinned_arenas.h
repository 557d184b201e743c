/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The host arenas behind PyTorch's pinned memory: one for each set of NUMA nodes,
 * made when a device near them first needs it.
 */
#ifndef MOIETY_EMM_TORCH_PINNED_PINNED_ARENAS_H_
#define MOIETY_EMM_TORCH_PINNED_PINNED_ARENAS_H_

#include <c10/cuda/CUDAStream.h>
#include <moiety/moiety.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pools.h"

namespace moiety_torch
{

/** An arena of a device, and the device's primary context. Never destroyed. */
struct PinnedArena {
    int device = 0;
    moiety_host *host = nullptr;
    moiety_pool *pool = nullptr;
    moiety_context context = nullptr;
    moiety_host_stats place = {};
    /** Bit i: the pool knows the context of device i. Guarded by the lock of
     *  PinnedArenas. */
    uint64_t devices = 0;
    /** The first arena of the same nodes, which alone has memory. */
    PinnedArena *first = this;
};

/** What all arenas have. */
struct PinnedTotals {
    int64_t segment_count = 0;
    int64_t bytes = 0;
    int64_t peak_bytes = 0;
    /** Microseconds that were ever spent to pin. */
    int64_t pin_us = 0;
};

class PinnedArenas
{
  public:
    /** The arena near the current device; NULL: there is none, and a warning
     *  had the reason. It starts CUDA on a device only if no device has. */
    PinnedArena *of_current_device();

    /** The arena's name for a stream of any device; nothing: it has none. */
    std::optional<moiety_stream> stream_of(PinnedArena &arena,
                                           c10::cuda::CUDAStream stream);

    PinnedTotals totals();
    void reset_peaks();

    /** Unpins unused memory, and returns the bytes. */
    uint64_t trim();

    /** Held while a process forks. */
    std::mutex &lock()
    {
        return lock_;
    }

  private:
    PinnedArena *make(int device);
    PinnedArena *make_locked(int device, std::string *out_why);
    std::vector<PinnedArena *> with_memory() const;

    std::atomic<PinnedArena *> arenas_[kDevicesMax] = {};
    std::mutex lock_; /* of the rest */
    uint64_t refused_ = 0;
};

/** Throws c10::Error if the status is that of a child of a fork. */
void refuse_child(moiety_status status);

} // namespace moiety_torch

#endif

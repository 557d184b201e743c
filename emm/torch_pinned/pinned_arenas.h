/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The host arenas behind PyTorch's pinned memory: one for each set of NUMA nodes,
 * made when a device near them first needs it.
 */
#ifndef MOIETY_EMM_TORCH_PINNED_PINNED_ARENAS_H_
#define MOIETY_EMM_TORCH_PINNED_PINNED_ARENAS_H_

#include <moiety/moiety.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "pools.h"

namespace moiety_torch
{

/** Sums over all arenas. */
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
    moiety_host *of_current_device();

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
    moiety_host *make(int device);
    bool is_refused(int device);
    moiety_host *refuse(int device, const std::string &why);
    moiety_host *publish(int device, moiety_host *made);
    moiety_host *join_locked(moiety_host *made);
    std::vector<moiety_host *> all();

    std::atomic<moiety_host *> arenas_[kDevicesMax] = {};
    std::mutex lock_; /* of the rest */
    /* Each once. They are never destroyed. */
    std::vector<moiety_host *> all_;
    uint64_t refused_ = 0; /* bit i: device i */
};

/** Throws c10::Error if the status is that of a child of a fork. */
void refuse_child(moiety_status status);

} // namespace moiety_torch

#endif

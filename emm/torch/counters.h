/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's tensors take: sums by thread, so that threads share no line
 * of memory, and a peak of them.
 */
#ifndef MOIETY_EMM_TORCH_COUNTERS_H_
#define MOIETY_EMM_TORCH_COUNTERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace moiety_torch
{

/** Bytes by which a thread's part may be ahead of what the peak knows, or behind,
 *  while several threads allocate. */
constexpr int64_t kPeakStepBytes = INT64_C(1) << 20;

struct Sums {
    int64_t blocks = 0; /* in use, and their bytes */
    int64_t bytes = 0;
    int64_t allocations = 0; /* since reset_accumulated() */
    int64_t frees = 0;
    int64_t allocated_bytes = 0;
    int64_t freed_bytes = 0;
    int64_t synchronizations = 0; /* of all streams */
    int64_t peak_bytes = 0;
    int64_t peak_blocks = 0;
};

/** Of one device. */
class Counters
{
  public:
    void note_allocation(int64_t bytes);
    void note_free(int64_t bytes);
    void note_synchronization()
    {
        synchronizations_.fetch_add(1, std::memory_order_relaxed);
    }

    /** Exact when no thread allocates or frees. */
    Sums read() const;

    void reset_accumulated();
    void reset_peak();

    /** Each call publishes at once: exact peaks, and a line that all threads
     *  write. */
    void set_exact(bool is_exact)
    {
        /* Relaxed: a setting, made before threads begin. */
        is_exact_.store(is_exact, std::memory_order_relaxed);
    }

  private:
    /** A thread's part: it alone writes. Kept for the next thread when it
     *  ends. */
    struct Part {
        std::atomic<int64_t> allocations{0};
        std::atomic<int64_t> frees{0};
        std::atomic<int64_t> allocated_bytes{0};
        std::atomic<int64_t> freed_bytes{0};
        int64_t unpublished_bytes = 0;
        int64_t unpublished_blocks = 0;
        bool is_taken = false; /* by a thread; under the lock */
    };
    friend struct Seat;

    Part *take_part();
    void leave(Part *part);
    void publish(Part *part);
    void settle(Part *part, int64_t bytes, int64_t blocks);
    Part *mine();
    Sums sum() const;

    mutable std::mutex lock_; /* of parts_ and base_ */
    std::vector<std::unique_ptr<Part>> parts_;
    Sums base_;
    std::atomic<int64_t> synchronizations_{0};
    std::atomic<uint32_t> threads_{0};
    std::atomic<bool> is_exact_{false};
    std::atomic<int64_t> live_bytes_{0};
    std::atomic<int64_t> live_blocks_{0};
    std::atomic<int64_t> peak_bytes_{0};
    std::atomic<int64_t> peak_blocks_{0};
};

/** Of the device. */
Counters &counters_of(int device);

} // namespace moiety_torch

#endif

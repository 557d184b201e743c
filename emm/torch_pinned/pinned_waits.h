/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Freed blocks that streams still use. Each waits for an event of each of its
 * streams, and for nothing else: an arena itself would wait for all work of the
 * context, and a copy's buffer must not wait for a long kernel beside it.
 */
#ifndef MOIETY_EMM_TORCH_PINNED_PINNED_WAITS_H_
#define MOIETY_EMM_TORCH_PINNED_PINNED_WAITS_H_

#include <c10/core/Stream.h>
#include <cuda_runtime_api.h>
#include <moiety/moiety.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace moiety_torch
{

/** A stream, and an event behind its uses of a block; NULL: none was recorded yet,
 *  as the stream captures. */
struct PinnedUse {
    c10::Stream stream;
    cudaEvent_t event = nullptr;
};

struct PinnedFreed {
    moiety_host *arena = nullptr;
    void *block = nullptr;
    std::vector<PinnedUse> uses;
};

class PinnedWaits
{
  public:
    /** Takes a block that has uses. It never waits. */
    void add(PinnedFreed freed);

    /** Frees the blocks whose uses are over. It never waits. */
    void poll();

    /** Held while a process forks. */
    std::mutex &lock()
    {
        return lock_;
    }

  private:
    /* kLost: nobody can tell any more. */
    enum class Look { kPending, kOver, kLost };

    /* Whether the use has an event, or gets one later. */
    bool record(PinnedUse &use);
    Look look(PinnedUse &use);
    void free_after_all(const PinnedFreed &freed);
    cudaEvent_t take_event(c10::DeviceIndex device);
    void keep_event(const PinnedUse &use);
    void push(PinnedFreed freed, bool is_first);
    bool pop(const c10::Stream &stream, PinnedFreed *out);
    void poll_stream(const c10::Stream &stream);

    /* Edge: none; relaxed, advice: blocks that wait. */
    std::atomic<size_t> count_{0};
    std::mutex lock_; /* of the rest */
    /* By the last of their uses: no stream waits for another. */
    std::unordered_map<c10::Stream, std::deque<PinnedFreed>> freed_;
    std::unordered_map<c10::DeviceIndex, std::vector<cudaEvent_t>> events_;
};

/** Whether the stream captures, or is a legacy stream while another one captures. */
bool is_capturing(const c10::Stream &stream);

/** Frees a block; a failure is a warning. */
void free_pinned(moiety_host *arena, void *block, moiety_stream stream);

} // namespace moiety_torch

#endif

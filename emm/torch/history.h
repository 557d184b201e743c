/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What happened, for torch.cuda.memory._record_memory_history() and _snapshot(),
 * and those who are told of it: NCCL of segments, observers of memory that runs
 * out.
 */
#ifndef MOIETY_EMM_TORCH_HISTORY_H_
#define MOIETY_EMM_TORCH_HISTORY_H_

#include <c10/cuda/CUDACachingAllocator.h>
#include <moiety/moiety.h>
#include <moiety/segment.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "release.h"

namespace moiety_torch
{

class History
{
  public:
    using Entry = caching::TraceEntry;
    using Context = std::shared_ptr<c10::GatheredContext>;

    void record(bool is_on, caching::CreateContextFn recorder, size_t most,
                caching::RecordContext when, bool clears,
                const std::vector<std::string> &skipped);
    void
    annotate(const std::vector<std::pair<std::string, std::string>> &metadata);

    bool is_on() const
    {
        /* Relaxed: whoever turns it on waits for nobody. */
        return is_on_.load(std::memory_order_relaxed);
    }

    /** A call of PyTorch's in its thread. Where the history is on, its stack is that
     *  of what is noted until it ends, segments that come and go by it among
     *  them. `when` is the least of RecordContext that has it. */
    class Call
    {
      public:
        Call(History &history, caching::RecordContext when)
        {
            if (history.is_on())
                begin(history, when);
        }
        ~Call()
        {
            if (is_noted_)
                end();
        }
        Call(const Call &) = delete;
        Call &operator=(const Call &) = delete;

      private:
        void begin(History &history, caching::RecordContext when);
        void end();

        bool is_noted_ = false;
        Context outer_; /* of the call that this one is in */
    };

    /** To be called where is_on(), within a Call. */
    void note(Entry::Action action, int device, size_t address, size_t bytes,
              void *stream, c10::MempoolId_t pool);

    /** Of a block in use: the stack that it was allocated at, null where it was not
     *  recorded, and what was asked for. */
    struct Allocation {
        Context context;
        size_t bytes;
    };
    /** 0 bytes: it is from before the history began. */
    Allocation allocation_of(size_t address);

    std::vector<std::vector<Entry>> entries(int devices);
    std::vector<Annotation> annotations();

    void attach(caching::OutOfMemoryObserver observer);
    void attach(caching::AllocatorTraceTracker tracker);

    /** Notes the segments of a pool from now on where the history is on, and tells
     *  trackers of them; these of such that there are already at once. */
    void watch(int device, moiety_pool *pool);

    /** Calls the observers, in the thread of the allocation. */
    void tell_out_of_memory(int device, size_t bytes, size_t total,
                            size_t free);

  private:
    struct Watch {
        History *history;
        int device;
        moiety_pool *pool;
        bool is_for_trackers; /* or for entries_ */
        moiety_watch handle;  /* null: it has not begun */
    };
    static void added(void *user, const moiety_segment_info *segment);
    static void releasing(void *user, const moiety_segment_info *segment);
    void tell(const Watch &watch, const moiety_segment_info &segment,
              bool is_there);
    void begin(Watch &watch);
    void end(Watch &watch);
    bool has_trackers();
    Context gather(caching::RecordContext when);
    Context stack_of_call() const;
    bool is_skipped(Entry::Action action) const;
    void push(Entry entry);

    std::atomic<bool> is_on_{false};
    std::mutex lock_; /* of all below, up to watch_lock_ */
    caching::CreateContextFn recorder_ = nullptr;
    caching::RecordContext when_ = caching::RecordContext::NEVER;
    size_t most_ = 0;
    std::vector<Entry::Action> skipped_;
    std::deque<Entry> entries_;
    std::deque<Annotation> annotations_;
    std::unordered_map<size_t, Allocation> allocations_; /* in use */
    std::vector<caching::OutOfMemoryObserver> observers_;
    std::mutex tracker_lock_;
    std::vector<caching::AllocatorTraceTracker> trackers_;
    std::mutex watch_lock_; /* of watches_; not held by what trackers call */
    std::deque<Watch> watches_;
};

/** What the calling thread's events have: the stack of its call, and texts that it
 *  put on its allocations. */
struct ThreadNotes {
    History::Context context;
    std::vector<std::string> compile_contexts;
    std::string metadata;
};
ThreadNotes &thread_notes();

} // namespace moiety_torch

#endif

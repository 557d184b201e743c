/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "history.h"

#include "pools.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <utility>

namespace binade_torch
{

ThreadNotes &thread_notes()
{
    static thread_local ThreadNotes notes;
    return notes;
}

void History::record(bool is_on, caching::CreateContextFn recorder, size_t most,
                     caching::RecordContext when, bool clears,
                     const std::vector<std::string> &skipped)
{
    TORCH_CHECK(when == caching::RecordContext::NEVER || recorder,
                "stacks are recorded by a function, and there is none");
    std::lock_guard<std::mutex> guard(lock_);
    recorder_ = is_on ? recorder : nullptr;
    when_ = is_on ? when : caching::RecordContext::NEVER;
    most_ = std::max<size_t>(most, 1);
    skipped_.clear();
    for (const auto &name : skipped)
        skipped_.push_back(action_of(name));
    if (!is_on || clears) {
        entries_.clear();
        annotations_.clear();
        allocations_.clear();
    }
    is_on_.store(is_on, std::memory_order_relaxed);
}

void History::annotate(
    const std::vector<std::pair<std::string, std::string>> &metadata)
{
    if (!is_on())
        return;
    Annotation entry(c10::cuda::current_device(), c10::getApproximateTime());
    for (const auto &pair : metadata)
        entry.recordUserMetadata(pair.first, pair.second);
    std::lock_guard<std::mutex> guard(lock_);
    annotations_.push_back(std::move(entry));
    while (annotations_.size() > most_)
        annotations_.pop_front();
}

void History::note(Entry::Action action, int device, size_t address,
                   size_t bytes, void *stream, c10::MempoolId_t pool,
                   caching::RecordContext when)
{
    caching::CreateContextFn recorder;
    {
        std::lock_guard<std::mutex> guard(lock_);
        recorder = when_ >= when ? recorder_ : nullptr;
    }
    /* Not under the lock: it may take Python's. */
    Context context = recorder ? recorder() : nullptr;
    const ThreadNotes &notes = thread_notes();
    std::lock_guard<std::mutex> guard(lock_);
    if (!is_on())
        return;
    if (action == Entry::ALLOC)
        allocations_[address] = {context, bytes};
    else if (action == Entry::FREE_REQUESTED)
        allocations_.erase(address);
    if (std::find(skipped_.begin(), skipped_.end(), action) != skipped_.end())
        return;
    if (when_ < caching::RecordContext::ALLOC)
        context = nullptr;
    entries_.emplace_back(
        action, static_cast<c10::DeviceIndex>(device), address, bytes,
        static_cast<EntryStream>(stream), pool, c10::getApproximateTime(),
        std::move(context),
        notes.compile_contexts.empty() ? "" : notes.compile_contexts.back());
    set_metadata(entries_.back(), notes.metadata);
    while (entries_.size() > most_)
        entries_.pop_front();
}

History::Allocation History::allocation_of(size_t address)
{
    std::lock_guard<std::mutex> guard(lock_);
    auto found = allocations_.find(address);
    return found == allocations_.end() ? Allocation{} : found->second;
}

std::vector<std::vector<History::Entry>> History::entries(int devices)
{
    c10::ApproximateClockToUnixTimeConverter clock;
    auto to_ns = clock.makeConverter();
    std::lock_guard<std::mutex> guard(lock_);
    std::vector<std::vector<Entry>> out(static_cast<size_t>(devices));
    for (const Entry &entry : entries_) {
        if (entry.device_ >= devices)
            continue;
        auto &list = out[static_cast<size_t>(entry.device_)];
        list.push_back(entry);
        list.back().time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
    }
    return out;
}

std::vector<Annotation> History::annotations()
{
    c10::ApproximateClockToUnixTimeConverter clock;
    auto to_ns = clock.makeConverter();
    std::lock_guard<std::mutex> guard(lock_);
    std::vector<Annotation> out(annotations_.begin(), annotations_.end());
    for (auto &entry : out)
        entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
    return out;
}

void History::attach(caching::OutOfMemoryObserver observer)
{
    std::lock_guard<std::mutex> guard(lock_);
    observers_.push_back(std::move(observer));
}

void History::tell_out_of_memory(int device, size_t bytes, size_t total,
                                 size_t free)
{
    std::vector<caching::OutOfMemoryObserver> observers;
    {
        std::lock_guard<std::mutex> guard(lock_);
        observers = observers_;
    }
    for (const auto &observer : observers)
        observer(device, bytes, total, free);
}

void History::attach(caching::AllocatorTraceTracker tracker)
{
    {
        std::lock_guard<std::mutex> guard(tracker_lock_);
        trackers_.push_back(std::move(tracker));
        if (trackers_.size() > 1)
            return;
    }
    std::lock_guard<std::mutex> guard(watch_lock_);
    for (Watch &watch : watches_)
        begin(watch);
}

void History::watch(int device, binade_pool *pool)
{
    std::lock_guard<std::mutex> guard(watch_lock_);
    watches_.push_back({this, device, pool, 0});
    bool has_trackers;
    {
        std::lock_guard<std::mutex> tracker_guard(tracker_lock_);
        has_trackers = !trackers_.empty();
    }
    if (has_trackers)
        begin(watches_.back());
}

void History::begin(Watch &watch)
{
    if (watch.id)
        return;
    const binade_segment_watcher watcher = {sizeof(watcher), 0, &watch, added,
                                            releasing};
    check(binade_segment_watch(watch.pool, &watcher, &watch.id),
          "segments cannot be watched");
}

void History::added(void *user, const binade_segment_info *segment)
{
    const Watch *watch = static_cast<Watch *>(user);
    watch->history->tell(*watch, *segment, true);
}

void History::releasing(void *user, const binade_segment_info *segment)
{
    const Watch *watch = static_cast<Watch *>(user);
    watch->history->tell(*watch, *segment, false);
}

void History::tell(const Watch &watch, const binade_segment_info &segment,
                   bool is_there)
{
    bool is_mapped = segment.flags & BINADE_SEGMENT_MAPPED;
    Entry::Action action =
        is_there ? (is_mapped ? Entry::SEGMENT_MAP : Entry::SEGMENT_ALLOC)
                 : (is_mapped ? Entry::SEGMENT_UNMAP : Entry::SEGMENT_FREE);
    Entry entry(action, static_cast<c10::DeviceIndex>(watch.device),
                segment.address, segment.size_bytes, nullptr, {0, 0},
                c10::getApproximateTime());
    std::lock_guard<std::mutex> guard(tracker_lock_);
    for (const auto &tracker : trackers_)
        tracker(entry);
}

} // namespace binade_torch

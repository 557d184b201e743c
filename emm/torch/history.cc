/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "history.h"

#include <moiety/segment.h>

#include "pools.h"

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <utility>

namespace moiety_torch
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
    {
        std::lock_guard<std::mutex> guard(watch_lock_);
        for (Watch &watch : watches_) {
            if (watch.is_for_trackers)
                continue;
            if (is_on) /* Those that are there are not news: it is off yet. */
                begin(watch);
            else
                end(watch);
        }
    }
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

History::Context History::gather(caching::RecordContext when)
{
    caching::CreateContextFn recorder;
    {
        std::lock_guard<std::mutex> guard(lock_);
        recorder = when_ >= when ? recorder_ : nullptr;
    }
    /* Not under the lock: it may take Python's. */
    return recorder ? recorder() : nullptr;
}

void History::Call::begin(History &history, caching::RecordContext when)
{
    outer_ = std::move(thread_notes().context);
    is_noted_ = true;
    thread_notes().context = history.gather(when);
}

void History::Call::end()
{
    thread_notes().context = std::move(outer_);
}

/* Lock held: as an event has it. */
History::Context History::stack_of_call() const
{
    return when_ >= caching::RecordContext::ALLOC ? thread_notes().context
                                                  : nullptr;
}

/* Lock held. */
bool History::is_skipped(Entry::Action action) const
{
    return std::find(skipped_.begin(), skipped_.end(), action) !=
           skipped_.end();
}

/* Lock held. */
void History::push(Entry entry)
{
    entries_.push_back(std::move(entry));
    while (entries_.size() > most_)
        entries_.pop_front();
}

void History::note(Entry::Action action, int device, size_t address,
                   size_t bytes, void *stream, c10::MempoolId_t pool)
{
    const ThreadNotes &notes = thread_notes();
    std::lock_guard<std::mutex> guard(lock_);
    if (!is_on())
        return;
    if (action == Entry::ALLOC)
        allocations_[address] = {notes.context, bytes};
    else if (action == Entry::FREE_REQUESTED)
        allocations_.erase(address);
    if (is_skipped(action))
        return;
    Entry entry(action, static_cast<c10::DeviceIndex>(device), address, bytes,
                static_cast<EntryStream>(stream), pool,
                c10::getApproximateTime(), stack_of_call(),
                notes.compile_contexts.empty() ? ""
                                               : notes.compile_contexts.back());
    set_metadata(entry, notes.metadata);
    push(std::move(entry));
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
    for (Watch &watch : watches_) {
        if (watch.is_for_trackers)
            begin(watch);
    }
}

bool History::has_trackers()
{
    std::lock_guard<std::mutex> guard(tracker_lock_);
    return !trackers_.empty();
}

void History::watch(int device, moiety_pool *pool)
{
    std::lock_guard<std::mutex> guard(watch_lock_);
    watches_.push_back({this, device, pool, true, nullptr});
    if (has_trackers())
        begin(watches_.back());
    watches_.push_back({this, device, pool, false, nullptr});
    if (is_on())
        begin(watches_.back());
}

void History::begin(Watch &watch)
{
    if (watch.handle)
        return;
    const moiety_segment_watcher watcher = {sizeof(watcher), 0, &watch, added,
                                            releasing};
    check(moiety_segment_watch(watch.pool, &watcher, &watch.handle),
          "segments cannot be watched");
}

void History::end(Watch &watch)
{
    if (watch.handle)
        check(moiety_segment_unwatch(watch.pool, watch.handle),
              "segments are watched on");
    watch.handle = nullptr;
}

void History::added(void *user, const moiety_segment_info *segment)
{
    const Watch *watch = static_cast<Watch *>(user);
    watch->history->tell(*watch, *segment, true);
}

void History::releasing(void *user, const moiety_segment_info *segment)
{
    const Watch *watch = static_cast<Watch *>(user);
    watch->history->tell(*watch, *segment, false);
}

void History::tell(const Watch &watch, const moiety_segment_info &segment,
                   bool is_there)
{
    bool is_mapped = segment.flags & MOIETY_SEGMENT_MAPPED;
    Entry::Action action =
        is_there ? (is_mapped ? Entry::SEGMENT_MAP : Entry::SEGMENT_ALLOC)
                 : (is_mapped ? Entry::SEGMENT_UNMAP : Entry::SEGMENT_FREE);
    Entry entry(action, static_cast<c10::DeviceIndex>(watch.device),
                segment.address, segment.size_bytes, nullptr, {0, 0},
                c10::getApproximateTime());
    if (watch.is_for_trackers) {
        std::lock_guard<std::mutex> guard(tracker_lock_);
        for (const auto &tracker : trackers_)
            tracker(entry);
        return;
    }
    std::lock_guard<std::mutex> guard(lock_);
    if (!is_on() || is_skipped(action))
        return;
    entry.context_ = stack_of_call();
    push(std::move(entry));
}

} // namespace moiety_torch

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * torch.cuda.memory._snapshot(): segments and blocks at one moment, and what
 * happened before.
 */
#include "allocator.h"

#include <moiety/heap.h>
#include <moiety/segment.h>

namespace moiety_torch
{

namespace
{

using Segment = caching::SegmentInfo;

struct Heap {
    explicit Heap(moiety_pool *pool)
    {
        check(moiety_heap_snapshot_create(pool, &snapshot), "no snapshot");
        segments = moiety_heap_snapshot_segments(snapshot, &segment_count);
        intervals = moiety_heap_snapshot_intervals(snapshot, nullptr);
    }
    ~Heap()
    {
        moiety_heap_snapshot_destroy(snapshot);
    }
    Heap(const Heap &) = delete;
    Heap &operator=(const Heap &) = delete;

    moiety_heap_snapshot *snapshot = nullptr;
    const moiety_heap_segment *segments = nullptr;
    size_t segment_count = 0;
    const moiety_heap_interval *intervals = nullptr;
};

/* Its pieces come and go one by one, as those of PyTorch's expandable segments. */
bool is_mapped(moiety_pool *pool, moiety_devptr address)
{
    moiety_segment_info segment = {};
    segment.struct_size = sizeof(segment);
    return moiety_segment_find(pool, address, &segment) == MOIETY_OK &&
           (segment.flags & MOIETY_SEGMENT_MAPPED);
}

void add_block(Segment &segment, const moiety_heap_interval &interval,
               History &history)
{
    caching::BlockInfo block;
    block.size = interval.size_bytes;
    block.allocated = interval.kind == MOIETY_HEAP_USED;
    /* What its stream may have again at once is inactive, as with PyTorch's. */
    block.active = block.allocated;
    if (block.allocated) {
        auto known = history.allocation_of(interval.address);
        block.requested_size = known.bytes ? known.bytes : block.size;
        block.context_when_allocated = std::move(known.context);
    }
    segment.total_size += block.size;
    segment.requested_size += block.requested_size;
    segment.allocated_size += block.allocated ? block.size : 0;
    segment.active_size += block.active ? block.size : 0;
    segment.blocks.push_back(std::move(block));
}

} // namespace

/* A segment that arenas share is told in parts, each of one of PyTorch's
 * pools. */
void add_segments(moiety_pool *pool, int device, Arenas &arenas,
                  History &history, std::vector<Segment> *out)
{
    Heap heap(pool);
    auto arena_blocks = arenas.blocks_of(nullptr);
    for (size_t i = 0; i < heap.segment_count; i++) {
        const moiety_heap_segment &from = heap.segments[i];
        bool is_expandable = is_mapped(pool, from.address);
        for (uint64_t j = 0; j < from.interval_count; j++) {
            const auto &interval = heap.intervals[from.first_interval + j];
            auto found = arena_blocks.find(block_at(interval.address));
            c10::MempoolId_t owner = {0, 0};
            if (found != arena_blocks.end())
                owner = found->second.key.second;
            else if (interval.kind == MOIETY_HEAP_KEPT && j > 0)
                owner = out->back().owner_private_pool_id;
            if (j == 0 || owner != out->back().owner_private_pool_id) {
                Segment part;
                part.device = static_cast<c10::DeviceIndex>(device);
                part.address = interval.address;
                part.is_large = true;
                part.is_expandable = is_expandable;
                part.owner_private_pool_id = owner;
                out->push_back(std::move(part));
            }
            add_block(out->back(), interval, history);
        }
    }
}

caching::SnapshotInfo Allocator::snapshot(c10::MempoolId_t pool,
                                          bool include_traces)
{
    caching::SnapshotInfo out = {};
    int devices = 0;
    for (int device = 0; device < kDevicesMax; device++) {
        if (!pools_.find(device))
            continue;
        devices = device + 1;
        add_segments(pools_.find(device), device, arenas_, history_,
                     &out.segments);
    }
    if (pool != c10::MempoolId_t{0, 0}) {
        std::vector<Segment> wanted;
        for (Segment &segment : out.segments) {
            if (segment.owner_private_pool_id == pool)
                wanted.push_back(std::move(segment));
        }
        out.segments = std::move(wanted);
    }
    int known = device_count_.load(std::memory_order_relaxed);
    if (include_traces)
        out.device_traces = history_.entries(known > devices ? known : devices);
    out.external_annotations = history_.annotations();
    return out;
}

bool Allocator::isHistoryEnabled()
{
    return history_.is_on();
}

void Allocator::recordHistory(bool is_on, caching::CreateContextFn recorder,
                              size_t most, caching::RecordContext when,
                              bool clears,
                              const std::vector<std::string> &skipped)
{
    history_.record(is_on, recorder, most, when, clears, skipped);
}

void Allocator::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>> &metadata)
{
    history_.annotate(metadata);
}

void Allocator::pushCompileContext(std::string &text)
{
    thread_notes().compile_contexts.push_back(text);
}

void Allocator::popCompileContext()
{
    if (!thread_notes().compile_contexts.empty())
        thread_notes().compile_contexts.pop_back();
}

void Allocator::setUserMetadata(const std::string &text)
{
    thread_notes().metadata = text;
}

std::string Allocator::getUserMetadata()
{
    return thread_notes().metadata;
}

void Allocator::attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer)
{
    history_.attach(std::move(observer));
}

void Allocator::attachAllocatorTraceTracker(
    caching::AllocatorTraceTracker tracker)
{
    history_.attach(std::move(tracker));
}

} // namespace moiety_torch

// SPDX-License-Identifier: Apache-2.0
#include "bench/heaps/machine.h"

#include <cstdlib>
#include <new>

#include "bench/heaps/machine_state.h"

using heap_model::Bin;
using heap_model::Cache;
using heap_model::Heap;
using heap_model::kAny;
using heap_model::kDone;
using heap_model::kFirstStream;
using heap_model::kGrainBytes;
using heap_model::kNone;
using heap_model::kPageGrains;
using heap_model::Label;
using heap_model::RoundUp;
using heap_model::Side;
using heap_model::State;

namespace
{

// One of eight sizes per doubling.
uint64_t ClassGrains(uint64_t grains)
{
    if (grains <= 8)
        return grains;
    return RoundUp(grains, UINT64_C(1) << (60 - __builtin_clzll(grains - 1)));
}

} // namespace

// --- free memory ---

std::vector<Label> heap_machine::UsableBy(uint32_t owner, Side side) const
{
    if (owner == kDone)
        return {{kDone, 0, side}};
    return {{owner, 0, side}, {owner, 1, side}, {kDone, 0, side}};
}

bool heap_machine::MayJoin(uint64_t at, const Label &label,
                           uint64_t freed) const
{
    if (!space.IsFree(at))
        return false;
    const Label &other = space.At(at).label;
    if (other == label)
        return true;
    // A label only ever gets later.
    if (other.side != label.side || label.owner == kDone ||
        label.age != heaps[label.owner].fresh || heaps[label.owner].is_wanted)
        return false;
    if (other.owner == label.owner)
        return rules.absorb >= HEAP_ABSORBS_CLOSED;
    return other.owner == kDone && (rules.absorb == HEAP_ABSORBS_ALL ||
                                    (rules.absorb == HEAP_ABSORBS_BOUNDED &&
                                     space.Length(at) <= freed));
}

// Returns where the extent begins that it has become a part of.
uint64_t heap_machine::Give(uint64_t at, const Label &label)
{
    const uint64_t freed = space.Length(at);
    space.SetFree(at, label);
    for (uint64_t after = space.After(at); MayJoin(after, label, freed);
         after = space.After(at)) {
        space.SetFree(after, label);
        space.JoinBefore(after);
    }
    for (uint64_t before = space.Before(at); MayJoin(before, label, freed);
         before = space.Before(at)) {
        space.SetFree(before, label);
        space.JoinBefore(at);
        at = before;
    }
    return at;
}

uint64_t heap_machine::Cut(uint64_t at, uint64_t grains, bool is_at_end)
{
    const uint64_t length = space.Length(at);
    if (length > grains) {
        const uint64_t second = is_at_end ? at + length - grains : at + grains;
        space.Split(second);
        if (is_at_end)
            at = second;
    }
    space.SetOut(at);
    return at;
}

// The shortest that is long enough; the rest stays beside free memory.
uint64_t heap_machine::Take(uint32_t owner, uint64_t grains, Side side)
{
    uint64_t best = kNone;
    for (const Label &label : UsableBy(owner, side)) {
        Bin &bin = space.BinOf(label);
        auto found = bin.lower_bound({grains, 0});
        if (found != bin.end() &&
            (best == kNone || found->first < space.Length(best)))
            best = found->second;
    }
    if (best == kNone)
        return kNone;
    const bool is_at_end =
        space.IsFree(space.Before(best)) && !space.IsFree(space.After(best));
    return Cut(best, grains, is_at_end);
}

// A page of the shortest large extent that has a whole one.
bool heap_machine::ToSmall(uint32_t owner)
{
    uint64_t best = kNone;
    for (const Label &label : UsableBy(owner, Side::kLarge)) {
        Bin &bin = space.BinOf(label);
        for (auto at = bin.lower_bound({kPageGrains, 0}); at != bin.end();
             ++at) {
            const uint64_t page = RoundUp(at->second, kPageGrains);
            if (page + kPageGrains > at->second + at->first)
                continue;
            if (best == kNone || at->first < space.Length(best))
                best = at->second;
            break;
        }
    }
    if (best == kNone)
        return false;
    const uint64_t page = RoundUp(best, kPageGrains);
    Label label = space.At(best).label;
    if (page != best)
        space.Split(page);
    if (space.Length(page) > kPageGrains)
        space.Split(page + kPageGrains);
    label.side = Side::kSmall;
    (void)Give(page, label);
    return true;
}

// Pages in which no small block is left.
bool heap_machine::ToLarge(uint32_t owner)
{
    std::vector<uint64_t> whole;
    for (const Label &label : UsableBy(owner, Side::kSmall)) {
        Bin &bin = space.BinOf(label);
        for (auto at = bin.lower_bound({kPageGrains, 0}); at != bin.end(); ++at)
            if (RoundUp(at->second, kPageGrains) + kPageGrains <=
                at->second + at->first)
                whole.push_back(at->second);
    }
    for (uint64_t at : whole) {
        const uint64_t end = at + space.Length(at);
        const uint64_t first = RoundUp(at, kPageGrains);
        const uint64_t last = end / kPageGrains * kPageGrains;
        Label label = space.At(at).label;
        if (first != at)
            space.Split(first);
        if (last != end)
            space.Split(last);
        label.side = Side::kLarge;
        (void)Give(first, label);
    }
    return !whole.empty();
}

uint64_t heap_machine::TakeOrChange(uint32_t owner, uint64_t grains, Side side)
{
    uint64_t at = Take(owner, grains, side);
    if (at != kNone || !rules.is_small_apart)
        return at;
    const bool has_changed =
        side == Side::kSmall ? ToSmall(owner) : ToLarge(owner);
    return has_changed ? Take(owner, grains, side) : kNone;
}

uint64_t heap_machine::Extent(uint32_t owner, uint64_t grains)
{
    const Side side = SideOf(grains);
    uint64_t at = TakeOrChange(owner, grains, side);
    if (at == kNone && AskOthers(owner))
        at = TakeOrChange(owner, grains, side);
    if (at != kNone)
        return at;
    growth_count++;
    if (rules.is_fixed)
        GrowFixed(side == Side::kSmall ? kPageGrains : grains);
    else
        Grow(owner, side == Side::kSmall ? kPageGrains : grains, side);
    at = TakeOrChange(owner, grains, side);
    if (at == kNone)
        std::abort();
    return at;
}

// --- ages ---

void heap_machine::Forget(Heap &heap)
{
    for (void *event : heap.events)
        device.forget(event);
    heap.events.clear();
}

bool heap_machine::HasFree(uint32_t owner)
{
    for (uint8_t age = 0; age < 2; age++)
        for (Side side : {Side::kSmall, Side::kLarge})
            if (!space.BinOf({owner, age, side}).empty())
                return true;
    return false;
}

// False: the other age is still closed, or no event could be recorded.
bool heap_machine::Close(uint32_t owner)
{
    Heap &heap = heaps[owner];
    if (heap.is_closed)
        return false;
    const uint32_t first = owner == kAny ? 0 : owner - kFirstStream;
    const uint32_t end = owner == kAny ? device.stream_count : first + 1;
    for (uint32_t stream = first; stream < end; stream++) {
        void *event = device.record(stream);
        event_count++;
        if (!event) {
            Forget(heap);
            return false;
        }
        heap.events.push_back(event);
    }
    heap.is_closed = true;
    heap.fresh ^= 1;
    return true;
}

bool heap_machine::IsOver(Heap &heap)
{
    while (!heap.events.empty() && device.is_over(heap.events.back())) {
        device.forget(heap.events.back());
        heap.events.pop_back();
    }
    return heap.events.empty();
}

// What is closed and over is done.
bool heap_machine::Drain(uint32_t owner)
{
    Heap &heap = heaps[owner];
    bool is_any = false;
    if (!heap.is_closed || !IsOver(heap))
        return false;
    for (Side side : {Side::kSmall, Side::kLarge}) {
        Bin &bin = space.BinOf(ClosedOf(owner, side));
        for (; !bin.empty(); is_any = true)
            (void)Give(bin.begin()->second, {kDone, 0, side});
    }
    heap.is_closed = false;
    heap.is_wanted = false;
    return is_any;
}

bool heap_machine::AskOthers(uint32_t owner)
{
    bool is_any = false;
    for (uint32_t other = kAny; other < heaps.size(); other++) {
        if (other == owner || !HasFree(other))
            continue;
        is_any |= Drain(other);
        if (HasFree(other) && Close(other))
            is_any |= Drain(other);
        heaps[other].is_wanted = heaps[other].is_closed;
    }
    return is_any;
}

// --- calls ---

uint64_t heap_machine::Refill(Cache &cache, uint32_t owner, uint64_t grains)
{
    const uint64_t at = Extent(owner, grains);
    const uint64_t most = rules.cache_class_bytes / kGrainBytes / grains / 2;
    std::vector<uint64_t> &blocks = cache.blocks[grains];
    for (uint64_t i = 1; i < most; i++) {
        if ((cache.grains + grains) * kGrainBytes > rules.cache_bytes)
            break;
        const uint64_t more = Take(owner, grains, SideOf(grains));
        if (more == kNone)
            break;
        blocks.push_back(more);
        cache.grains += grains;
        cached_grains += grains;
    }
    return at;
}

void heap_machine::Flush(Cache &cache, uint32_t owner, uint64_t grains)
{
    std::vector<uint64_t> &blocks = cache.blocks[grains];
    const size_t count = (blocks.size() + 1) / 2;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = blocks[i];
        (void)Give(at, FreshOf(owner, space.At(at).label.side));
        cache.grains -= grains;
        cached_grains -= grains;
    }
    blocks.erase(blocks.begin(), blocks.begin() + long(count));
}

uint64_t heap_machine::Alloc(uint32_t thread, uint64_t size_bytes,
                             uint32_t stream)
{
    const uint32_t owner = kFirstStream + stream;
    uint64_t grains =
        size_bytes ? (size_bytes + kGrainBytes - 1) / kGrainBytes : 1;
    uint64_t at = kNone;
    if (rules.calls_of_a_move && ++calls % rules.calls_of_a_move == 0 &&
        moves_left < rules.moves_most)
        moves_left++;
    if (IsCached(ClassGrains(grains))) {
        grains = ClassGrains(grains);
        Cache &cache = caches[{thread, owner}];
        std::vector<uint64_t> &blocks = cache.blocks[grains];
        if (blocks.empty()) {
            at = Refill(cache, owner, grains);
        } else {
            at = blocks.back();
            blocks.pop_back();
            cache.grains -= grains;
            cached_grains -= grains;
        }
    } else {
        at = Extent(owner, grains);
    }
    handed_grains += grains;
    return at;
}

void heap_machine::Free(uint32_t thread, uint64_t at, uint32_t stream)
{
    const uint32_t owner = stream == HEAP_STREAM_ANY    ? kAny
                           : stream == HEAP_STREAM_DONE ? kDone
                                                        : kFirstStream + stream;
    auto found = space.extents().find(at);
    if (found == space.extents().end() || found->second.state != State::kOut)
        std::abort();
    const uint64_t grains = found->second.length;
    const bool is_cached = owner >= kFirstStream && IsCached(grains) &&
                           grains == ClassGrains(grains) &&
                           grains * kGrainBytes <= rules.cache_class_bytes;
    handed_grains -= grains;
    if (!is_cached) {
        (void)Give(at, FreshOf(owner, found->second.label.side));
        return;
    }
    Cache &cache = caches[{thread, owner}];
    std::vector<uint64_t> &blocks = cache.blocks[grains];
    if ((blocks.size() + 1) * grains * kGrainBytes > rules.cache_class_bytes)
        Flush(cache, owner, grains);
    if ((cache.grains + grains) * kGrainBytes > rules.cache_bytes) {
        (void)Give(at, FreshOf(owner, found->second.label.side));
        return;
    }
    blocks.push_back(at);
    cache.grains += grains;
    cached_grains += grains;
}

void heap_machine::Measure(heap_figures *out)
{
    *out = {handed_grains * kGrainBytes,
            cached_grains * kGrainBytes,
            0,
            reserved_grains * kGrainBytes,
            move_count,
            growth_count,
            event_count};
    for (uint32_t owner = kAny; owner < heaps.size(); owner++)
        for (uint8_t age = 0; age < 2; age++)
            for (Side side : {Side::kSmall, Side::kLarge})
                for (const auto &[length, at] : space.BinOf({owner, age, side}))
                    out->waiting_bytes += length * kGrainBytes;
}

// --- the model's own rules ---

const char *heap_machine::Check()
{
    uint64_t next = kPageGrains;
    uint64_t memory = 0;
    uint64_t before = kNone;
    std::map<uint64_t, Side> pages;
    for (const auto &[at, extent] : space.extents()) {
        if (at != next)
            return "extents do not tile the addresses";
        next = at + extent.length;
        const bool is_hole = extent.state == State::kHole;
        if (is_hole && (at % kPageGrains || next % kPageGrains))
            return "a hole does not end at a page's border";
        if (before != kNone && space.At(before).state == extent.state &&
            extent.state != State::kOut &&
            (is_hole || space.At(before).label == extent.label))
            return "neighbours are not joined";
        before = at;
        if (is_hole)
            continue;
        memory += extent.length;
        for (uint64_t page = at / kPageGrains; page <= (next - 1) / kPageGrains;
             page++)
            if (!pages.insert({page, extent.label.side}).second &&
                pages[page] != extent.label.side)
                return "a page has small blocks and others";
    }
    if (next != space.end())
        return "extents do not reach the end";
    return memory == reserved_grains ? nullptr
                                     : "memory was lost, or counted "
                                       "twice";
}

// --- the interface in C ---

heap_machine *heap_create(const heap_rules *rules, const heap_device *device)
{
    return new (std::nothrow) heap_machine(*rules, *device);
}

void heap_destroy(heap_machine *machine)
{
    delete machine;
}

uint64_t heap_alloc(heap_machine *machine, uint32_t thread, uint64_t size_bytes,
                    uint32_t stream)
{
    const std::lock_guard<std::mutex> hold(machine->mutex);
    return machine->Alloc(thread, size_bytes, stream) * kGrainBytes;
}

void heap_free(heap_machine *machine, uint32_t thread, uint64_t address,
               uint32_t stream)
{
    const std::lock_guard<std::mutex> hold(machine->mutex);
    machine->Free(thread, address / kGrainBytes, stream);
}

void heap_measure(heap_machine *machine, heap_figures *out)
{
    const std::lock_guard<std::mutex> hold(machine->mutex);
    machine->Measure(out);
}

uint64_t heap_reserved_bytes(heap_machine *machine)
{
    const std::lock_guard<std::mutex> hold(machine->mutex);
    return machine->ReservedBytes();
}

const char *heap_check(heap_machine *machine)
{
    const std::lock_guard<std::mutex> hold(machine->mutex);
    return machine->Check();
}

// SPDX-License-Identifier: Apache-2.0
#include "bench/heaps/space.h"

#include <cassert>

namespace heap_model
{

Bin &Space::BinOf(const Label &label)
{
    return bins_[uint64_t(label.owner) << 2 | uint64_t(label.age) << 1 |
                 uint64_t(label.side == Side::kLarge)];
}

void Space::Unlist(uint64_t at)
{
    const Extent &extent = extents_.at(at);
    if (extent.state == State::kFree)
        BinOf(extent.label).erase({extent.length, at});
}

void Space::Extend(uint64_t grains, State state, const Label &label)
{
    extents_[end_] = {grains, State::kOut, label};
    if (state == State::kFree)
        SetFree(end_, label);
    else
        extents_[end_].state = state;
    end_ += grains;
}

void Space::SetFree(uint64_t at, const Label &label)
{
    Unlist(at);
    Extent &extent = extents_.at(at);
    extent.state = State::kFree;
    extent.label = label;
    BinOf(label).insert({extent.length, at});
}

void Space::SetOut(uint64_t at)
{
    Unlist(at);
    extents_.at(at).state = State::kOut;
}

void Space::SetHole(uint64_t at)
{
    Unlist(at);
    extents_.at(at).state = State::kHole;
}

void Space::Split(uint64_t at)
{
    auto first = std::prev(extents_.upper_bound(at));
    assert(first->first < at && at < first->first + first->second.length);
    Unlist(first->first);
    const Extent whole = first->second;
    first->second.length = at - first->first;
    extents_[at] = {whole.length - first->second.length, State::kOut,
                    whole.label};
    if (whole.state == State::kFree) {
        BinOf(whole.label).insert({first->second.length, first->first});
        SetFree(at, whole.label);
    } else {
        extents_[at].state = whole.state;
    }
}

void Space::JoinBefore(uint64_t at)
{
    auto second = extents_.find(at);
    auto first = std::prev(second);
    assert(first->first + first->second.length == at);
    Unlist(first->first);
    Unlist(at);
    first->second.length += second->second.length;
    extents_.erase(second);
    if (first->second.state == State::kFree)
        BinOf(first->second.label).insert({first->second.length, first->first});
}

uint64_t Space::Before(uint64_t at) const
{
    auto found = extents_.find(at);
    if (found == extents_.begin())
        return kNone;
    --found;
    return found->first + found->second.length == at ? found->first : kNone;
}

uint64_t Space::After(uint64_t at) const
{
    auto found = extents_.find(at);
    return ++found == extents_.end() ? kNone : found->first;
}

} // namespace heap_model

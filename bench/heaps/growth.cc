// SPDX-License-Identifier: Apache-2.0
//
// Where memory is added, and which handles move there first.
#include <iterator>

#include "bench/heaps/machine_state.h"

using heap_model::Bin;
using heap_model::Heap;
using heap_model::kDone;
using heap_model::kMiBGrains;
using heap_model::kNone;
using heap_model::kPageGrains;
using heap_model::Label;
using heap_model::Place;
using heap_model::RoundUp;
using heap_model::Side;
using heap_model::State;

void heap_machine::GrowFixed(uint64_t grains)
{
    uint64_t segment = RoundUp(grains, kPageGrains);
    if (grains < 10 * kMiBGrains)
        segment = std::max(segment, HandleGrains());
    space.Extend(kPageGrains, State::kHole, {kDone, 0, Side::kLarge});
    space.Extend(segment, State::kFree, {kDone, 0, Side::kLarge});
    reserved_grains += segment;
}

// 0: none that this owner may join.
uint64_t heap_machine::FreeLarge(uint64_t at, uint32_t owner) const
{
    if (!space.IsFree(at))
        return 0;
    const Label &label = space.At(at).label;
    return label.side == Side::kLarge &&
                   (label.owner == owner || label.owner == kDone)
               ? space.Length(at)
               : 0;
}

void heap_machine::Consider(Place place, uint64_t grains, uint64_t room,
                            Place *best)
{
    const uint64_t handle = HandleGrains();
    uint64_t joined = 0;
    if (place.JoinsLeft())
        joined += space.Length(place.left);
    if (place.JoinsRight())
        joined += space.Length(place.right);
    place.lacking =
        place.side == Place::Side::kAll
            ? room / handle
            : (grains - std::min(grains, joined) + handle - 1) / handle;
    const bool is_enough = place.lacking * handle <= room &&
                           place.lacking * handle + joined >= grains;
    if (is_enough && place.lacking && place.lacking < best->lacking)
        *best = place;
}

Place heap_machine::PlaceFor(uint32_t owner, uint64_t grains, bool is_alone)
{
    Place best;
    for (uint64_t hole : holes) {
        Place place;
        const uint64_t room = space.Length(hole);
        place.hole = hole;
        place.is_alone = is_alone;
        const uint64_t left = space.Before(hole);
        const uint64_t right = space.After(hole);
        if (FreeLarge(left, owner))
            place.left = left;
        if (FreeLarge(right, owner))
            place.right = right;
        for (auto side :
             {Place::Side::kLeft, Place::Side::kRight, Place::Side::kAll}) {
            place.side = side;
            Consider(place, grains, room, &best);
        }
    }
    Place behind;
    behind.is_alone = is_alone;
    const uint64_t last = space.extents().empty()
                              ? kNone
                              : std::prev(space.extents().end())->first;
    if (last != kNone && FreeLarge(last, owner))
        behind.left = last;
    Consider(behind, grains, UINT64_MAX, &best);
    return best;
}

// The grains from `at` on, of a hole, without holes around them; out.
uint64_t heap_machine::OpenHole(uint64_t hole, uint64_t at, uint64_t grains)
{
    if (at != hole) {
        space.Split(at);
        holes.insert(at);
    }
    if (space.Length(at) > grains) {
        space.Split(at + grains);
        holes.insert(at + grains);
    }
    holes.erase(at);
    space.SetOut(at);
    return at;
}

// The handles exist. The rest that the block does not need is done.
void heap_machine::Put(const Place &place, uint64_t grains, uint32_t owner)
{
    const uint64_t added = place.lacking * HandleGrains();
    const Label done = {kDone, 0, Side::kLarge};
    uint64_t at = space.end();
    if (place.hole == kNone) {
        space.Extend(added, State::kOut, done);
    } else {
        const uint64_t end = place.hole + space.Length(place.hole);
        at = OpenHole(place.hole,
                      place.side == Place::Side::kRight ? end - added
                                                        : place.hole,
                      added);
    }
    const bool is_right = place.side == Place::Side::kRight;
    Label rest = done;
    if (place.JoinsRight()) {
        if (!is_right)
            rest = space.At(place.right).label;
        space.SetOut(place.right);
        space.JoinBefore(place.right);
    }
    if (place.JoinsLeft()) {
        space.SetOut(place.left);
        space.JoinBefore(at);
        at = place.left;
    }
    // The block's part is the owner's, and the next call's.
    const uint64_t length = space.Length(at);
    if (rest.owner != kDone)
        rest.age = heaps[owner].fresh;
    uint64_t block = at;
    if (length > grains) {
        block = is_right ? at + length - grains : at;
        const uint64_t second = is_right ? block : at + grains;
        space.Split(second);
        (void)Give(is_right ? at : second, rest);
    }
    // Not joined: the next call takes exactly this.
    space.SetFree(block, owner == kDone ? done : FreshOf(owner, Side::kLarge));
}

void heap_machine::MakeHole(uint64_t at, uint64_t grains)
{
    if (space.Length(at) > grains)
        space.Split(at + grains);
    space.SetHole(at);
    holes.insert(at);
    const uint64_t after = space.After(at);
    if (holes.count(after)) {
        holes.erase(after);
        space.JoinBefore(after);
    }
    const uint64_t before = space.Before(at);
    if (holes.count(before)) {
        holes.erase(at);
        space.JoinBefore(at);
    }
}

// From the ends of the longest extents; returns how many.
uint64_t heap_machine::MoveFrom(const Label &label, const Place &place,
                                uint64_t wanted)
{
    const uint64_t handle = HandleGrains();
    uint64_t moved = 0;
    std::vector<uint64_t> extents;
    Bin &bin = space.BinOf(label);
    for (auto at = bin.rbegin(); at != bin.rend() && at->first >= handle; ++at)
        if (at->second != place.left && at->second != place.right)
            extents.push_back(at->second);
    for (uint64_t at : extents) {
        const uint64_t first = RoundUp(at, handle);
        const uint64_t last = (at + space.Length(at)) / handle * handle;
        const uint64_t most = std::min(wanted - moved, moves_left);
        if (!most)
            break;
        if (last <= first)
            continue;
        const uint64_t count = std::min((last - first) / handle, most);
        const uint64_t from = last - count * handle;
        if (from != at)
            space.Split(from);
        MakeHole(from, count * handle);
        moved += count;
        moves_left -= count;
    }
    return moved;
}

// What the owner freed and is over may leave, and does not become everybody's for
// that.
void heap_machine::Renew(uint32_t owner)
{
    Heap &heap = heaps[owner];
    heap.is_closed = false;
    heap.is_wanted = false;
    for (Side side : {Side::kSmall, Side::kLarge}) {
        Bin &bin = space.BinOf(ClosedOf(owner, side));
        while (!bin.empty()) {
            const uint64_t at = bin.begin()->second;
            (void)Give(at, FreshOf(owner, side));
        }
    }
}

uint64_t heap_machine::MoveHandles(uint32_t owner, const Place &place)
{
    if (!rules.moves_most)
        return 0;
    uint64_t moved = MoveFrom({kDone, 0, Side::kLarge}, place, place.lacking);
    if (moved == place.lacking || owner == kDone)
        return moved;
    if (rules.is_own_at_once) {
        moved += MoveFrom(ClosedOf(owner, Side::kLarge), place,
                          place.lacking - moved);
        return moved + MoveFrom(FreshOf(owner, Side::kLarge), place,
                                place.lacking - moved);
    }
    (void)Close(owner);
    if (heaps[owner].is_closed && IsOver(heaps[owner]))
        moved += MoveFrom(ClosedOf(owner, Side::kLarge), place,
                          place.lacking - moved);
    return moved;
}

void heap_machine::Grow(uint32_t owner, uint64_t grains, Side side)
{
    const bool is_alone = side == Side::kSmall;
    if (rules.is_small_apart)
        (void)ToLarge(kDone);
    const Place place = PlaceFor(owner, grains, is_alone);
    const uint64_t moved = MoveHandles(owner, place);
    move_count += moved;
    reserved_grains += (place.lacking - moved) * HandleGrains();
    Put(place, grains, is_alone ? kDone : owner);
    if (owner != kDone && heaps[owner].is_closed && IsOver(heaps[owner]))
        Renew(owner);
}

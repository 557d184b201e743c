// SPDX-License-Identifier: Apache-2.0
#include "bench/heaps/machine.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "bench/heaps/space.h"

using heap_model::Bin;
using heap_model::kGrainBytes;
using heap_model::kNone;
using heap_model::kPageGrains;
using heap_model::kSmallGrainsMax;
using heap_model::Label;
using heap_model::Side;
using heap_model::Space;
using heap_model::State;

namespace
{

constexpr uint32_t kDone = 0;
constexpr uint32_t kAny = 1;
constexpr uint32_t kFirstStream = 2;
constexpr uint64_t kMiBGrains = 2048;

uint64_t RoundUp(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

// One of eight sizes per doubling.
uint64_t ClassGrains(uint64_t grains)
{
    if (grains <= 8)
        return grains;
    return RoundUp(grains, UINT64_C(1) << (60 - __builtin_clzll(grains - 1)));
}

// An owner's two ages. What is freed has the age `fresh`; the other one is closed
// while it has memory.
struct Heap {
    uint8_t fresh = 0;
    bool is_closed = false;
    bool is_wanted = false; // by another owner, until what is closed is over
    std::vector<void *> events;
};

struct Cache {
    uint64_t grains = 0;
    std::map<uint64_t, std::vector<uint64_t>> blocks; // by their length
};

// Where memory is put: `lacking` handles at one end of a hole, or in all of it.
struct Place {
    enum class Side { kLeft, kRight, kAll };
    uint64_t hole = kNone; // kNone: behind the last extent
    uint64_t lacking = UINT64_MAX;
    Side side = Side::kLeft;
    uint64_t left = kNone; // free memory at the hole's ends, which stays there
    uint64_t right = kNone;
    bool is_alone = false; // and is not joined

    bool JoinsLeft() const
    {
        return !is_alone && left != kNone && side != Side::kRight;
    }
    bool JoinsRight() const
    {
        return !is_alone && right != kNone && side != Side::kLeft;
    }
};

} // namespace

struct heap_machine {
  public:
    heap_machine(const heap_rules &given, const heap_device &of)
        : rules(given), device(of),
          heaps(kFirstStream + std::max(1U, of.stream_count)),
          moves_left(given.moves_most)
    {
    }
    ~heap_machine()
    {
        for (Heap &heap : heaps)
            Forget(heap);
    }
    heap_machine(const heap_machine &) = delete;
    heap_machine &operator=(const heap_machine &) = delete;

    uint64_t Alloc(uint32_t thread, uint64_t size_bytes, uint32_t stream);
    void Free(uint32_t thread, uint64_t at, uint32_t stream);
    void Measure(heap_figures *out);
    uint64_t ReservedBytes() const
    {
        return reserved_grains * kGrainBytes;
    }
    const char *Check();

    std::mutex mutex;

  private:
    Label FreshOf(uint32_t owner, Side side) const
    {
        return {owner, heaps[owner].fresh, side};
    }
    Label ClosedOf(uint32_t owner, Side side) const
    {
        return {owner, uint8_t(heaps[owner].fresh ^ 1), side};
    }
    Side SideOf(uint64_t grains) const
    {
        return rules.is_small_apart && grains <= kSmallGrainsMax ? Side::kSmall
                                                                 : Side::kLarge;
    }
    uint64_t HandleGrains() const
    {
        return rules.handle_pages * kPageGrains;
    }
    std::vector<Label> UsableBy(uint32_t owner, Side side) const;
    bool MayJoin(uint64_t at, const Label &label, uint64_t freed) const;
    uint64_t Give(uint64_t at, const Label &label);

    uint64_t Take(uint32_t owner, uint64_t grains, Side side);
    uint64_t TakeOrChange(uint32_t owner, uint64_t grains, Side side);
    uint64_t Cut(uint64_t at, uint64_t grains, bool is_at_end);
    bool ToSmall(uint32_t owner);
    bool ToLarge(uint32_t owner);
    uint64_t Extent(uint32_t owner, uint64_t grains);

    void Forget(Heap &heap);
    bool Close(uint32_t owner);
    bool IsOver(Heap &heap);
    bool Drain(uint32_t owner);
    bool HasFree(uint32_t owner);
    bool AskOthers(uint32_t owner);

    void GrowFixed(uint64_t grains);
    void Grow(uint32_t owner, uint64_t grains, Side side);
    Place PlaceFor(uint32_t owner, uint64_t grains, bool is_alone);
    void Consider(Place place, uint64_t grains, uint64_t room, Place *best);
    uint64_t FreeLarge(uint64_t at, uint32_t owner) const;
    void Put(const Place &place, uint64_t grains, uint32_t owner);
    uint64_t OpenHole(uint64_t hole, uint64_t at, uint64_t grains);
    uint64_t MoveHandles(uint32_t owner, const Place &place);
    uint64_t MoveFrom(const Label &label, const Place &place, uint64_t wanted);
    void MakeHole(uint64_t at, uint64_t grains);
    void Renew(uint32_t owner);

    bool IsCached(uint64_t grains) const
    {
        return rules.cache_bytes &&
               grains * kGrainBytes <= rules.cached_bytes_max;
    }
    uint64_t Refill(Cache &cache, uint32_t owner, uint64_t grains);
    void Flush(Cache &cache, uint32_t owner, uint64_t grains);

    const heap_rules rules;
    const heap_device device;
    Space space;
    std::set<uint64_t> holes; // but for borders of segments
    std::vector<Heap> heaps;
    std::map<std::pair<uint32_t, uint32_t>, Cache> caches; // thread and owner
    uint64_t moves_left;
    uint64_t calls = 0;
    uint64_t handed_grains = 0;
    uint64_t cached_grains = 0;
    uint64_t reserved_grains = 0;
    uint64_t move_count = 0;
    uint64_t growth_count = 0;
    uint64_t event_count = 0;
};

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

// --- growth ---

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

// The handles are there. What the block does not need of them is done.
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

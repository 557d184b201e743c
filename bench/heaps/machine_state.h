// SPDX-License-Identifier: Apache-2.0
//
// The model's state, for its own files: machine.cc has the calls and the ages,
// growth.cc has growth and moves.
#ifndef MOIETY_BENCH_HEAPS_MACHINE_STATE_H_
#define MOIETY_BENCH_HEAPS_MACHINE_STATE_H_

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "bench/heaps/machine.h"
#include "bench/heaps/space.h"

namespace heap_model
{

constexpr uint32_t kDone = 0;
constexpr uint32_t kAny = 1;
constexpr uint32_t kFirstStream = 2;

inline uint64_t RoundUp(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

// An owner's two ages. A free gets the age `fresh`; the other age is closed while it
// has memory.
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

} // namespace heap_model

struct heap_machine {
  public:
    heap_machine(const heap_rules &given, const heap_device &of)
        : rules(given), device(of),
          heaps(heap_model::kFirstStream + std::max(1U, of.stream_count)),
          moves_left(given.moves_most)
    {
    }
    ~heap_machine()
    {
        for (heap_model::Heap &heap : heaps)
            Forget(heap);
    }
    heap_machine(const heap_machine &) = delete;
    heap_machine &operator=(const heap_machine &) = delete;

    uint64_t Alloc(uint32_t thread, uint64_t size_bytes, uint32_t stream);
    void Free(uint32_t thread, uint64_t at, uint32_t stream);
    void Measure(heap_figures *out);
    uint64_t ReservedBytes() const
    {
        return reserved_grains * heap_model::kGrainBytes;
    }
    const char *Check();

    std::mutex mutex;

  private:
    heap_model::Label FreshOf(uint32_t owner, heap_model::Side side) const
    {
        return {owner, heaps[owner].fresh, side};
    }
    heap_model::Label ClosedOf(uint32_t owner, heap_model::Side side) const
    {
        return {owner, uint8_t(heaps[owner].fresh ^ 1), side};
    }
    heap_model::Side SideOf(uint64_t grains) const
    {
        return rules.is_small_apart && grains <= heap_model::kSmallGrainsMax
                   ? heap_model::Side::kSmall
                   : heap_model::Side::kLarge;
    }
    uint64_t HandleGrains() const
    {
        return rules.handle_pages * heap_model::kPageGrains;
    }
    std::vector<heap_model::Label> UsableBy(uint32_t owner,
                                            heap_model::Side side) const;
    bool MayJoin(uint64_t at, const heap_model::Label &label,
                 uint64_t freed) const;
    uint64_t Give(uint64_t at, const heap_model::Label &label);

    uint64_t Take(uint32_t owner, uint64_t grains, heap_model::Side side);
    uint64_t TakeOrChange(uint32_t owner, uint64_t grains,
                          heap_model::Side side);
    uint64_t Cut(uint64_t at, uint64_t grains, bool is_at_end);
    bool ToSmall(uint32_t owner);
    bool ToLarge(uint32_t owner);
    uint64_t Extent(uint32_t owner, uint64_t grains);

    void Forget(heap_model::Heap &heap);
    bool Close(uint32_t owner);
    bool IsOver(heap_model::Heap &heap);
    bool Drain(uint32_t owner);
    bool HasFree(uint32_t owner);
    bool AskOthers(uint32_t owner);

    void GrowFixed(uint64_t grains);
    void Grow(uint32_t owner, uint64_t grains, heap_model::Side side);
    heap_model::Place PlaceFor(uint32_t owner, uint64_t grains, bool is_alone);
    void Consider(heap_model::Place place, uint64_t grains, uint64_t room,
                  heap_model::Place *best);
    uint64_t FreeLarge(uint64_t at, uint32_t owner) const;
    void Put(const heap_model::Place &place, uint64_t grains, uint32_t owner);
    uint64_t OpenHole(uint64_t hole, uint64_t at, uint64_t grains);
    uint64_t MoveHandles(uint32_t owner, const heap_model::Place &place);
    uint64_t MoveFrom(const heap_model::Label &label,
                      const heap_model::Place &place, uint64_t wanted);
    void MakeHole(uint64_t at, uint64_t grains);
    void Renew(uint32_t owner);

    bool IsCached(uint64_t grains) const
    {
        return rules.cache_bytes &&
               grains * heap_model::kGrainBytes <= rules.cached_bytes_max;
    }
    uint64_t Refill(heap_model::Cache &cache, uint32_t owner, uint64_t grains);
    void Flush(heap_model::Cache &cache, uint32_t owner, uint64_t grains);

    const heap_rules rules;
    const heap_device device;
    heap_model::Space space;
    std::set<uint64_t> holes; // but for borders of segments
    std::vector<heap_model::Heap> heaps;
    std::map<std::pair<uint32_t, uint32_t>, heap_model::Cache>
        caches; // thread and owner
    uint64_t moves_left;
    uint64_t calls = 0;
    uint64_t handed_grains = 0;
    uint64_t cached_grains = 0;
    uint64_t reserved_grains = 0;
    uint64_t move_count = 0;
    uint64_t growth_count = 0;
    uint64_t event_count = 0;
};

#endif

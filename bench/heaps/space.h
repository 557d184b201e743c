// SPDX-License-Identifier: Apache-2.0
//
// Extents of an address space: who has them, and where memory lies. Rules of who
// may have what are the machine's (machine.h). Sizes are grains of 512 B.
#ifndef MOIETY_BENCH_HEAPS_SPACE_H_
#define MOIETY_BENCH_HEAPS_SPACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace heap_model
{

constexpr uint64_t kGrainBytes = 512;
constexpr uint64_t kPageGrains = 4096; // 2 MiB
constexpr uint64_t kNone = UINT64_MAX; // no extent
constexpr uint64_t kMiBGrains = 2048;
constexpr uint64_t kSmallGrainsMax = kMiBGrains;

enum class State : uint8_t { kHole, kOut, kFree };
enum class Side : uint8_t { kSmall, kLarge };

// A free extent's place in the heaps.
struct Label {
    uint32_t owner;
    uint8_t age;
    Side side;
    bool operator==(const Label &other) const
    {
        return owner == other.owner && age == other.age && side == other.side;
    }
};

struct Extent {
    uint64_t length;
    State state;
    Label label; // of a hole: nothing
};

using ByAddress = std::map<uint64_t, Extent>;

// The free extents of one owner, age and side, by length.
using Bin = std::set<std::pair<uint64_t, uint64_t>>;

class Space
{
  public:
    const ByAddress &extents() const
    {
        return extents_;
    }
    uint64_t end() const
    {
        return end_;
    }
    Bin &BinOf(const Label &label);

    // Behind the last extent, which may be a hole.
    void Extend(uint64_t grains, State state, const Label &label);
    void SetFree(uint64_t at, const Label &label);
    void SetOut(uint64_t at);
    void SetHole(uint64_t at);
    // The extent is two afterwards, of which the second begins at `at`, with the
    // same state and label.
    void Split(uint64_t at);
    // Whatever begins at `at` becomes a part of the extent before it.
    void JoinBefore(uint64_t at);

    uint64_t Length(uint64_t at) const
    {
        return extents_.at(at).length;
    }
    const Extent &At(uint64_t at) const
    {
        return extents_.at(at);
    }
    // The neighbour's beginning, or kNone.
    uint64_t Before(uint64_t at) const;
    uint64_t After(uint64_t at) const;
    bool IsFree(uint64_t at) const
    {
        return at != kNone && At(at).state == State::kFree;
    }

  private:
    void Unlist(uint64_t at);

    ByAddress extents_;
    std::map<uint64_t, Bin> bins_; // by owner, age and side
    uint64_t end_ = kPageGrains;   // address 0 is none
};

} // namespace heap_model

#endif

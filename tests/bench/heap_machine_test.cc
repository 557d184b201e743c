// SPDX-License-Identifier: Apache-2.0
//
// The model of heaps: who gets which memory, what moves, and that no stream gets
// what another one's work may still use.
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "bench/heaps/machine.h"

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint32_t kStreams = 3;

// Work of a stream has a number, and is over up to one.
struct Device {
    uint64_t queued[kStreams] = {};
    uint64_t over[kStreams] = {};
    bool is_refusing = false;
    int events = 0;

    void Finish()
    {
        for (uint32_t i = 0; i < kStreams; i++)
            over[i] = queued[i];
    }
};

Device device; // its functions have no context

struct Event {
    uint32_t stream;
    uint64_t number;
};

void *Record(uint32_t stream)
{
    if (device.is_refusing)
        return nullptr;
    device.events++;
    return new Event{stream, device.queued[stream]};
}

bool IsOver(void *event)
{
    const auto *recorded = static_cast<Event *>(event);
    return device.over[recorded->stream] >= recorded->number;
}

void Forget(void *event)
{
    device.events--;
    delete static_cast<Event *>(event);
}

heap_rules Moving()
{
    heap_rules rules = {};
    rules.absorb = HEAP_ABSORBS_BOUNDED;
    rules.is_small_apart = true;
    rules.handle_pages = 1;
    rules.moves_most = 1000;
    rules.is_own_at_once = true;
    return rules;
}

class Machine
{
  public:
    explicit Machine(const heap_rules &rules)
    {
        const heap_device of = {kStreams, Record, IsOver, Forget};
        device = {};
        own_ = heap_create(&rules, &of);
    }
    ~Machine()
    {
        EXPECT_STREQ(nullptr, heap_check(own_));
        heap_destroy(own_);
        EXPECT_EQ(0, device.events);
    }
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    uint64_t Alloc(uint64_t bytes, uint32_t stream = 0, uint32_t thread = 0)
    {
        return heap_alloc(own_, thread, bytes, stream);
    }
    void Free(uint64_t address, uint32_t stream = 0, uint32_t thread = 0)
    {
        if (stream < kStreams)
            device.queued[stream]++;
        heap_free(own_, thread, address, stream);
    }
    heap_figures Figures()
    {
        heap_figures figures;
        heap_measure(own_, &figures);
        EXPECT_EQ(figures.reserved_bytes, heap_reserved_bytes(own_));
        return figures;
    }
    uint64_t Reserved()
    {
        return Figures().reserved_bytes;
    }
    const char *Check()
    {
        return heap_check(own_);
    }

  private:
    heap_machine *own_;
};

TEST(HeapMachine, GivesTheShortestThatIsLongEnough)
{
    Machine machine(Moving());
    uint64_t longer = machine.Alloc(8 * kMiB);
    (void)machine.Alloc(2 * kMiB);
    uint64_t shorter = machine.Alloc(4 * kMiB);
    (void)machine.Alloc(2 * kMiB);
    machine.Free(longer);
    machine.Free(shorter);
    EXPECT_EQ(shorter, machine.Alloc(3 * kMiB));
    EXPECT_EQ(longer, machine.Alloc(5 * kMiB));
    EXPECT_EQ(16 * kMiB, machine.Reserved());
}

TEST(HeapMachine, AStreamReusesItsOwnAtOnceAndOthersWhenItIsOver)
{
    Machine machine(Moving());
    uint64_t block = machine.Alloc(32 * kMiB, 0);
    machine.Free(block, 0);
    EXPECT_EQ(block, machine.Alloc(32 * kMiB, 0));
    machine.Free(block, 0);
    EXPECT_NE(block, machine.Alloc(32 * kMiB, 1));
    EXPECT_EQ(64 * kMiB, machine.Reserved());
    device.Finish();
    EXPECT_EQ(block, machine.Alloc(32 * kMiB, 2));
    EXPECT_EQ(64 * kMiB, machine.Reserved());
}

TEST(HeapMachine, AnyWaitsForAllStreamsAndDoneForNone)
{
    Machine machine(Moving());
    uint64_t any = machine.Alloc(32 * kMiB, 0);
    uint64_t done = machine.Alloc(32 * kMiB, 0);
    device.queued[2]++;
    machine.Free(any, HEAP_STREAM_ANY);
    machine.Free(done, HEAP_STREAM_DONE);
    EXPECT_EQ(done, machine.Alloc(32 * kMiB, 1));
    device.over[0] = device.queued[0];
    device.over[1] = device.queued[1];
    EXPECT_NE(any, machine.Alloc(32 * kMiB, 1));
    device.Finish();
    EXPECT_EQ(any, machine.Alloc(32 * kMiB, 1));
}

TEST(HeapMachine, WithoutEventsNothingBecomesOthers)
{
    Machine machine(Moving());
    uint64_t block = machine.Alloc(32 * kMiB, 0);
    machine.Free(block, 0);
    device.is_refusing = true;
    EXPECT_NE(block, machine.Alloc(32 * kMiB, 1));
    device.is_refusing = false;
    device.Finish();
    EXPECT_EQ(block, machine.Alloc(32 * kMiB, 2));
}

// Two pages that are apart, for a block of both.
uint64_t ReservedOfAMove(const heap_rules &rules, bool is_over, uint64_t *moves)
{
    Machine machine(rules);
    std::vector<uint64_t> blocks;
    for (int i = 0; i < 8; i++)
        blocks.push_back(machine.Alloc(2 * kMiB));
    machine.Free(blocks[1]);
    machine.Free(blocks[4]);
    if (is_over)
        device.Finish();
    (void)machine.Alloc(4 * kMiB);
    *moves = machine.Figures().move_count;
    return machine.Reserved();
}

TEST(HeapMachine, PagesMoveBeforeItGrows)
{
    uint64_t moves = 0;
    EXPECT_EQ(16 * kMiB, ReservedOfAMove(Moving(), false, &moves));
    EXPECT_LT(0u, moves);
    heap_rules rules = Moving();
    rules.is_own_at_once = false;
    EXPECT_LT(16 * kMiB, ReservedOfAMove(rules, false, &moves));
    EXPECT_EQ(0u, moves);
    EXPECT_EQ(16 * kMiB, ReservedOfAMove(rules, true, &moves));
    rules = Moving();
    rules.moves_most = 0;
    EXPECT_LT(16 * kMiB, ReservedOfAMove(rules, true, &moves));
    EXPECT_EQ(0u, moves);
    rules.moves_most = 1;
    EXPECT_GE(18 * kMiB, ReservedOfAMove(rules, true, &moves));
    EXPECT_GE(1u, moves);
}

TEST(HeapMachine, FixedSegmentsStay)
{
    heap_rules rules = Moving();
    rules.is_fixed = true;
    rules.handle_pages = 10;
    uint64_t moves = 0;
    EXPECT_EQ(20 * kMiB, ReservedOfAMove(rules, true, &moves));
    EXPECT_EQ(0u, moves);
}

TEST(HeapMachine, CachesServeTheirThreadAndStream)
{
    heap_rules rules = Moving();
    rules.cache_bytes = kMiB;
    rules.cache_class_bytes = 64 << 10;
    rules.cached_bytes_max = 16 << 10;
    Machine machine(rules);
    uint64_t block = machine.Alloc(4096, 0, 0);
    machine.Free(block, 0, 0);
    EXPECT_LE(4096u, machine.Figures().cached_bytes);
    EXPECT_NE(block, machine.Alloc(4096, 0, 1));
    EXPECT_NE(block, machine.Alloc(4096, 1, 0));
    EXPECT_EQ(block, machine.Alloc(4096, 0, 0));
    std::vector<uint64_t> blocks;
    for (int i = 0; i < 200; i++)
        blocks.push_back(machine.Alloc(16 << 10, 0, 0));
    for (uint64_t freed : blocks)
        machine.Free(freed, 0, 0);
    EXPECT_GE(256u << 10, machine.Figures().cached_bytes);
}

// --- whatever the program does ---

struct Block {
    uint64_t address;
    uint64_t bytes;
};

// What was freed last at an address, and up to which work of each stream it may be
// used.
struct Freed {
    uint64_t end;
    uint64_t numbers[kStreams];
};

class Fuzz
{
  public:
    explicit Fuzz(unsigned seed)
        : random_(seed), rules_(Rules()), machine_(rules_)
    {
    }

    void Step()
    {
        if (Below(4) == 0)
            Work();
        if (blocks_.size() < 60 && Below(5) < 3)
            Alloc();
        else if (!blocks_.empty())
            Free();
        if (Below(32) == 0) {
            EXPECT_STREQ(nullptr, machine_.Check());
        }
    }
    void FreeAll()
    {
        while (!blocks_.empty())
            Free();
        heap_figures figures = machine_.Figures();
        EXPECT_EQ(0u, figures.handed_bytes);
        EXPECT_LE(figures.cached_bytes + figures.waiting_bytes,
                  figures.reserved_bytes);
    }

  private:
    uint64_t Below(uint64_t end)
    {
        return random_() % end;
    }

    heap_rules Rules()
    {
        heap_rules rules = {};
        rules.absorb = heap_absorb(Below(4));
        rules.is_small_apart = Below(2);
        rules.is_fixed = Below(4) == 0;
        rules.handle_pages = Below(2) ? 1 : 4;
        rules.moves_most = uint32_t(Below(2) * 64);
        rules.calls_of_a_move = 50;
        rules.is_own_at_once = Below(2);
        rules.cache_bytes = Below(2) * 2 * kMiB;
        rules.cache_class_bytes = 128 << 10;
        rules.cached_bytes_max = 64 << 10;
        return rules;
    }

    void Work()
    {
        uint32_t stream = uint32_t(Below(kStreams));
        device.is_refusing = Below(16) == 0;
        device.queued[stream] += Below(3);
        device.over[stream] +=
            Below(device.queued[stream] - device.over[stream] + 1);
    }

    void Alloc()
    {
        // Sizes that no rule rounds.
        uint64_t least = UINT64_C(1) << (12 + Below(14));
        uint64_t bytes = least + least / 8 * Below(8);
        uint32_t stream = uint32_t(Below(kStreams));
        uint64_t address = machine_.Alloc(bytes, stream, uint32_t(Below(2)));
        ExpectNobodys(address, bytes, stream);
        blocks_.push_back({address, bytes});
    }

    void ExpectNobodys(uint64_t address, uint64_t bytes, uint32_t stream)
    {
        for (const Block &block : blocks_)
            EXPECT_TRUE(block.address + block.bytes <= address ||
                        address + bytes <= block.address);
        // Memory that moved is at another address: this would not see it.
        if (!rules_.moves_most)
            ExpectOver(address, address + bytes, stream);
    }

    void ExpectOver(uint64_t address, uint64_t end, uint32_t stream)
    {
        auto at = freed_.lower_bound(address);
        if (at != freed_.begin() && std::prev(at)->second.end > address)
            --at;
        while (at != freed_.end() && at->first < end) {
            const uint64_t begin = at->first;
            const Freed freed = at->second;
            for (uint32_t i = 0; i < kStreams; i++) {
                EXPECT_TRUE(i == stream || device.over[i] >= freed.numbers[i]);
            }
            // What is left of it still waits.
            at = freed_.erase(at);
            if (begin < address) {
                freed_[begin] = freed;
                freed_[begin].end = address;
            }
            if (freed.end > end)
                freed_[end] = freed;
        }
    }

    void Free()
    {
        size_t which = Below(blocks_.size());
        const Block block = blocks_[which];
        uint64_t how = Below(12);
        uint32_t stream = how == 0   ? HEAP_STREAM_ANY
                          : how == 1 ? HEAP_STREAM_DONE
                                     : uint32_t(how % kStreams);
        blocks_[which] = blocks_.back();
        blocks_.pop_back();
        machine_.Free(block.address, stream, uint32_t(Below(2)));
        Freed freed = {block.address + block.bytes, {}};
        for (uint32_t i = 0; i < kStreams; i++)
            if (i == stream || stream == HEAP_STREAM_ANY)
                freed.numbers[i] = device.queued[i];
        freed_[block.address] = freed;
    }

    std::mt19937_64 random_;
    heap_rules rules_;
    Machine machine_;
    std::vector<Block> blocks_;
    std::map<uint64_t, Freed> freed_;
};

TEST(HeapMachine, KeepsItsRulesWhateverComes)
{
    for (unsigned seed = 0; seed < 40 && !HasFailure(); seed++) {
        SCOPED_TRACE(seed);
        Fuzz fuzz(seed);
        for (int i = 0; i < 2000 && !HasFailure(); i++)
            fuzz.Step();
        fuzz.FreeAll();
    }
}

} // namespace

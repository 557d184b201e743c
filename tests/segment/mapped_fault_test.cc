// SPDX-License-Identifier: Apache-2.0
//
// Every n-th call of a mapper and of the host's memory fails once in a program
// of growth, frees, moves and trims. Whatever the segments then answer, nothing
// is lost, and the next calls work.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <vector>

#include "tests/segment/mapped_under_test.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

using namespace segment_test;

constexpr unsigned kTooMany = 5000; // calls that no program below makes
constexpr uint32_t kCapacity = 192;
constexpr uint64_t kLimit = 96;

// The same operations for the same seed, as long as the same calls fail.
class Program
{
  public:
    explicit Program(uint64_t seed)
        : segments(WithCapacity(kCapacity, kLimit)), random_(seed)
    {
    }

    void Run()
    {
        for (int i = 0; i < 80 && !testing::Test::HasFailure(); i++) {
            bool had_failed = segments.mapper.HasFailed();
            Step();
            if (i % 32 == 31)
                Count(segment_probe_add_peer(segments.own, i), false);
            if (i % 4 == 3 || segments.mapper.HasFailed() != had_failed)
                segments.ExpectSound();
        }
    }

    // All calls succeed again: all can be had in one piece, and all goes back.
    void ExpectHealth()
    {
        while (!held_.empty())
            GiveDone(held_.size() - 1);
        segments.Drain();
        segments.Drain();
        segment_probe_unmap_left(segments.own, UINT64_MAX);
        EXPECT_EQ(0u, segments.Stats().left_bytes);
        segments.Trim();
        EXPECT_EQ(0u, segments.ReservedPages());
        EXPECT_EQ(0u, segments.mapper.HandleCount());
        EXPECT_EQ(0u, segments.mapper.MappingCount());
        EXPECT_EQ(MOIETY_OK, segments.Extend(kLimit))
            << segment_probe_message();
        segments.ExpectSound();
    }

    // Calls that answered with an error, exhaustion of the limit left out.
    unsigned failed_count = 0;
    MappedSegments segments;

  private:
    struct Block {
        uint64_t start;
        uint64_t grains;
    };

    uint32_t Choose(uint32_t bound)
    {
        return static_cast<uint32_t>(random_() % bound);
    }

    void Step()
    {
        switch (Choose(8)) {
        case 0:
        case 1:
        case 2:
        case 3:
            Alloc(kPage / 8 * (1 + Choose(Choose(3) ? 40 : 300)));
            break;
        case 4:
        case 5:
            Free();
            break;
        case 6:
            Pass();
            break;
        default:
            Trim();
        }
    }

    // What was freed before, or memory for it.
    void Alloc(uint64_t bytes)
    {
        bool is_own = Choose(4) != 0;
        heap_probe_view view = {};
        view.space = segments.space;
        view.heap = is_own ? segments.heap : nullptr;
        Block block = {0, bytes / (kPage / PROBE_PAGE_GRAINS)};
        for (int i = 0; i < 2; i++) {
            if (heap_probe_view_take(&view, block.grains, &block.start)) {
                held_.push_back(block);
                return;
            }
            Count(segments.ExtendBytes(bytes, view.heap, is_own ? next_ : 0,
                                       passed_),
                  true);
        }
    }

    void Free()
    {
        if (held_.empty())
            return;
        size_t at = Choose(static_cast<uint32_t>(held_.size()));
        if (Choose(3) == 0) {
            GiveDone(at);
            return;
        }
        EXPECT_TRUE(
            heap_probe_give(segments.heap, held_[at].start, held_[at].grains));
        held_.erase(held_.begin() + static_cast<long>(at));
    }

    void GiveDone(size_t at)
    {
        EXPECT_TRUE(space_probe_give(segments.space, held_[at].start,
                                     held_[at].grains));
        held_.erase(held_.begin() + static_cast<long>(at));
    }

    // An epoch of the stream and of the contexts.
    void Pass()
    {
        segments.Drain();
        passed_ = next_++;
        if (Choose(2))
            segment_probe_unmap_left(segments.own, passed_);
    }

    void Trim()
    {
        uint64_t bytes;
        Count(segment_probe_trim(segments.own, Choose(2) * 16 * kPage, &bytes),
              false);
    }

    void Count(moiety_status status, bool may_be_exhausted)
    {
        bool is_exhausted = status == MOIETY_E_NO_DEVICE_MEMORY;
        if (is_exhausted && may_be_exhausted)
            return;
        if (status == MOIETY_OK)
            return;
        failed_count++;
        EXPECT_TRUE(status == MOIETY_E_DRIVER ||
                    status == MOIETY_E_NO_HOST_MEMORY)
            << status << ": " << segment_probe_message();
    }

    std::mt19937_64 random_;
    std::vector<Block> held_;
    uint64_t passed_ = 0;
    uint64_t next_ = 1;
};

constexpr uint64_t kSeeds[] = {6, 9};

// What the program does without a failure: otherwise the tests below show
// nothing.
TEST(MappedFault, TheProgramDoesAllThatMayFail)
{
    for (uint64_t seed : kSeeds) {
        Program program(seed);
        program.Run();
        EXPECT_EQ(0u, program.failed_count);
        auto stats = program.segments.Stats();
        EXPECT_LT(3u, stats.move_count) << seed;
        EXPECT_LT(0u, stats.trim_count) << seed;
        for (int kind = 0; kind < FakeMapper::kKinds; kind++) {
            auto one = static_cast<FakeMapper::Kind>(kind);
            EXPECT_EQ(one == FakeMapper::kRelease,
                      program.segments.mapper.Calls(one) == 0)
                << kind;
        }
        program.ExpectHealth();
    }
}

void ExpectSurvival(uint64_t seed, FakeMapper::Kind kind, bool sticks = false)
{
    bool has_failed = true;
    unsigned n = 0;
    while (has_failed && n < kTooMany && !testing::Test::HasFailure()) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", call " +
                     std::to_string(++n) + " of kind " + std::to_string(kind));
        Program program(seed);
        program.segments.mapper.sticks = sticks;
        program.segments.mapper.Fail(kind, n);
        program.Run();
        has_failed = program.segments.mapper.HasFailed();
        EXPECT_LE(program.failed_count, has_failed ? 1u : 0u);
        program.segments.mapper.Fail(kind, 0);
        program.ExpectHealth();
        EXPECT_EQ(MOIETY_OK, program.segments.End());
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GT(n, 1u) << "no call of that kind";
}

TEST(MappedFault, EveryReservationOfAddresses)
{
    for (uint64_t seed : kSeeds)
        ExpectSurvival(seed, FakeMapper::kReserve);
}

TEST(MappedFault, EveryCreationOfAHandle)
{
    for (uint64_t seed : kSeeds)
        ExpectSurvival(seed, FakeMapper::kCreate);
}

TEST(MappedFault, EveryDestructionOfAHandle)
{
    for (uint64_t seed : kSeeds)
        ExpectSurvival(seed, FakeMapper::kDestroy);
}

TEST(MappedFault, EveryMapping)
{
    for (uint64_t seed : kSeeds)
        ExpectSurvival(seed, FakeMapper::kMap);
}

// The driver does not undo it either: the place is taken until it does.
TEST(MappedFault, EveryMappingThatStays)
{
    ExpectSurvival(kSeeds[0], FakeMapper::kMap, true);
}

TEST(MappedFault, EveryUnmapping)
{
    for (uint64_t seed : kSeeds)
        ExpectSurvival(seed, FakeMapper::kUnmap);
}

// The end tries twice.
TEST(MappedFault, EveryCallOfTheEnd)
{
    bool has_failed = true;
    unsigned n = 0;
    while (has_failed && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("call " + std::to_string(++n));
        Program program(kSeeds[0]);
        program.Run();
        program.segments.mapper.FailAny(n);
        EXPECT_EQ(MOIETY_OK, program.segments.End());
        has_failed = program.segments.mapper.HasFailed();
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GT(n, 10u);
}

TEST(MappedFault, EveryAllocationOfHostMemory)
{
    bool is_over = false;
    unsigned n = 0;
    while (!is_over && n < kTooMany && !HasFailure()) {
        SCOPED_TRACE("allocation " + std::to_string(++n));
        Program program(kSeeds[0]);
        failing_memory_arm(n);
        program.Run();
        is_over = failing_memory_disarm();
        EXPECT_LE(program.failed_count, is_over ? 0u : 1u);
        program.ExpectHealth();
        EXPECT_EQ(MOIETY_OK, program.segments.End());
    }
    EXPECT_LT(n, kTooMany);
    EXPECT_GT(n, 10u);
    std::printf("%u allocations, each failed once\n", n - 1);
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Random growth and trim against a map of pages. The model knows where each
// segment must lie, which ones a trim may take and what growth must refuse.
// The seeds differ from run to run; --seed=N or MOIETY_TEST_SEED=N repeats one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/segment/segments_under_test.h"

namespace
{

using namespace segment_test;

constexpr uint32_t kCapacity = 96;
constexpr uint64_t kPage = 2 * kMiB;
uint64_t first_seed;

struct ModelSegment {
    uint32_t first;
    uint32_t count;
    uint64_t address;
    bool is_held;
};

// Segments of the size that is asked for: the policy never rounds up.
segment_probe_options Exact(uint64_t limit_pages)
{
    segment_probe_options options = {};
    options.page_capacity = kCapacity;
    options.first_bytes = options.largest_bytes = kPage;
    options.limit_bytes = limit_pages * kPage;
    return options;
}

class Model
{
  public:
    Model(uint64_t seed, uint32_t limit_pages)
        : random_(seed), limit_pages_(limit_pages),
          real_(source_.Table(), Exact(limit_pages))
    {
    }

    void Step()
    {
        switch (Choose(4)) {
        case 0:
        case 1:
            Grow(1 + Choose(Choose(4) ? 12 : 60));
            break;
        case 2:
            HoldSome();
            break;
        default:
            Trim(Choose(2) ? 0 : Choose(40));
        }
        Compare();
    }

  private:
    uint32_t Choose(uint32_t bound)
    {
        return (uint32_t)(random_() % bound);
    }

    uint32_t Pages() const
    {
        uint32_t pages = 0;
        for (const auto &segment : segments_)
            pages += segment.count;
        return pages;
    }

    // Marks a page and its neighbour behind as used; so is the one in front.
    std::vector<bool> Blocked() const
    {
        std::vector<bool> blocked(kCapacity, false);
        for (const auto &segment : segments_)
            for (uint32_t i = 0; i < kCapacity; i++)
                if (i + 1 >= segment.first &&
                    i <= segment.first + segment.count)
                    blocked[i] = true;
        return blocked;
    }

    // The start of the shortest gap that holds `count` pages, or -1.
    int BestPlace(uint32_t count) const
    {
        auto blocked = Blocked();
        int best = -1;
        uint32_t best_length = UINT32_MAX;
        for (uint32_t i = 0; i < kCapacity;) {
            uint32_t end = i;
            while (end < kCapacity && !blocked[end])
                end++;
            if (end - i >= count && end - i < best_length) {
                best = (int)i;
                best_length = end - i;
            }
            i = end + 1;
        }
        return best;
    }

    bool HasRoom(uint32_t count) const
    {
        for (const auto &segment : segments_)
            if (!segment.is_held && segment.count >= count)
                return true;
        return false;
    }

    void Grow(uint32_t count)
    {
        int place = BestPlace(count);
        moiety_status status = real_.Grow(count * kPage);
        if (count > limit_pages_) {
            EXPECT_EQ(MOIETY_E_TOO_LARGE, status);
        } else if (HasRoom(count)) {
            EXPECT_EQ(MOIETY_OK, status);
        } else if (place < 0 || Pages() + count > limit_pages_) {
            EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY, status);
        } else {
            ASSERT_EQ(MOIETY_OK, status);
            Note((uint32_t)place, count);
        }
    }

    void Note(uint32_t place, uint32_t count)
    {
        uint64_t address =
            segment_probe_address_of(real_.own, place * UINT64_C(4096));
        segments_.push_back({place, count, address, false});
        std::sort(segments_.begin(), segments_.end(),
                  [](const ModelSegment &a, const ModelSegment &b) {
                      return a.first < b.first;
                  });
    }

    // Takes everything, each segment being one run, and gives some back.
    void HoldSome()
    {
        real_.TakeAllRuns();
        std::vector<Segments::Run> held;
        for (const auto &run : real_.held) {
            bool keeps = Choose(2);
            for (auto &segment : segments_)
                if (segment.first == run.start / 4096) {
                    EXPECT_EQ(segment.count, run.page_count);
                    segment.is_held = keeps;
                }
            if (keeps)
                held.push_back(run);
            else
                EXPECT_TRUE(space_probe_give(real_.space, run.start,
                                             (uint64_t)run.page_count *
                                                 PROBE_PAGE_GRAINS));
        }
        real_.held = held;
    }

    void Trim(uint32_t keep_pages)
    {
        auto by_page = segments_;
        uint32_t left = Pages(), before = left;
        std::sort(by_page.begin(), by_page.end(),
                  [](const ModelSegment &a, const ModelSegment &b) {
                      return a.first < b.first;
                  });
        for (const auto &one : by_page) {
            if (one.is_held || left < keep_pages + one.count)
                continue;
            left -= one.count;
            segments_.erase(std::find_if(segments_.begin(), segments_.end(),
                                         [&](const ModelSegment &other) {
                                             return other.first == one.first;
                                         }));
        }
        EXPECT_EQ((before - left) * kPage, real_.Trim(keep_pages * kPage));
    }

    void Compare()
    {
        real_.ExpectSound();
        auto all = real_.All();
        ASSERT_EQ(segments_.size(), all.size());
        for (size_t i = 0; i < all.size(); i++) {
            EXPECT_EQ(segments_[i].first, all[i].first_page);
            EXPECT_EQ(segments_[i].count, all[i].page_count);
            EXPECT_EQ(segments_[i].address, all[i].address);
        }
        EXPECT_EQ(Pages() * kPage, segment_probe_reserved_bytes(real_.own));
        EXPECT_EQ(all.size(), source_.Live().size());
        EXPECT_EQ("", source_.Complaint());
    }

    std::mt19937_64 random_;
    uint32_t limit_pages_;
    FakeSource source_;
    Segments real_;
    std::vector<ModelSegment> segments_;
};

void ExpectAgreement(uint64_t seed, uint32_t limit_pages)
{
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed, limit_pages);
    for (int i = 0; i < 120 && !testing::Test::HasFailure(); i++)
        model.Step();
}

TEST(SegmentModel, AgreesWhereOffsetSpaceIsScarce)
{
    for (uint64_t i = 0; i < 12 && !HasFailure(); i++)
        ExpectAgreement(first_seed + i, 10 * kCapacity);
}

TEST(SegmentModel, AgreesWhereTheLimitIsNear)
{
    for (uint64_t i = 0; i < 12 && !HasFailure(); i++)
        ExpectAgreement(first_seed + 1000 + i, 40);
}

TEST(SegmentModel, AgreesOverTheSeedsOfEveryRun)
{
    for (uint64_t seed = 1; seed <= 8 && !HasFailure(); seed++)
        ExpectAgreement(seed, 60);
}

} // namespace

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    const char *seed = std::getenv("MOIETY_TEST_SEED");
    if (argc > 1 && std::strncmp(argv[1], "--seed=", 7) == 0)
        seed = argv[1] + 7;
    first_seed =
        seed ? std::strtoull(seed, nullptr, 0) : std::random_device{}();
    std::printf("seed %" PRIu64 "\n", first_seed);
    return RUN_ALL_TESTS();
}

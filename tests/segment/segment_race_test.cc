// SPDX-License-Identifier: Apache-2.0
//
// Races, each named by the pair that meets. Oracles: what is held is found and
// leads back to itself, no page is held twice, the source is asked by one
// thread at a time and gets everything back, and the check at rest.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "tests/segment/segments_under_test.h"

namespace
{

using namespace segment_test;

constexpr uint64_t kPage = 2 * kMiB;
constexpr uint32_t kCapacity = 256;

class SegmentRace : public ::testing::Test
{
  protected:
    virtual void SetOptions(segment_probe_options *options)
    {
        options->page_capacity = kCapacity;
        options->first_bytes = 4 * kPage;
        options->largest_bytes = 8 * kPage;
        options->limit_bytes = 64 * kPage;
    }

    void SetUp() override
    {
        segment_probe_options options = {};
        SetOptions(&options);
        source_.in_reserve = EnterReserve;
        source_.in_reserve_argument = this;
        segments_ = std::make_unique<Segments>(source_.Table(), options);
        limit_bytes_ = options.limit_bytes;
        payload_.resize(options.page_capacity);
    }

    void TearDown() override
    {
        EXPECT_EQ("", failure_ ? failure_.load() : "");
        EXPECT_EQ("", source_.Complaint());
        segments_->ExpectSound();
        segments_->GiveAll();
        segments_->Trim();
        EXPECT_EQ(0u, segment_probe_reserved_bytes(segments_->own));
        segments_.reset();
        EXPECT_TRUE(source_.Live().empty());
    }

    void Fail(const char *what)
    {
        failure_.store(what, std::memory_order_relaxed);
    }

    static void EnterReserve(void *self)
    {
        auto *race = static_cast<SegmentRace *>(self);
        if (race->inside_.fetch_add(1, std::memory_order_relaxed) != 0)
            race->Fail("two threads ask the source");
        std::this_thread::yield();
        if (segment_probe_reserved_bytes(race->segments_->own) >
            race->limit_bytes_)
            race->Fail("the limit is exceeded");
        race->inside_.fetch_sub(1, std::memory_order_relaxed);
    }

    // The first runs until the others have ended.
    void Run(const std::function<void()> &until_done,
             const std::vector<std::function<void()>> &others)
    {
        std::vector<std::thread> threads;
        std::thread first([&] {
            while (!is_done_.load(std::memory_order_relaxed))
                until_done();
        });
        for (const auto &other : others)
            threads.emplace_back(other);
        for (auto &thread : threads)
            thread.join();
        is_done_.store(true, std::memory_order_relaxed);
        first.join();
    }

    // Takes pages, growing where there are none; false when the limit is met.
    bool Take(uint32_t page_count, uint64_t *out_start)
    {
        while (!space_probe_take_pages(segments_->space, page_count, out_start))
            if (segment_probe_grow(segments_->own, page_count * kPage) !=
                MOIETY_OK)
                return false;
        return true;
    }

    // What every holder may rely on. The payload is plain memory: a holder
    // that is not ordered after the last one is a race.
    void UseAndGive(uint64_t start, uint32_t page_count, uint32_t who)
    {
        uint32_t first = (uint32_t)(start / PROBE_PAGE_GRAINS);
        uint64_t base = segment_probe_address_of(segments_->own, start);
        for (uint32_t i = 0; i < page_count; i++) {
            uint64_t grain = 0;
            payload_[first + i] = who;
            if (!segment_probe_grain_of(segments_->own, base + i * kPage + 512,
                                        &grain) ||
                grain != start + i * PROBE_PAGE_GRAINS + 1)
                Fail("a held address is not found");
        }
        std::this_thread::yield();
        for (uint32_t i = 0; i < page_count; i++)
            if (payload_[first + i] != who)
                Fail("two hold a page");
        if (!space_probe_give(segments_->space, start,
                              (uint64_t)page_count * PROBE_PAGE_GRAINS))
            Fail("a give of held pages is refused");
    }

    void TakeAndGive(uint32_t who, int rounds)
    {
        uint32_t random = who * 7919 + 1;
        for (int i = 0; i < rounds; i++) {
            random = random * 1664525 + 1013904223;
            uint32_t page_count = 1 + (random >> 24) % 6;
            uint64_t start;
            if (Take(page_count, &start))
                UseAndGive(start, page_count, who);
        }
    }

    uint64_t limit_bytes_ = 0;
    FakeSource source_;
    std::unique_ptr<Segments> segments_;
    std::vector<uint32_t> payload_;
    std::atomic<const char *> failure_{nullptr};
    std::atomic<int> inside_{0};
    std::atomic<bool> is_done_{false};
};

// Segments only come here, so whatever is found leads back.
TEST_F(SegmentRace, LookupVsGrow)
{
    std::atomic<uint64_t> found{0};
    Run(
        [&] {
            for (uint64_t page = 0; page < 64; page++) {
                uint64_t address = source_.first_address + page * kPage;
                uint64_t grain;
                if (!segment_probe_grain_of(segments_->own, address, &grain))
                    continue;
                if (segment_probe_address_of(segments_->own, grain) != address)
                    Fail("an address leads elsewhere");
                found.fetch_add(1, std::memory_order_relaxed);
            }
        },
        {[&] {
            while (segments_->GrowAnew(kPage) == MOIETY_OK ||
                   !found.load(std::memory_order_relaxed))
                std::this_thread::yield();
        }});
    EXPECT_GT(found.load(), 0u);
}

TEST_F(SegmentRace, LookupVsTrim)
{
    uint64_t kept;
    ASSERT_TRUE(Take(1, &kept));
    segments_->held.push_back({kept, 1});
    uint64_t kept_address = segment_probe_address_of(segments_->own, kept);
    Run(
        [&] {
            uint64_t grain = 0;
            if (!segment_probe_grain_of(segments_->own, kept_address, &grain) ||
                grain != kept)
                Fail("a held address is not found");
            for (uint64_t page = 0; page < 64; page++)
                if (segment_probe_grain_of(segments_->own,
                                           source_.first_address + page * kPage,
                                           &grain) &&
                    grain / PROBE_PAGE_GRAINS >= kCapacity)
                    Fail("a lookup leads out of the offset space");
        },
        {[&] {
            uint64_t bytes;
            for (int i = 0; i < 2000; i++) {
                (void)segment_probe_grow(segments_->own, 6 * kPage);
                (void)segment_probe_trim(segments_->own, 0, &bytes);
            }
        }});
}

TEST_F(SegmentRace, GrowVsGrow)
{
    for (int round = 0; round < 30; round++) {
        std::vector<std::thread> threads;
        for (uint32_t who = 1; who <= 4; who++)
            threads.emplace_back([this, who] { TakeAndGive(who, 20); });
        for (auto &thread : threads)
            thread.join();
        segments_->ExpectSound();
        segments_->Trim();
    }
    EXPECT_GE(segments_->Stats().grow_count, 30u);
}

TEST_F(SegmentRace, TrimVsTake)
{
    Run(
        [&] {
            uint64_t bytes;
            if (segment_probe_trim(segments_->own, 0, &bytes) != MOIETY_OK)
                Fail("a trim fails");
        },
        {[&] { TakeAndGive(1, 1500); }, [&] { TakeAndGive(2, 1500); },
         [&] { TakeAndGive(3, 1500); }});
    EXPECT_GT(segments_->Stats().trim_count, 0u);
}

TEST_F(SegmentRace, TrimVsTrim)
{
    auto trim = [&] {
        uint64_t bytes;
        for (int i = 0; i < 1000; i++) {
            (void)segment_probe_grow(segments_->own, kPage);
            (void)segment_probe_trim(segments_->own, 0, &bytes);
        }
    };
    Run(trim, {trim, trim});
    auto stats = segments_->Stats();
    EXPECT_EQ(stats.grow_count, stats.trim_count + stats.segment_count);
}

// Segments of so many pages that linking them takes a while: whoever gets the
// last of them must find it all the same.
class LargeSegmentRace : public SegmentRace
{
  protected:
    static constexpr uint32_t kPages = 4000;

    void SetOptions(segment_probe_options *options) override
    {
        options->page_capacity = kPages;
        options->limit_bytes = kPages * kPage;
    }
};

TEST_F(LargeSegmentRace, TakeVsGrow)
{
    std::atomic<int> taken{0};
    Run(
        [&] {
            uint64_t start;
            if (!space_probe_take_pages(segments_->space, kPages, &start))
                return;
            taken.fetch_add(1, std::memory_order_relaxed);
            UseAndGive(start + (kPages - 1) * UINT64_C(4096), 1, 1);
            space_probe_give(segments_->space, start,
                             (kPages - 1) * UINT64_C(4096));
        },
        {[&] {
            uint64_t bytes;
            for (int i = 0; i < 200 || taken.load() < 50; i++) {
                (void)segment_probe_grow(segments_->own, kPages * kPage);
                std::this_thread::yield();
                (void)segment_probe_trim(segments_->own, 0, &bytes);
            }
        }});
}

} // namespace

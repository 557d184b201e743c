// SPDX-License-Identifier: Apache-2.0
//
// A buddy for one test: small names, everything free at first, and at the end
// the verifier.
#ifndef MOIETY_TESTS_BUDDY_BUDDY_UNDER_TEST_H_
#define MOIETY_TESTS_BUDDY_BUDDY_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/buddy_probe.h"

constexpr uint64_t kChunk = PROBE_CHUNK_GRAINS;
constexpr uint64_t kPage = PROBE_PAGE_GRAINS;
constexpr uint64_t kFull = UINT64_MAX;
constexpr uint64_t kNone = UINT64_MAX; // in place of a start: nothing was got

class BuddyUnderTest
{
  public:
    explicit BuddyUnderTest(uint32_t pages) : BuddyUnderTest(pages, pages) {}

    // The first `pages` of `capacity` are free.
    BuddyUnderTest(uint32_t pages, uint32_t capacity)
    {
        EXPECT_EQ(buddy_probe_create(capacity, &buddy_), 0);
        if (pages)
            buddy_probe_add(buddy_, 0, pages);
    }

    ~BuddyUnderTest()
    {
        EXPECT_EQ(Check(), nullptr);
        buddy_probe_destroy(buddy_);
    }

    BuddyUnderTest(const BuddyUnderTest &) = delete;
    BuddyUnderTest &operator=(const BuddyUnderTest &) = delete;

    struct moietyi_buddy *get() const
    {
        return buddy_;
    }

    std::vector<uint64_t> TakeMany(uint32_t grains, uint32_t count,
                                   uint32_t alignment = 1,
                                   buddy_probe_affinity *affinity = nullptr)
    {
        std::vector<uint64_t> starts(count);
        starts.resize(buddy_probe_take(buddy_, affinity, grains, count,
                                       alignment, starts.data()));
        return starts;
    }

    uint64_t Take(uint32_t grains, buddy_probe_affinity *affinity = nullptr)
    {
        return TakeAligned(grains, 1, affinity);
    }

    uint64_t TakeAligned(uint32_t grains, uint32_t alignment,
                         buddy_probe_affinity *affinity = nullptr)
    {
        std::vector<uint64_t> starts = TakeMany(grains, 1, alignment, affinity);
        return starts.empty() ? kNone : starts[0];
    }

    uint64_t TakeLast(uint32_t grains, uint32_t alignment = 1)
    {
        uint64_t start = kNone;
        buddy_probe_take_last(buddy_, grains, alignment, &start);
        return start;
    }

    uint64_t TakeRun(uint64_t chunks)
    {
        uint64_t start = kNone;
        buddy_probe_take_run(buddy_, chunks, &start);
        return start;
    }

    bool Give(uint64_t start, uint64_t grains,
              const buddy_probe_affinity *affinity = nullptr)
    {
        return buddy_probe_give(buddy_, affinity, start, grains);
    }

    bool Withdraw(uint32_t first_page, uint32_t pages)
    {
        return buddy_probe_remove(buddy_, first_page, pages);
    }

    uint64_t free_grains() const
    {
        return buddy_probe_free_grains(buddy_);
    }

    uint64_t chunk_word(uint64_t chunk) const
    {
        return buddy_probe_chunk_word(buddy_, chunk);
    }

    uint64_t page_word(uint32_t page) const
    {
        return buddy_probe_page_word(buddy_, page);
    }

    bool is_page_free(uint32_t page) const
    {
        return buddy_probe_is_page_free(buddy_, page);
    }

    const char *Check() const
    {
        uint64_t at;
        return buddy_probe_check(buddy_, &at);
    }

    const char *CheckMerged() const
    {
        uint64_t at;
        return buddy_probe_check_merged(buddy_, &at);
    }

  private:
    struct moietyi_buddy *buddy_ = nullptr;
};

#endif

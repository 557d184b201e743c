// SPDX-License-Identifier: Apache-2.0
//
// Random pins and unpins against a count for each page.
#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "tests/host/pages_under_test.h"

namespace host_test
{
namespace
{

constexpr size_t kPages = 24;
constexpr unsigned kSteps = 1500;

class PinModel : public ::testing::TestWithParam<size_t>
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void Pin()
    {
        size_t first = random_() % kPages;
        size_t count = 1 + random_() % (kPages - first);
        ASSERT_OK(pages_.Pin(first, count));
        ranges_.emplace_back(first, count);
        Add(ranges_.back(), 1);
    }
    void Unpin()
    {
        if (ranges_.empty())
            return;
        std::swap(ranges_[random_() % ranges_.size()], ranges_.back());
        Add(ranges_.back(), -1);
        ASSERT_OK(pages_.Unpin(ranges_.back().first, ranges_.back().second));
        ranges_.pop_back();
    }
    void Add(const std::pair<size_t, size_t> &range, int more)
    {
        for (size_t i = 0; i < range.second; i++)
            counts_[range.first + i] += more;
    }
    // What is used is pinned; of the rest, no more than may be kept.
    void Check(size_t keep) const
    {
        size_t kept = 0;
        for (size_t i = 0; i < kPages; i++) {
            bool is_pinned = pages_.IsPinned(i);
            if (counts_[i]) {
                ASSERT_TRUE(is_pinned) << i;
            }
            kept += !counts_[i] && is_pinned;
        }
        // Pages that nobody uses may hang on a stretch that somebody does.
        if (keep == 0 && ranges_.empty()) {
            ASSERT_EQ(0u, kept);
        }
        if (ranges_.empty()) {
            ASSERT_LE(kept, keep);
        }
    }

    Pages pages_{kPages};
    std::mt19937_64 random_{pool_test::Seed(20)};
    std::vector<std::pair<size_t, size_t>> ranges_;
    std::array<int, kPages> counts_{};
};

INSTANTIATE_TEST_SUITE_P(PagesKept, PinModel,
                         ::testing::Values(size_t{0}, size_t{5}));

TEST_P(PinModel, UsedPagesArePinned)
{
    int64_t before = pool_test::Live("host");
    ASSERT_OK(moiety_host_pin_keep(pages_.Bytes(GetParam())));
    for (unsigned step = 0; step < kSteps && !HasFatalFailure(); step++) {
        if (random_() % 100 < (step / 50 % 2 ? 35u : 60u))
            Pin();
        else
            Unpin();
        Check(GetParam());
    }
    while (!ranges_.empty() && !HasFatalFailure())
        Unpin();
    Check(GetParam());
    EXPECT_OK(moiety_host_pin_keep(0));
    EXPECT_EQ(before, pool_test::Live("host"));
}

} // namespace
} // namespace host_test

// SPDX-License-Identifier: Apache-2.0
//
// Threads that pin and unpin overlapping ranges: what a thread has pinned stays
// pinned until it unpins it, and in the end nothing is.
#include <random>
#include <thread>
#include <vector>

#include "tests/host/pages_under_test.h"

namespace host_test
{
namespace
{

constexpr size_t kPages = 12;
constexpr unsigned kThreads = 4;
constexpr unsigned kSteps = 400;

void PinAndUnpin(const Pages &pages, unsigned seed)
{
    std::mt19937 random(seed);
    pool_test::SetCurrent(pool_test::PrimaryContext());
    for (unsigned step = 0; step < kSteps; step++) {
        size_t first = random() % kPages;
        size_t count = 1 + random() % (kPages - first);
        ASSERT_OK(pages.Pin(first, count));
        for (size_t i = first; i < first + count; i++)
            ASSERT_TRUE(pages.IsPinned(i));
        ASSERT_OK(pages.Unpin(first, count));
    }
}

void RunThreads(uint64_t keep_bytes)
{
    Pages pages(kPages);
    int64_t before = pool_test::Live("host");
    ASSERT_OK(moiety_host_pin_keep(keep_bytes));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&pages, i] { PinAndUnpin(pages, i); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_OK(moiety_host_pin_keep(0));
    EXPECT_EQ(before, pool_test::Live("host"));
}

TEST(PinVsUnpin, LeavesNothingPinned)
{
    pool_test::UseStandin();
    RunThreads(0);
}

TEST(PinVsUnpin, LeavesNothingPinnedThatWasKept)
{
    pool_test::UseStandin();
    RunThreads(5 * 4096);
}

} // namespace
} // namespace host_test

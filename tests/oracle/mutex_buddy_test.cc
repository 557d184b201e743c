// SPDX-License-Identifier: Apache-2.0
//
// An oracle that is wrong proves nothing, so the simple one is tested too: by
// hand, and over random intervals against a set of grains.
#include "tests/oracle/mutex_buddy.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace
{

constexpr uint64_t kPage = MUTEX_BUDDY_PAGE_GRAINS;

struct Destroy {
    void operator()(mutex_buddy *buddy) const
    {
        mutex_buddy_destroy(buddy);
    }
};
using Buddy = std::unique_ptr<mutex_buddy, Destroy>;

Buddy Make(uint32_t pages)
{
    Buddy buddy(mutex_buddy_create(pages));
    EXPECT_TRUE(mutex_buddy_add(buddy.get(), 0, pages));
    return buddy;
}

TEST(MutexBuddy, OfNoPagesIsRefused)
{
    EXPECT_EQ(mutex_buddy_create(0), nullptr);
    EXPECT_EQ(mutex_buddy_create(MUTEX_BUDDY_PAGES_MAX + 1), nullptr);
}

TEST(MutexBuddy, TakesTheSizeAskedForAndMergesBack)
{
    Buddy buddy = Make(1);
    uint64_t starts[2];
    ASSERT_EQ(mutex_buddy_take(buddy.get(), 72, 2, 1, starts), 2U);
    EXPECT_EQ(mutex_buddy_free_grains(buddy.get()), kPage - 144);
    EXPECT_EQ(mutex_buddy_longest_page_run(buddy.get()), 0U);
    ASSERT_TRUE(mutex_buddy_give(buddy.get(), starts[1], 72));
    ASSERT_TRUE(mutex_buddy_give(buddy.get(), starts[0], 72));
    EXPECT_EQ(mutex_buddy_longest_page_run(buddy.get()), 1U);
}

TEST(MutexBuddy, KeepsAlignment)
{
    Buddy buddy = Make(2);
    uint64_t start;
    ASSERT_EQ(mutex_buddy_take(buddy.get(), 1, 1, 1, &start), 1U);
    ASSERT_EQ(mutex_buddy_take(buddy.get(), 3, 1, 4096, &start), 1U);
    EXPECT_EQ(start % 4096, 0U);
    EXPECT_EQ(mutex_buddy_take(buddy.get(), 3, 1, 4096, &start), 0U);
}

TEST(MutexBuddy, RunsAreBestFitLowestFirst)
{
    Buddy buddy = Make(12);
    for (uint32_t page : {3U, 7U, 10U})
        ASSERT_TRUE(mutex_buddy_withdraw(buddy.get(), page, 1));
    uint64_t start;
    ASSERT_TRUE(mutex_buddy_take_run(buddy.get(), 2 * kPage, &start));
    EXPECT_EQ(start, 8 * kPage);
    ASSERT_TRUE(mutex_buddy_take_run(buddy.get(), 2 * kPage + 1, &start));
    EXPECT_EQ(start, 0U);
    EXPECT_FALSE(mutex_buddy_take_run(buddy.get(), 4 * kPage, &start));
}

TEST(MutexBuddy, RefusesWhatIsFreeAlready)
{
    Buddy buddy = Make(1);
    uint64_t start;
    ASSERT_EQ(mutex_buddy_take(buddy.get(), 8, 1, 1, &start), 1U);
    EXPECT_FALSE(mutex_buddy_give(buddy.get(), start, 9));
    EXPECT_TRUE(mutex_buddy_give(buddy.get(), start, 8));
    EXPECT_FALSE(mutex_buddy_give(buddy.get(), start, 8));
    EXPECT_FALSE(mutex_buddy_give(buddy.get(), kPage, 1));
}

TEST(MutexBuddy, AClaimThatFailsChangesNothing)
{
    Buddy buddy = Make(2);
    ASSERT_TRUE(mutex_buddy_claim(buddy.get(), 5000, 10));
    EXPECT_FALSE(mutex_buddy_claim(buddy.get(), 100, 5000));
    EXPECT_FALSE(mutex_buddy_withdraw(buddy.get(), 0, 3));
    EXPECT_EQ(mutex_buddy_free_grains(buddy.get()), 2 * kPage - 10);
    EXPECT_TRUE(mutex_buddy_withdraw(buddy.get(), 0, 1));
}

TEST(MutexBuddy, AgreesWithASetOfGrains)
{
    Buddy buddy = Make(3);
    std::vector<bool> is_free(3 * kPage, true);
    std::mt19937 random(7);
    for (int step = 0; step < 20000; step++) {
        uint64_t grains = 1 + random() % (UINT64_C(1) << random() % 13);
        uint64_t start = random() % (3 * kPage - grains);
        uint64_t count = 0;
        for (uint64_t i = start; i < start + grains; i++)
            count += is_free[i];
        bool claims = random() % 2 == 0;
        bool is_done = claims ? mutex_buddy_claim(buddy.get(), start, grains)
                              : mutex_buddy_give(buddy.get(), start, grains);
        ASSERT_EQ(is_done, count == (claims ? grains : 0)) << step;
        if (is_done)
            for (uint64_t i = start; i < start + grains; i++)
                is_free[i] = !claims;
    }
    uint64_t free_grains = 0;
    for (bool grain : is_free)
        free_grains += grain;
    EXPECT_EQ(mutex_buddy_free_grains(buddy.get()), free_grains);
}

void TakeAndGive(mutex_buddy *buddy)
{
    uint64_t starts[8];
    for (int i = 0; i < 2000; i++) {
        uint32_t taken = mutex_buddy_take(buddy, 5, 8, 1, starts);
        while (taken)
            mutex_buddy_give(buddy, starts[--taken], 5);
    }
}

TEST(MutexBuddy, ServesThreads)
{
    Buddy buddy = Make(1);
    std::thread other(TakeAndGive, buddy.get());
    TakeAndGive(buddy.get());
    other.join();
    EXPECT_EQ(mutex_buddy_longest_page_run(buddy.get()), 1U);
}

} // namespace

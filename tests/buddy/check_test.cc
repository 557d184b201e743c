// SPDX-License-Identifier: Apache-2.0
//
// The verifier must be able to fail: each invariant is broken by hand once, and
// must be reported by its number and its place.
#include <gtest/gtest.h>

#include <string>

#include "tests/buddy/buddy_under_test.h"

namespace
{

struct Broken {
    std::string what;
    uint64_t at = 0;
};

Broken Check(const BuddyUnderTest &buddy)
{
    Broken broken;
    const char *what = buddy_probe_check(buddy.get(), &broken.at);
    broken.what = what ? what : "";
    return broken;
}

// Pages 0 and 2 are open, page 1 is free; grain 0 and page 2's half are taken.
class BuddyCheck : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(buddy_.Take(1), 0U);
        ASSERT_EQ(buddy_.TakeRun(128), kPage);
        ASSERT_TRUE(buddy_.Give(kPage, kPage + kPage / 2));
        ASSERT_EQ(Check(buddy_).what, "");
    }

    BuddyUnderTest buddy_{3, 4};
};

TEST_F(BuddyCheck, SeesAGrainThatIsFreeTwice)
{
    buddy_probe_write_chunk_word(buddy_.get(), 5, 1);
    Broken broken = Check(buddy_);
    buddy_probe_write_chunk_word(buddy_.get(), 5, 0);
    EXPECT_EQ(broken.what.substr(0, 3), "B1:");
    EXPECT_EQ(broken.at, 5 * kChunk);
}

TEST_F(BuddyCheck, SeesAChunkThatIsFreeTwice)
{
    buddy_probe_write_page_word(buddy_.get(), 1, 4);
    Broken broken = Check(buddy_);
    buddy_probe_write_page_word(buddy_.get(), 1, 0);
    EXPECT_EQ(broken.what.substr(0, 3), "B1:");
    EXPECT_EQ(broken.at, kPage);
}

TEST_F(BuddyCheck, SeesAPageThatWasNeverAdded)
{
    buddy_probe_write_page_free(buddy_.get(), 3, true);
    Broken broken = Check(buddy_);
    buddy_probe_write_page_free(buddy_.get(), 3, false);
    EXPECT_EQ(broken.what.substr(0, 3), "B2:");
    EXPECT_EQ(broken.at, 3 * kPage);
}

TEST_F(BuddyCheck, SeesRunsThatNoSummaryNames)
{
    buddy_probe_forget_summaries(buddy_.get());
    Broken broken = Check(buddy_);
    ASSERT_TRUE(buddy_.Give(0, 1)); // merges page 0
    ASSERT_TRUE(buddy_.Give(kPage * 5 / 2, kPage / 2));
    EXPECT_EQ(broken.what.substr(0, 3), "B3:");
    EXPECT_EQ(broken.at, 0U);
}

TEST_F(BuddyCheck, SeesAnIntervalThatStartsInFreeMemory)
{
    buddy_probe_set_class(buddy_.get(), kPage + 77, 1);
    Broken broken = Check(buddy_);
    buddy_probe_set_class(buddy_.get(), kPage + 77, 0);
    EXPECT_EQ(broken.what.substr(0, 3), "B4:");
    EXPECT_EQ(broken.at, kPage + 77);
}

TEST_F(BuddyCheck, AllowsAClassWhereMemoryIsTaken)
{
    buddy_probe_set_class(buddy_.get(), 0, 1);
    EXPECT_EQ(Check(buddy_).what, "");
    buddy_probe_set_class(buddy_.get(), 0, 0);
}

TEST_F(BuddyCheck, SeesAWordThatWasLeftOpen)
{
    buddy_probe_affinity affinity = {};
    ASSERT_TRUE(buddy_.Give(0, 1));
    uint64_t start = buddy_.Take(1, &affinity);
    EXPECT_EQ(buddy_.CheckMerged(), nullptr);
    ASSERT_TRUE(buddy_.Give(start, 1, &affinity));
    EXPECT_EQ(Check(buddy_).what, "");
    uint64_t at = 0;
    const char *what = buddy_probe_check_merged(buddy_.get(), &at);
    ASSERT_NE(what, nullptr);
    EXPECT_EQ(std::string(what).substr(0, 3), "B5:");
    EXPECT_EQ(at / kChunk, start / kChunk);
}

} // namespace

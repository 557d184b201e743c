// SPDX-License-Identifier: Apache-2.0
//
// A writer that stands still in the middle of an entry.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/history/history_under_test.h"

extern "C" {
#include "tests/progress/freeze.h"
#include "tests/support/tools/stage.h"
}

namespace
{

using namespace history_test;

class HalfWritten : public testing::TestWithParam<const char *>
{
};

void Use(moiety_pool *pool)
{
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, moiety_alloc(pool, 1000, nullptr, &block));
    ASSERT_EQ(MOIETY_OK, moiety_free(pool, block, nullptr));
}

TEST_P(HalfWritten, IsLeftOut)
{
    ASSERT_TRUE(stage_open());
    moiety_pool *pool = nullptr;
    moiety_pool_options options = Recorded(4);
    ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool));
    std::thread writer([&] {
        (void)stage_enter();
        for (unsigned i = 0; i < 4; i++)
            Use(pool);
        // 9 entries are written; the tenth goes over that of number 5.
        freeze_wish wish = {GetParam(), 1};
        freeze_follow(&wish);
        Use(pool);
        freeze_follow(nullptr);
    });
    while (!freeze_is_on())
        std::this_thread::yield();
    {
        History history(pool);
        EXPECT_EQ(3u, history.entries.size());
        for (size_t i = 0; i < history.entries.size(); i++)
            EXPECT_EQ(6u + i, history.entries[i].sequence);
        EXPECT_EQ(9u, history.summary.noted_count);
        EXPECT_EQ(6u, history.summary.lost_count);
    }
    freeze_release();
    writer.join();
    History history(pool);
    EXPECT_EQ(4u, history.entries.size());
    EXPECT_EQ(10u, history.entries.back().sequence);
    EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool, nullptr));
}

// A reader that stands still when it has read an entry, until that is
// overwritten.
TEST(HalfRead, IsLeftOut)
{
    ASSERT_TRUE(stage_open());
    moiety_pool *pool = nullptr;
    moiety_pool_options options = Recorded(4);
    ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool));
    for (unsigned i = 0; i < 4; i++)
        Use(pool);
    std::thread reader([&] {
        (void)stage_enter();
        // The second of four: the newest was read before.
        freeze_wish wish = {"history.read", 2};
        freeze_follow(&wish);
        History history(pool);
        freeze_follow(nullptr);
        ASSERT_EQ(1u, history.entries.size());
        EXPECT_EQ(8u, history.entries[0].sequence);
        EXPECT_EQ(8u, history.summary.lost_count);
    });
    while (!freeze_is_on())
        std::this_thread::yield();
    for (unsigned i = 0; i < 4; i++)
        Use(pool);
    freeze_release();
    reader.join();
    EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool, nullptr));
}

INSTANTIATE_TEST_SUITE_P(EachStep, HalfWritten,
                         testing::Values("history.begun", "history.half"),
                         [](const testing::TestParamInfo<const char *> &step) {
                             return std::string(step.param).substr(8);
                         });

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// A pool that ends the process at the first finding.
#include "tests/checked/checked_under_test.h"

namespace
{

using namespace checked_test;

moiety_pool_options Ending()
{
    moiety_pool_options options = Loud();
    options.flags |= MOIETY_POOL_CHECKED_ABORT;
    return options;
}

// The stand-in has threads: each death is one of a process of its own.
class CheckedDeathTest : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
    void SetUp() override
    {
        pool_test::UseStandin();
    }
};

TEST_F(CheckedDeathTest, OfADoubleFree)
{
    EXPECT_DEATH(
        {
            Pool pool(Ending());
            moiety_devptr block = pool.Alloc(100);
            pool.Free(block);
            (void)!moiety_free(pool, block, kStream);
        },
        "moiety: checked: 0x[0-9a-f]+ was freed before; block 1 of 100 bytes");
}

TEST_F(CheckedDeathTest, OfAWriteAfterTheFree)
{
    EXPECT_DEATH(
        {
            Pool pool(Ending());
            moiety_devptr block = pool.Alloc(100);
            pool.Free(block);
            pool_test::Synchronize();
            pool_test::Fill(block, 100, 0);
            pool_test::Synchronize();
            (void)Check(pool);
        },
        "100 bytes of a freed block were written");
}

TEST_F(CheckedDeathTest, DoesNotComeToWhoMakesNoMistake)
{
    Pool pool(Ending());
    pool.Free(pool.Alloc(100));
    pool_test::Synchronize();
    EXPECT_EQ(1u, Check(pool).verified_blocks);
}

} // namespace

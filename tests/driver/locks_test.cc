// SPDX-License-Identifier: Apache-2.0
//
// A thread that calls the driver, waits or allocates with a lock that others'
// first calls need ends the process, in builds that watch for it.
#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SEES_MALLOC 1
#else
#define SEES_MALLOC 0
#endif

#include "tests/driver/locks.h"

namespace
{

class Locks : public ::testing::TestWithParam<locks_deed>
{
  protected:
    static void SetUpTestSuite()
    {
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    }

    void SetUp() override
    {
        ASSERT_EQ(0, locks_open());
    }
};

TEST_P(Locks, AreHeldOverNothingThatTakesLong)
{
    locks_do_without(GetParam());
    EXPECT_DEATH(locks_do_with(GetParam()), "while a lock is held");
}

TEST_P(Locks, AreNotHeldAfterwards)
{
    locks_do_with(LOCKS_NOTHING);
    locks_do_without(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Deeds, Locks,
                         ::testing::Values(LOCKS_CALL, LOCKS_NAP,
                                           LOCKS_RESERVE));
#if SEES_MALLOC
INSTANTIATE_TEST_SUITE_P(SanitizedDeeds, Locks,
                         ::testing::Values(LOCKS_ALLOCATE));
#endif

} // namespace

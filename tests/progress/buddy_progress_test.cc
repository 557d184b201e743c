// SPDX-License-Identifier: Apache-2.0
//
// One thread stops at every step that the buddy's sources name, in turn, and
// three others take and give.
#include <gtest/gtest.h>

#include "tests/progress/buddy_subject.h"
#include "tests/progress/progress.h"
#include "tests/progress/step_name.h"

namespace
{

const char *const kSteps[] = {
#include "tests/progress/buddy_steps.inc"
};

class BuddyProgress : public ::testing::TestWithParam<const char *>
{
  protected:
    static void ExpectProgress(uint32_t visit)
    {
        progress_case test = {&buddy_subject, GetParam(), visit, 100};
        char message[PROGRESS_MESSAGE_BYTES];
        EXPECT_TRUE(progress_run(&test, message)) << message;
    }
};

TEST_P(BuddyProgress, OthersGoOnWhenAThreadStopsAtItsFirstVisit)
{
    ExpectProgress(1);
}

TEST_P(BuddyProgress, OthersGoOnWhenAThreadStopsAtALaterVisit)
{
    ExpectProgress(4);
}

INSTANTIATE_TEST_SUITE_P(EachStep, BuddyProgress, ::testing::ValuesIn(kSteps),
                         progress_test::NameOfStep);

} // namespace

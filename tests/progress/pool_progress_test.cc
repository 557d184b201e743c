// SPDX-License-Identifier: Apache-2.0
//
// One thread stops at every step that the sources of the caches and the facade
// name, in turn, and three others allocate and free.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/progress/pool_subject.h"
#include "tests/progress/progress.h"
#include "tests/progress/step_name.h"

namespace
{

const char *const kSteps[] = {
#include "tests/progress/pool_steps.inc"
};

class PoolProgress : public ::testing::TestWithParam<const char *>
{
  protected:
    static bool IsMapped()
    {
        return std::strstr(GetParam(), ".mapped.") != nullptr;
    }

    static void ExpectProgress(uint32_t visit)
    {
        progress_case test = {IsMapped() ? &mapped_pool_subject : &pool_subject,
                              GetParam(), visit, 100};
        char message[PROGRESS_MESSAGE_BYTES];
        EXPECT_TRUE(progress_run(&test, message)) << message;
    }
};

TEST_P(PoolProgress, OthersGoOnWhenAThreadStopsAtItsFirstVisit)
{
    ExpectProgress(1);
}

TEST_P(PoolProgress, OthersGoOnWhenAThreadStopsAtALaterVisit)
{
    // What has moved together may stay so: there are few moves in a game.
    ExpectProgress(IsMapped() ? 3 : 30);
}

INSTANTIATE_TEST_SUITE_P(EachStep, PoolProgress, ::testing::ValuesIn(kSteps),
                         progress_test::NameOfStep);

} // namespace

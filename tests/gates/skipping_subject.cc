// SPDX-License-Identifier: Apache-2.0
//
// What skip_gate_test.sh looks at: one test that passes, one that skips, and a
// global set-up that skips everything when it is told to.
#include <cstdlib>

#include <gtest/gtest.h>

namespace
{

class MaybeSkipAll : public ::testing::Environment
{
  public:
    void SetUp() override
    {
        if (std::getenv("SKIP_ALL") != nullptr)
            GTEST_SKIP() << "told to";
    }
};

const auto *g_environment =
    ::testing::AddGlobalTestEnvironment(new MaybeSkipAll);

TEST(Subject, Passes)
{
    SUCCEED();
}

TEST(Subject, Skips)
{
    GTEST_SKIP() << "for want of a GPU";
}

} // namespace

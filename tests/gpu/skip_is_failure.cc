// SPDX-License-Identifier: Apache-2.0
//
// Linked into every test that is tagged gpu: with MOIETY_REQUIRE_GPU=1 a test
// that was skipped, and a program that ran no test, fail. Without it a machine
// that lost its GPU would go on being green.
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

namespace
{

bool IsGpuRequired()
{
    const char *required = std::getenv("MOIETY_REQUIRE_GPU");
    return required != nullptr && std::strcmp(required, "1") == 0;
}

class SkipIsFailure : public ::testing::EmptyTestEventListener
{
    void OnTestStart(const ::testing::TestInfo &) override
    {
        started_count_++;
    }

    void OnTestEnd(const ::testing::TestInfo &test) override
    {
        if (IsGpuRequired() && test.result()->Skipped())
            ADD_FAILURE() << "MOIETY_REQUIRE_GPU=1, and this was skipped";
    }

    // The last place that can still change the verdict. A skip in a global
    // set-up ends here without any test having started.
    void OnTestIterationEnd(const ::testing::UnitTest &, int) override
    {
        if (IsGpuRequired() && started_count_ == 0)
            ADD_FAILURE() << "MOIETY_REQUIRE_GPU=1, and no test was run";
        started_count_ = 0;
    }

    int started_count_ = 0;
};

// Before main(), so that a test need not know. GoogleTest owns the listener.
const bool g_is_listening = [] {
    auto &listeners = ::testing::UnitTest::GetInstance()->listeners();
    listeners.Append(new SkipIsFailure);
    return true;
}();

} // namespace

// SPDX-License-Identifier: Apache-2.0
//
// The cases of good_fits.c, each a test of its own.
#include <gtest/gtest.h>

#include <string>

#include "tests/buddy/good_fits.h"

namespace
{

class GoodFits : public ::testing::TestWithParam<size_t>
{
};

TEST_P(GoodFits, AreFound)
{
    const char *failure = good_fits_run(GetParam());
    EXPECT_STREQ(failure, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoodFits,
                         ::testing::Range(size_t{0}, good_fits_count()),
                         [](const ::testing::TestParamInfo<size_t> &fit) {
                             return std::string(good_fits_name(fit.param));
                         });

} // namespace

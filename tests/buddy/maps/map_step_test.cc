// SPDX-License-Identifier: Apache-2.0
//
// The meetings of map_steps.c, each a test of its own.
#include <gtest/gtest.h>

#include <string>

#include "tests/buddy/maps/map_steps.h"

namespace
{

class MapSteps : public ::testing::TestWithParam<size_t>
{
};

TEST_P(MapSteps, LoseAndDoubleNothing)
{
    const char *failure = map_steps_run(GetParam());
    EXPECT_STREQ(failure, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Meetings, MapSteps,
                         ::testing::Range(size_t{0}, map_steps_count()),
                         [](const ::testing::TestParamInfo<size_t> &meeting) {
                             return std::string(map_steps_name(meeting.param));
                         });

} // namespace

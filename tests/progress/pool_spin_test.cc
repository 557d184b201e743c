// SPDX-License-Identifier: Apache-2.0
//
// The progress test itself: linked with a pool that flushes blocks under a lock
// that no name tells of, it must say so.
#include <gtest/gtest.h>

#include <string>

#include "tests/progress/pool_subject.h"
#include "tests/progress/progress.h"

namespace
{

TEST(PoolSpin, IsFoundWhenAThreadStopsInside)
{
    progress_case test = {&pool_subject, "flush.given", 1, 3};
    char message[PROGRESS_MESSAGE_BYTES];
    EXPECT_FALSE(progress_run(&test, message));
    EXPECT_NE(std::string(message).find("a worker waits"), std::string::npos)
        << message;
}

TEST(PoolSpin, IsNoMatterWhenAThreadStopsOutside)
{
    progress_case test = {&pool_subject, "refill.taken", 1, 100};
    char message[PROGRESS_MESSAGE_BYTES];
    EXPECT_TRUE(progress_run(&test, message)) << message;
}

} // namespace

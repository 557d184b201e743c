// SPDX-License-Identifier: Apache-2.0
//
// One program for every driver: --driver=FILE names the stand-in in CI; without
// it the system's driver is taken, as on a GPU host.
// --standin-driver-version=N makes the stand-in an older one. --conf=TEXT is
// MOIETY_CONF, so that the pools are of another kind. A test that takes longer
// than kStuckSeconds is stuck: the process ends by SIGALRM.
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "moiety/probe.h"
#include "moiety/status.h"
#include "tests/streams/device.h"

namespace
{

// A watchdog, no bound: a busy machine takes a few.
constexpr unsigned kStuckSeconds = 300;

class Watchdog : public ::testing::EmptyTestEventListener
{
    void OnTestStart(const ::testing::TestInfo &) override
    {
        alarm(kStuckSeconds);
    }
};

/* Why there is nothing to examine; empty when there is. */
std::string missing_driver;

TEST(Driver, IsPresent)
{
    if (missing_driver.empty())
        return;
    if (std::getenv("MOIETY_DRIVER") != nullptr)
        FAIL() << missing_driver;
    GTEST_SKIP() << missing_driver;
}

void Set(const char *name, const std::string &value)
{
    setenv(name, value.c_str(), 1);
}

bool Takes(const char *argument, const std::string &option, std::string *value)
{
    if (std::string(argument).compare(0, option.size(), option) != 0)
        return false;
    *value = argument + option.size();
    return true;
}

bool ReadArguments(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        std::string value;
        char path[PATH_MAX];
        if (Takes(arguments[i], "--driver=", &value) &&
            realpath(value.c_str(), path) != nullptr)
            Set("MOIETY_DRIVER", path);
        else if (Takes(arguments[i], "--standin-driver-version=", &value))
            Set("MOIETY_STANDIN_DRIVER_VERSION", value);
        else if (Takes(arguments[i], "--conf=", &value))
            Set("MOIETY_CONF", value);
        else
            return false;
    }
    return true;
}

/* Before the driver reads them. Streams share hardware queues, 8 by default: a
 * held stream would hold strangers. And a kernel that is loaded when first
 * used may wait for the device, which waits for us. */
void SetDriverEnvironment()
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

/* MOIETY_REQUIRE_GPU=1 makes the probe refuse a stand-in, and
 * //tests/gpu:skip_is_failure makes a skip a failure. */
void LookForDriver()
{
    moiety_caps caps = {};
    caps.struct_size = sizeof caps;
    if (moiety_probe(0, &caps) != MOIETY_OK)
        missing_driver = moiety_last_error_message();
    else
        missing_driver = streams_test::OpenDriver();
    if (missing_driver.empty())
        streams_test::WarmUp();
    else
        ::testing::GTEST_FLAG(filter) = "Driver.IsPresent";
}

} // namespace

int main(int count, char **arguments)
{
    ::testing::InitGoogleTest(&count, arguments);
    // The options of the rules are the tests' own, but for pools of another
    // kind.
    const char *conf = std::getenv("MOIETY_TEST_CONF");
    conf != nullptr ? setenv("MOIETY_CONF", conf, 1) : unsetenv("MOIETY_CONF");
    if (!ReadArguments(count, arguments)) {
        std::fprintf(stderr, "usage: [--driver=FILE] "
                             "[--standin-driver-version=N] [--conf=TEXT]\n");
        return 2;
    }
    SetDriverEnvironment();
    LookForDriver();
    ::testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
    return RUN_ALL_TESTS();
}

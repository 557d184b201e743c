// SPDX-License-Identifier: Apache-2.0
//
// The driver conformance test: the same list of expectations against whichever
// driver is loaded, so that what the stand-in imitates is what a GPU does.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace
{

constexpr int kWatchdogSeconds = 120;
/* A role must be found stuck before its starter is. */
constexpr int kRoleWatchdogSeconds = 60;

/* Before the driver reads them. Streams share hardware queues, 8 by default: a
 * held stream would hold strangers. And a kernel that is loaded when first
 * used may wait for the device, which waits for us. */
void SetDriverEnvironment()
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

const char *RoleArgument(int count, char **arguments)
{
    const char kOption[] = "--role=";
    if (count < 2 || std::strncmp(arguments[1], kOption, sizeof kOption - 1))
        return nullptr;
    return arguments[1] + sizeof kOption - 1;
}

bool IsGpuRequired()
{
    const char *required = std::getenv("MOIETY_REQUIRE_GPU");
    return required != nullptr && std::strcmp(required, "1") == 0;
}

/* A driver that is named by file is meant to be there. */
bool IsDriverNamed()
{
    const char *setting = std::getenv("MOIETY_DRIVER");
    return setting != nullptr && std::strchr(setting, '/') != nullptr;
}

/* Why there is nothing to examine; empty when there is. */
std::string missing_driver;

class DriverEnvironment : public ::testing::Environment
{
  public:
    void SetUp() override
    {
        conformance::WarmUp();
    }

    void TearDown() override
    {
        conformance::PrintSummary();
    }
};

TEST(Driver, IsPresent)
{
    if (!missing_driver.empty() && (IsGpuRequired() || IsDriverNamed()))
        FAIL() << missing_driver;
    if (!missing_driver.empty())
        GTEST_SKIP() << missing_driver;
    if (IsGpuRequired() && conformance::cu.is_standin)
        FAIL() << "MOIETY_REQUIRE_GPU=1, and the driver is the stand-in";
}

/* Either all tests, or the one that says why there can be none. */
void ChooseTests()
{
    if (conformance::OpenDriver(&missing_driver) &&
        conformance::CountDevices(&missing_driver) > 0)
        ::testing::AddGlobalTestEnvironment(new DriverEnvironment);
    else
        ::testing::GTEST_FLAG(filter) = "Driver.IsPresent";
}

int PlayRoleOnly(const char *name)
{
    std::string why;
    conformance::StartWatchdog(kRoleWatchdogSeconds);
    if (!conformance::OpenDriver(&why)) {
        std::fprintf(stderr, "%s\n", why.c_str());
        return 1;
    }
    return conformance::PlayRole(name, conformance::kPeerDescriptor);
}

} // namespace

int main(int argument_count, char **arguments)
{
    SetDriverEnvironment();
    const char *role = RoleArgument(argument_count, arguments);
    if (role != nullptr)
        return PlayRoleOnly(role);
    ::testing::InitGoogleTest(&argument_count, arguments);
    conformance::StartWatchdog(kWatchdogSeconds);
    ChooseTests();
    return RUN_ALL_TESTS();
}

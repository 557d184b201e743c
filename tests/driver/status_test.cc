// SPDX-License-Identifier: Apache-2.0
//
// Statuses, their words, and what becomes of the driver's codes. No driver is
// opened but where a test says so.
#include <moiety/moiety.h>
#include <moiety/probe.h>

#include <stdlib.h>
#include <string.h>

#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/driver/door.h"
#include "tests/support/driver_probe.h"

namespace
{

moiety_driver_error LastDriverError()
{
    moiety_driver_error error;
    error.struct_size = sizeof(error);
    EXPECT_EQ(MOIETY_OK, moiety_last_driver_error(&error));
    return error;
}

TEST(Status, NumbersNeverChange)
{
    EXPECT_EQ(0, MOIETY_OK);
    EXPECT_EQ(1, MOIETY_E_INVALID);
    EXPECT_EQ(2, MOIETY_E_TOO_LARGE);
    EXPECT_EQ(3, MOIETY_E_NO_DEVICE_MEMORY);
    EXPECT_EQ(4, MOIETY_E_NO_PINNED_MEMORY);
    EXPECT_EQ(5, MOIETY_E_NO_HOST_MEMORY);
    EXPECT_EQ(6, MOIETY_E_FOREIGN);
    EXPECT_EQ(7, MOIETY_E_WOULD_BLOCK);
    EXPECT_EQ(8, MOIETY_E_UNSUPPORTED);
    EXPECT_EQ(9, MOIETY_E_DRIVER);
    EXPECT_EQ(10, MOIETY_E_NO_DRIVER);
    EXPECT_EQ(11, MOIETY_E_NO_DEVICE);
    EXPECT_EQ(12, MOIETY_E_FORKED);
    EXPECT_EQ(13, MOIETY_E_DEINITIALIZED);
    EXPECT_EQ(14, MOIETY_E_CONTEXT_DESTROYED);
    EXPECT_EQ(15, MOIETY_E_CORRUPT);
    EXPECT_EQ(16, MOIETY_E_STALE);
    EXPECT_EQ(17, MOIETY_E_PEER_GONE);
    EXPECT_EQ(18, MOIETY_E_CAPTURING);
    EXPECT_EQ(19, MOIETY_E_BUDGET);
    EXPECT_EQ(20, MOIETY_E_TIMEOUT);
    EXPECT_EQ(21, MOIETY_E_INTERRUPTED);
    EXPECT_EQ(22, MOIETY_E_IN_USE);
    EXPECT_EQ(23, MOIETY_E_PAUSED);
    EXPECT_EQ(24, MOIETY_E_REENTRANT);
    EXPECT_EQ(25, MOIETY_E_NO_ROOM);
    EXPECT_EQ(26, MOIETY_E_DOUBLE_FREE);
    EXPECT_EQ(27, MOIETY_E_DESTROYED);
}

TEST(Status, EveryOneHasItsOwnNameAndText)
{
    std::set<std::string> names, texts;
    for (int i = MOIETY_OK; i <= MOIETY_E_DESTROYED; i++) {
        names.insert(moiety_status_name(static_cast<moiety_status>(i)));
        texts.insert(moiety_status_text(static_cast<moiety_status>(i)));
    }
    EXPECT_EQ(28u, names.size());
    EXPECT_EQ(28u, texts.size());
    EXPECT_EQ(0u, names.count("MOIETY_E_UNKNOWN"));
}

TEST(Status, UnknownValueHasWordsToo)
{
    auto unknown = static_cast<moiety_status>(31);
    EXPECT_STREQ("MOIETY_E_UNKNOWN", moiety_status_name(unknown));
    EXPECT_STREQ("unknown status", moiety_status_text(unknown));
}

struct Meaning {
    const char *entry;
    int code;
    moiety_status status;
};

class DriverCode : public testing::TestWithParam<Meaning>
{
};

TEST_P(DriverCode, HasItsStatus)
{
    const Meaning &meaning = GetParam();
    EXPECT_EQ(meaning.status, driver_probe_status(meaning.entry, meaning.code));
}

INSTANTIATE_TEST_SUITE_P(
    Status, DriverCode,
    testing::Values(Meaning{"cuMemAlloc", 0, MOIETY_OK},
                    Meaning{"cuMemAlloc", 1, MOIETY_E_INVALID},
                    Meaning{"cuMemAlloc", 2, MOIETY_E_NO_DEVICE_MEMORY},
                    Meaning{"cuMemCreate", 2, MOIETY_E_NO_DEVICE_MEMORY},
                    Meaning{"cuDevicePrimaryCtxRetain", 2,
                            MOIETY_E_NO_DEVICE_MEMORY},
                    Meaning{"cuMemHostAlloc", 2, MOIETY_E_NO_PINNED_MEMORY},
                    Meaning{"cuMemHostRegister", 2, MOIETY_E_NO_PINNED_MEMORY},
                    Meaning{"cuInit", 2, MOIETY_E_NO_HOST_MEMORY},
                    Meaning{"cuMemAddressReserve", 2, MOIETY_E_NO_HOST_MEMORY},
                    Meaning{"cuMemFree", 4, MOIETY_E_DEINITIALIZED},
                    Meaning{"cuInit", 34, MOIETY_E_NO_DRIVER},
                    Meaning{"cuDevicePrimaryCtxRetain", 46, MOIETY_E_NO_DEVICE},
                    Meaning{"cuInit", 100, MOIETY_E_NO_DEVICE},
                    Meaning{"cuDeviceGet", 101, MOIETY_E_INVALID},
                    Meaning{"cuCtxSetCurrent", 201, MOIETY_E_CONTEXT_DESTROYED},
                    Meaning{"cuStreamQuery", 400, MOIETY_E_INVALID},
                    Meaning{"cuEventQuery", 600, MOIETY_E_WOULD_BLOCK},
                    Meaning{"cuMemAlloc", 700, MOIETY_E_DRIVER},
                    Meaning{"cuMemAlloc", 709, MOIETY_E_CONTEXT_DESTROYED},
                    Meaning{"cuMemHostRegister", 712, MOIETY_E_IN_USE},
                    Meaning{"cuMemHostUnregister", 713, MOIETY_E_FOREIGN},
                    Meaning{"cuMemCreate", 801, MOIETY_E_UNSUPPORTED},
                    Meaning{"cuInit", 803, MOIETY_E_NO_DRIVER},
                    Meaning{"cuMemAlloc", 999, MOIETY_E_DRIVER},
                    Meaning{"cuMemAlloc", 31337, MOIETY_E_DRIVER}));

TEST(Failure, IsTheProgramsToo)
{
    EXPECT_EQ(MOIETY_E_STALE, moiety_fail(MOIETY_E_STALE, "100%s of %n it"));
    EXPECT_STREQ("100%s of %n it", moiety_last_error_message());
    std::thread([] {
        EXPECT_STREQ("", moiety_last_error_message());
        EXPECT_EQ(MOIETY_E_BUDGET, moiety_fail(MOIETY_E_BUDGET, "another's"));
    }).join();
    EXPECT_EQ(MOIETY_E_STALE,
              moiety_fail(MOIETY_E_STALE, moiety_last_error_message() + 5));
    EXPECT_STREQ(" of %n it", moiety_last_error_message());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_fail(MOIETY_E_INVALID, nullptr));
    EXPECT_STREQ(" of %n it", moiety_last_error_message());
    const std::string longest(5000, 'x');
    EXPECT_EQ(MOIETY_E_INVALID, moiety_fail(MOIETY_E_INVALID, longest.c_str()));
    EXPECT_EQ(longest.substr(0, 1023), moiety_last_error_message());
}

TEST(DriverError, IsEmptyInANewThread)
{
    std::thread([] {
        moiety_driver_error error = LastDriverError();
        EXPECT_EQ(0, error.code);
        EXPECT_STREQ("", error.name);
        EXPECT_STREQ("", error.entry);
        EXPECT_STREQ("", moiety_last_error_message());
    }).join();
}

TEST(DriverError, KeepsCodeNameAndEntryPerThread)
{
    driver_probe_status("cuMemAlloc", 2);
    std::thread([] { driver_probe_status("cuMemFree", 700); }).join();
    moiety_driver_error error = LastDriverError();
    EXPECT_EQ(2, error.code);
    EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", error.name);
    EXPECT_STREQ("cuMemAlloc", error.entry);
    EXPECT_STREQ("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)",
                 moiety_last_error_message());
}

TEST(DriverError, SurvivesSuccess)
{
    driver_probe_status("cuMemAlloc", 2);
    driver_probe_status("cuMemFree", 0);
    EXPECT_EQ(2, LastDriverError().code);
}

TEST(DriverError, KnowsTheNameOfEveryCodeOfItsList)
{
    driver_probe_status("cuMemAlloc", 916);
    EXPECT_STREQ("CUDA_ERROR_KEY_ROTATION", LastDriverError().name);
}

TEST(DriverError, OfAnUnknownCodeIsUnknownWhileNoDriverIsOpen)
{
    driver_probe_status("cuMemAlloc", 31337);
    EXPECT_STREQ("CUDA_ERROR_UNKNOWN", LastDriverError().name);
}

// In a process of its own: from here on a driver is open.
TEST(DriverErrorDeathTest, OfANewerDriverIsNamedByTheDriver)
{
    auto ask = [] {
        setenv("MOIETY_DRIVER", door::Fake("gets5").c_str(), 1);
        moiety_caps caps;
        caps.struct_size = sizeof(caps);
        moiety_status status = moiety_probe(0, &caps);
        driver_probe_status("cuMemAlloc", 31337);
        fprintf(stderr, "%s %s", moiety_status_name(status),
                LastDriverError().name);
        _exit(0);
    };
    EXPECT_EXIT(ask(), testing::ExitedWithCode(0),
                "MOIETY_E_UNSUPPORTED CUDA_ERROR_OF_A_NEWER_DRIVER");
}

TEST(DriverError, RefusesBadArgumentsByName)
{
    moiety_driver_error error;
    error.struct_size = sizeof(error) - 1;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_last_driver_error(&error));
    EXPECT_NE(nullptr, strstr(moiety_last_error_message(), "struct_size"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_last_driver_error(nullptr));
    EXPECT_NE(nullptr, strstr(moiety_last_error_message(), "out is NULL"));
}

TEST(DriverError, WritesNothingPastALargerStruct)
{
    struct {
        moiety_driver_error error;
        char later_fields[32];
    } larger;
    memset(&larger, 0x5a, sizeof(larger));
    larger.error.struct_size = sizeof(larger);
    ASSERT_EQ(MOIETY_OK, moiety_last_driver_error(&larger.error));
    EXPECT_EQ(sizeof(larger.error), larger.error.struct_size);
    EXPECT_EQ(std::string(32, 0x5a), std::string(larger.later_fields, 32));
}

TEST(ErrorMessage, IsCutNotOverrun)
{
    std::string driver(5000, 'x');
    setenv("MOIETY_DRIVER", driver.c_str(), 1);
    moiety_caps caps;
    caps.struct_size = sizeof(caps);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_probe(0, &caps));
    unsetenv("MOIETY_DRIVER");
    EXPECT_EQ(1023u, strlen(moiety_last_error_message()));
}

TEST(Version, OfLibraryAndHeadersAgree)
{
    std::string numbers = std::to_string(MOIETY_VERSION_MAJOR) + "." +
                          std::to_string(MOIETY_VERSION_MINOR) + "." +
                          std::to_string(MOIETY_VERSION_PATCH);
    EXPECT_EQ(numbers, MOIETY_VERSION_STRING);
    EXPECT_EQ(numbers, moiety_version());
}

} // namespace

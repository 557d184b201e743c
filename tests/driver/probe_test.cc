// SPDX-License-Identifier: Apache-2.0
//
// What the probe tells about the stand-in, whose answers are settings, and what
// it says of drivers that lack something.
#include <moiety/moiety.h>
#include <moiety/probe.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/driver/door.h"
#include "tests/support/driver_probe.h"

namespace
{

class Probe : public testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_DRIVER", door::Standin().c_str(), 1);
        setenv("MOIETY_STANDIN_DEVICES", "2", 1);
        setenv("MOIETY_STANDIN_MEMORY", "3GiB", 1);
        setenv("MOIETY_STANDIN_PCI", "0001:1a:00.0,0002:3b:05.0", 1);
    }

    void SetUp() override
    {
        memset(&caps, 0, sizeof(caps));
        caps.struct_size = sizeof(caps);
    }

    moiety_caps caps;
};

TEST_F(Probe, TellsTheDriver)
{
    ASSERT_EQ(MOIETY_OK, moiety_probe(0, &caps)) << moiety_last_error_message();
    EXPECT_EQ(sizeof(caps), caps.struct_size);
    EXPECT_EQ(1u, caps.is_standin);
    EXPECT_EQ(13000, caps.driver_version);
    EXPECT_EQ(door::Standin(), caps.library_path);
    EXPECT_EQ(2, caps.device_count);
}

TEST_F(Probe, TellsTheDevice)
{
    ASSERT_EQ(MOIETY_OK, moiety_probe(1, &caps)) << moiety_last_error_message();
    EXPECT_EQ(UINT64_C(3) << 30, caps.total_memory_bytes);
    EXPECT_EQ(2u, caps.pci_domain);
    EXPECT_EQ(0x3bu, caps.pci_bus);
    EXPECT_EQ(5u, caps.pci_device);
    EXPECT_STRNE("", caps.device_name);
    EXPECT_GT(caps.compute_major, 0);
    EXPECT_EQ(UINT64_C(2) << 20, caps.vmm_granularity_bytes);
}

TEST_F(Probe, TellsDevicesApartByTheirIdentity)
{
    moiety_caps other;
    other.struct_size = sizeof(other);
    ASSERT_EQ(MOIETY_OK, moiety_probe(0, &caps));
    ASSERT_EQ(MOIETY_OK, moiety_probe(1, &other));
    EXPECT_NE(0, memcmp(caps.uuid, other.uuid, sizeof(caps.uuid)));
}

TEST_F(Probe, MakesNoContext)
{
    ASSERT_EQ(MOIETY_OK, moiety_probe(0, &caps));
    auto *live = reinterpret_cast<int64_t (*)(const char *)>(
        driver_probe_symbol("moiety_standin_live"));
    ASSERT_NE(nullptr, live);
    EXPECT_EQ(0, live("contexts"));
}

TEST_F(Probe, FindsEveryEntryOfTheTable)
{
    ASSERT_EQ(MOIETY_OK, moiety_probe(0, &caps));
    for (size_t i = 0; i < driver_probe_entry_count(); i++)
        EXPECT_NE(nullptr, driver_probe_function(driver_probe_entry_name(i)))
            << driver_probe_entry_name(i);
}

TEST_F(Probe, TakesTheVersionOfAnEntryThatTheTableNames)
{
    ASSERT_EQ(MOIETY_OK, moiety_probe(0, &caps));
    EXPECT_EQ(driver_probe_symbol("cuMemAlloc_v2"),
              driver_probe_function("cuMemAlloc"));
    EXPECT_EQ(driver_probe_symbol("cuCtxCreate_v2"),
              driver_probe_function("cuCtxCreate"));
    EXPECT_EQ(driver_probe_symbol("cuStreamGetCaptureInfo"),
              driver_probe_function("cuStreamGetCaptureInfo"));
}

TEST_F(Probe, RefusesADeviceThatIsNotThere)
{
    EXPECT_EQ(MOIETY_E_INVALID, moiety_probe(2, &caps));
    EXPECT_STREQ("device 2 does not exist; the machine has devices 0 to 1",
                 moiety_last_error_message());
    EXPECT_EQ(MOIETY_E_INVALID, moiety_probe(-1, &caps));
}

TEST_F(Probe, RefusesBadArgumentsByName)
{
    caps.struct_size = sizeof(caps) - 8;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_probe(0, &caps));
    EXPECT_NE(nullptr, strstr(moiety_last_error_message(), "struct_size"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_probe(0, nullptr));
    EXPECT_NE(nullptr, strstr(moiety_last_error_message(), "out is NULL"));
}

TEST_F(Probe, LeavesTheStructAloneOnFailure)
{
    moiety_caps before = caps;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_probe(7, &caps));
    EXPECT_EQ(0, memcmp(&before, &caps, sizeof(caps)));
}

TEST_F(Probe, WritesNothingPastALargerStruct)
{
    struct {
        moiety_caps caps;
        char later_fields[64];
    } larger;
    memset(&larger, 0x5a, sizeof(larger));
    larger.caps.struct_size = sizeof(larger);
    ASSERT_EQ(MOIETY_OK, moiety_probe(0, &larger.caps));
    EXPECT_EQ(sizeof(larger.caps), larger.caps.struct_size);
    EXPECT_EQ(std::string(64, 0x5a), std::string(larger.later_fields, 64));
}

TEST_F(Probe, PassesTheDriversFailureOn)
{
    auto *set_faults = reinterpret_cast<int (*)(const char *)>(
        driver_probe_symbol("moiety_standin_set_faults"));
    ASSERT_NE(nullptr, set_faults);
    ASSERT_EQ(0, set_faults("cuDeviceGetName:nth=1:code=700"));
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_probe(0, &caps));
    EXPECT_STREQ("cuDeviceGetName: CUDA_ERROR_ILLEGAL_ADDRESS (700)",
                 moiety_last_error_message());
    EXPECT_EQ(MOIETY_OK, moiety_probe(0, &caps));
}

// Feature bits by the version that the driver claims to be.
uint64_t FeaturesOf(const char *version)
{
    std::string output = door::Ask(
        {"probe"}, {"MOIETY_DRIVER=" + door::Standin(),
                    std::string("MOIETY_STANDIN_DRIVER_VERSION=") + version});
    size_t at = output.find("features=");
    EXPECT_NE(std::string::npos, at) << output;
    if (at == std::string::npos)
        return 0;
    return strtoull(output.c_str() + at + strlen("features="), nullptr, 16);
}

TEST(Features, OfTheNewestStandin)
{
    const uint64_t expected =
        MOIETY_FEATURE_STREAM_IDS | MOIETY_FEATURE_CONTEXT_EVENTS |
        MOIETY_FEATURE_VMM | MOIETY_FEATURE_FD_EXPORT |
        MOIETY_FEATURE_LEGACY_IPC | MOIETY_FEATURE_STREAM_WORDS |
        MOIETY_FEATURE_MANAGED_MEMORY | MOIETY_FEATURE_HOST_REGISTER |
        MOIETY_FEATURE_UNIFIED_ADDRESSES | MOIETY_FEATURE_CAPTURE_MODES;
    EXPECT_EQ(expected, FeaturesOf("13000") & expected);
}

TEST(Features, ContextEventsCameWith12Point5)
{
    EXPECT_TRUE(FeaturesOf("12050") & MOIETY_FEATURE_CONTEXT_EVENTS);
    EXPECT_FALSE(FeaturesOf("12040") & MOIETY_FEATURE_CONTEXT_EVENTS);
}

TEST(Features, StreamIdsCameWith12Point0)
{
    EXPECT_TRUE(FeaturesOf("12000") & MOIETY_FEATURE_STREAM_IDS);
    EXPECT_FALSE(FeaturesOf("11080") & MOIETY_FEATURE_STREAM_IDS);
}

TEST(Features, StreamWordsCameWith11Point7)
{
    EXPECT_TRUE(FeaturesOf("11070") & MOIETY_FEATURE_STREAM_WORDS);
    EXPECT_FALSE(FeaturesOf("11040") & MOIETY_FEATURE_STREAM_WORDS);
}

TEST(Features, MemoryPoolsAreThereOnlyIfTheDeviceSaysSo)
{
    auto output = [](const char *value) {
        return door::Ask({"probe"},
                         {"MOIETY_DRIVER=" + door::Standin(),
                          std::string("MOIETY_STANDIN_MEMORY_POOLS=") + value});
    };
    EXPECT_NE(output("0"), output("1"));
}

TEST(Features, HaveNamesAndEndByThemselves)
{
    std::map<std::string, int> names;
    uint64_t feature = 1;
    while (moiety_feature_name(feature)) {
        names[moiety_feature_name(feature)]++;
        feature <<= 1;
    }
    EXPECT_EQ(13u, names.size());
    EXPECT_EQ(MOIETY_FEATURE_CAPTURE_MODES, feature >> 1);
    EXPECT_EQ(nullptr, moiety_feature_name(0));
    EXPECT_EQ(nullptr, moiety_feature_name(3));
}

} // namespace

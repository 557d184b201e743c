// SPDX-License-Identifier: Apache-2.0
//
// What is read out of hwloc, for machines that are not here.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/numa_topology/machine.h"

// A file that the kernel does not have, and what is in it.
static std::string fake_path;
static std::string fake_text;

// The linker's names for the C library's function and for ours.
extern "C" FILE *__real_fopen(const char *path, const char *mode);
extern "C" FILE *__wrap_fopen(const char *path, const char *mode);
extern "C" FILE *__wrap_fopen(const char *path, const char *mode)
{
    return path == fake_path ? fmemopen(&fake_text[0], fake_text.size(), "r")
                             : __real_fopen(path, mode);
}

namespace
{

using numa::Machine;

constexpr uint64_t kGib = UINT64_C(1) << 30;

TEST(Topology, HasTheNodesOfASyntheticMachine)
{
    Machine machine("HWLOC_SYNTHETIC",
                    "pack:2 [numa(memory=1073741824)] core:2 pu:1");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.Nodes(), "0-1");
    EXPECT_EQ(machine.Allowed(), "0-1");
    EXPECT_EQ(numa_probe_bytes(machine.topology, 1), kGib);
    EXPECT_EQ(numa_probe_cpus(machine.topology, 1), 2U);
    EXPECT_FALSE(numa_probe_is_this_system(machine.topology));
}

TEST(Topology, SaysWhatItWasReadFrom)
{
    Machine machine("single");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_STREQ(numa_probe_source(machine.topology),
                 "HWLOC_XMLFILE=tests/numa_topology/machines/single.xml");
}

TEST(Topology, OfThisMachineHasANodeThatIsAllowed)
{
    numa_probe *topology = nullptr;
    ASSERT_EQ(numa_probe_load(&topology), MOIETY_OK) << numa_probe_message();
    char allowed[NUMA_PROBE_TEXT_BYTES];
    numa_probe_allowed(topology, allowed);
    EXPECT_STRNE(allowed, "none");
    EXPECT_TRUE(numa_probe_is_this_system(topology));
    EXPECT_STREQ(numa_probe_source(topology), "this machine");
    numa_probe_unload(topology);
}

TEST(Topology, RefusesAnXmlFileThatIsNotThere)
{
    Machine machine("nowhere");
    EXPECT_EQ(machine.status, MOIETY_E_INVALID);
    EXPECT_NE(machine.message.find("machines/nowhere.xml"), std::string::npos)
        << machine.message;
}

TEST(Topology, RefusesAFileThatIsNoTopology)
{
    Machine machine("HWLOC_XMLFILE", "tests/numa_topology/topology_test.cc");
    EXPECT_EQ(machine.status, MOIETY_E_INVALID);
    EXPECT_NE(machine.message.find("topology_test.cc"), std::string::npos)
        << machine.message;
}

TEST(Topology, RefusesASyntheticMachineThatIsNone)
{
    Machine machine("HWLOC_SYNTHETIC", "pack:many");
    EXPECT_EQ(machine.status, MOIETY_E_INVALID);
    EXPECT_NE(machine.message.find("HWLOC_SYNTHETIC=pack:many"),
              std::string::npos)
        << machine.message;
}

TEST(Topology, HasNoNodeBeyondThoseThereAre)
{
    Machine machine("dgx");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_STREQ(numa_probe_kind(machine.topology, 2), "");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 4000), "");
    EXPECT_EQ(numa_probe_bytes(machine.topology, 4000), 0U);
    EXPECT_EQ(numa_probe_distance(machine.topology, 0, 4000), 0U);
}

TEST(Topology, KnowsDistances)
{
    Machine machine("clusters");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(numa_probe_distance(machine.topology, 2, 2), 10U);
    EXPECT_EQ(numa_probe_distance(machine.topology, 2, 3), 12U);
    EXPECT_EQ(numa_probe_distance(machine.topology, 2, 0), 21U);
}

TEST(Topology, TellsNodesThatExistFromThoseThatAreAllowed)
{
    Machine machine("clusters_cpuset");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.Nodes(), "0-3");
    EXPECT_EQ(machine.Allowed(), "1,3");
    EXPECT_EQ(numa_probe_bytes(machine.topology, 0), 256 * kGib);
}

TEST(MemoryKind, OfAGpuIsSaidByHwloc)
{
    Machine machine("superchip");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_STREQ(numa_probe_kind(machine.topology, 0), "dram");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 1), "device");
    EXPECT_EQ(numa_probe_cpus(machine.topology, 0), 4U);
    EXPECT_EQ(numa_probe_cpus(machine.topology, 1), 0U);
}

TEST(MemoryKind, FollowsFromBandwidthAndLatency)
{
    Machine machine("tiers");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_STREQ(numa_probe_kind(machine.topology, 0), "dram");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 1), "dram");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 2), "hbm");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 3), "slow");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 4), "cpuless");
    EXPECT_STREQ(numa_probe_kind(machine.topology, 5), "cpuless");
    EXPECT_EQ(numa_probe_cpus(machine.topology, 5), 0U);
    EXPECT_EQ(numa_probe_latency_ns(machine.topology, 3), 300U);
    EXPECT_EQ(numa_probe_latency_ns(machine.topology, 4), 0U);
}

struct NearRow {
    const char *machine;
    const char *bus_id;
    const char *near;
};

class NearPci : public testing::TestWithParam<NearRow>
{
};

TEST_P(NearPci, FindsTheNodes)
{
    Machine machine(GetParam().machine);
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.Near(GetParam().bus_id), GetParam().near)
        << GetParam().machine << " " << GetParam().bus_id;
}

INSTANTIATE_TEST_SUITE_P(
    Machines, NearPci,
    testing::Values(
        NearRow{"dgx", "0000:1b:00.0", "0"},
        NearRow{"dgx", "0000:61:00.0", "0"},
        NearRow{"dgx", "0000:9D:00.0", "1"},
        NearRow{"dgx", "00000000:df:00.0", "1"},
        NearRow{"dgx", "0000:1b:00.1", "unknown"}, // no such function
        NearRow{"dgx", "0001:1b:00.0", "unknown"}, // no such domain
        NearRow{"clusters", "0000:20:00.0", "0-1"},
        NearRow{"clusters", "0000:80:00.0", "2-3"},
        NearRow{"clusters", "0000:a0:00.0", "2"},
        NearRow{"clusters", "0000:e0:00.0", "unknown"},
        NearRow{"clusters_cpuset", "0000:20:00.0", "0-1"}, // allowed or not
        NearRow{"superchip", "0000:01:00.0", "0"},
        NearRow{"tiers", "0000:17:00.0", "0"},
        NearRow{"tiers", "0000:97:00.0", "1"},
        NearRow{"hollow", "0000:21:00.0", "0"}, // without memory
        NearRow{"single", "0000:03:00.0", "0"},
        NearRow{"single", "0000:77:00.0", "0"}, // not even seen
        NearRow{"mig", "0000:c1:00.0", "1"},    // of all its instances
        NearRow{"cpulist", "0000:05:00.0", "1"},
        NearRow{"cpulist", "0000:06:00.0", "unknown"},
        NearRow{"apart", "0000:0a:00.0", "3"})); // without CPUs

// What the kernel says of a device for which hwloc has no node.
struct SaidRow {
    const char *bus_id;
    const char *said;
    const char *near;
};

class NearPciSaid : public testing::TestWithParam<SaidRow>
{
  protected:
    void SetUp() override
    {
        fake_path = std::string("/sys/bus/pci/devices/") + GetParam().bus_id +
                    "/numa_node";
        fake_text = GetParam().said;
    }
    void TearDown() override
    {
        fake_path.clear();
    }
};

TEST_P(NearPciSaid, ByTheKernelIsTaken)
{
    setenv("HWLOC_THISSYSTEM", "1", 1);
    Machine machine("cpulist");
    unsetenv("HWLOC_THISSYSTEM");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    ASSERT_TRUE(numa_probe_is_this_system(machine.topology));
    EXPECT_EQ(machine.Near(GetParam().bus_id), GetParam().near);
}

TEST_P(NearPciSaid, ByTheKernelIsOfThisMachineOnly)
{
    Machine machine("cpulist");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.Near(GetParam().bus_id), "unknown");
}

INSTANTIATE_TEST_SUITE_P(
    Answers, NearPciSaid,
    testing::Values(SaidRow{"0000:06:00.0", "1\n", "1"},
                    SaidRow{"0000:06:00.0", "0\n", "0"},
                    SaidRow{"0000:06:00.0", "-1\n", "unknown"},
                    SaidRow{"0000:06:00.0", "\n", "unknown"},
                    SaidRow{"0000:06:00.0", "77\n", "unknown"}, // none has it
                    SaidRow{"0001:aa:1f.7", "1\n", "1"},
                    // Where hwloc shows no device.
                    SaidRow{"10000:06:00.0", "1\n", "1"}));

TEST(NearPci, RefusesWhatIsNoAddress)
{
    Machine machine("dgx");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    for (const char *text :
         {"", "gpu0", "1b:00.0", "0000:1b:00", "0000:1b:20.0", "0000:1b:00.8",
          "0000:1b:00.0 ", "-000:1b:00.0", "0x00:1b:00.0", "0000:1b:00.0.0"}) {
        char near[NUMA_PROBE_TEXT_BYTES];
        bool is_known = false;
        EXPECT_EQ(numa_probe_near_pci(machine.topology, text, near, &is_known),
                  MOIETY_E_INVALID)
            << text;
        EXPECT_NE(std::string(numa_probe_message())
                      .find("'" + std::string(text) + "'"),
                  std::string::npos)
            << numa_probe_message();
    }
}

TEST(NearCpu, FindsTheNodeOfTheCpu)
{
    Machine machine("clusters");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.NearCpu(0), "0");
    EXPECT_EQ(machine.NearCpu(5), "2");
    EXPECT_EQ(machine.NearCpu(99), "none");
}

TEST(NearCpu, LeavesOutNodesWithoutCpus)
{
    Machine machine("tiers");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.NearCpu(0), "0");
    EXPECT_EQ(machine.NearCpu(3), "1");
}

TEST(NearCpu, IsANodeWithoutCpusWhereThatAloneHasMemory)
{
    Machine machine("apart");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    EXPECT_EQ(machine.NearCpu(0), "2");
    EXPECT_EQ(machine.NearCpu(3), "3");
}

TEST(CallerNode, IsOneOfThisMachine)
{
    numa_probe *topology = nullptr;
    unsigned node = 4000;
    ASSERT_EQ(numa_probe_load(&topology), MOIETY_OK) << numa_probe_message();
    ASSERT_EQ(numa_probe_caller_node(topology, &node), MOIETY_OK)
        << numa_probe_message();
    EXPECT_STRNE(numa_probe_kind(topology, node), "");
    numa_probe_unload(topology);
}

// Races: threads that come first together, under tsan.
TEST(TopologyGet, GivesThreadsThatComeTogetherTheSame)
{
    std::vector<const numa_probe *> seen(4, nullptr);
    std::vector<std::string> nodes(seen.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < seen.size(); i++)
        threads.emplace_back([&, i] {
            char text[NUMA_PROBE_TEXT_BYTES];
            if (numa_probe_get(&seen[i]) != MOIETY_OK)
                return;
            numa_probe_nodes(seen[i], text);
            nodes[i] = text;
        });
    for (std::thread &thread : threads)
        thread.join();
    ASSERT_NE(seen[0], nullptr) << numa_probe_message();
    for (size_t i = 0; i < seen.size(); i++) {
        EXPECT_EQ(seen[i], seen[0]);
        EXPECT_EQ(nodes[i], nodes[0]);
    }
}

TEST(TopologyGet, ServesTheChildOfAFork)
{
    const numa_probe *parents = nullptr;
    ASSERT_EQ(numa_probe_get(&parents), MOIETY_OK) << numa_probe_message();
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const numa_probe *own = nullptr;
        _exit(numa_probe_get(&own) == MOIETY_OK && own == parents ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

struct ListRow {
    const char *text;
    const char *back; // nullptr: it is refused
};

TEST(Nodeset, ReadsAndWritesListsOfRanges)
{
    const ListRow rows[] = {
        {"0", "0"},         {"0-3,6", "0-3,6"}, {"6,0,1", "0-1,6"},
        {"255", "255"},     {"0-255", "0-255"}, {"1-1", "1"},
        {"", nullptr},      {"256", nullptr},   {"99999999999", nullptr},
        {"3-1", nullptr},   {"1,", nullptr},    {",1", nullptr},
        {"1-", nullptr},    {"-1", nullptr},    {"0+1", nullptr},
        {"0x1", nullptr},   {" 1", nullptr},    {"none", nullptr},
        {"0-1-2", nullptr},
    };
    for (const ListRow &row : rows) {
        char back[NUMA_PROBE_TEXT_BYTES] = "refused";
        bool is_read = numa_probe_nodeset(row.text, ',', back);
        EXPECT_EQ(is_read, row.back != nullptr) << row.text;
        EXPECT_STREQ(back, row.back ? row.back : "refused") << row.text;
    }
}

} // namespace

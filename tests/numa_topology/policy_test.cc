// SPDX-License-Identifier: Apache-2.0
//
// The decisions: machine and request -> nodes, or what is wrong.
#include <string>

#include <gtest/gtest.h>

#include "tests/numa_topology/machine.h"

namespace
{

using numa::Machine;

enum Policy : int { kNearest = 0, kCaller = 1, kExplicit = 2, kInterleave = 3 };

const char kNear[] = "the nodes nearest to the device";
const char kUnknown[] = "the device's locality is not known";
const char kNotNear[] =
    "no memory near the device may be used: the nearest that may";
const char kDriver[] = "the node that the driver says is next to the device";
const char kThread[] = "the node of the calling thread";
const char kNotThread[] =
    "no memory near the thread may be used: the nearest that may";
const char kNamed[] = "the nodes that were named";
const char kSpread[] = "spread over the nodes that were named";

numa_probe_request Near(const char *bus_id)
{
    return {kNearest, false, "", bus_id, 0, nullptr};
}

numa_probe_request Caller(unsigned node)
{
    return {kCaller, false, "", "", node, nullptr};
}

numa_probe_request Named(Policy policy, const char *nodes)
{
    return {policy, false, nodes, "", 0, nullptr};
}

numa_probe_request Strict(numa_probe_request request)
{
    request.is_strict = true;
    return request;
}

struct Row {
    const char *machine;
    numa_probe_request request;
    const char *nodes;
    const char *why;
    bool is_fallback;
};

class Placement : public testing::TestWithParam<Row>
{
};

TEST_P(Placement, IsWhereItIsWanted)
{
    const Row &row = GetParam();
    Machine machine(row.machine);
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    numa_probe_placement placement;
    ASSERT_EQ(numa_probe_place(machine.topology, &row.request, &placement),
              MOIETY_OK)
        << row.machine << ": " << numa_probe_message();
    EXPECT_STREQ(placement.nodes, row.nodes) << row.machine;
    EXPECT_STREQ(placement.why, row.why) << row.machine;
    EXPECT_EQ(placement.is_fallback, row.is_fallback) << row.machine;
    EXPECT_EQ(placement.is_strict, row.request.is_strict) << row.machine;
}

INSTANTIATE_TEST_SUITE_P(
    NearADevice, Placement,
    testing::Values(
        Row{"dgx", Near("0000:43:00.0"), "0", kNear, false},
        Row{"dgx", Near("0000:c3:00.0"), "1", kNear, false},
        Row{"dgx", Strict(Near("0000:c3:00.0")), "1", kNear, false},
        Row{"dgx", Near("0000:7f:00.0"), "0-1", kUnknown, true},
        Row{"dgx", Near(""), "0-1", kUnknown, true},
        Row{"clusters", Near("0000:20:00.0"), "0-1", kNear, false},
        Row{"clusters", Strict(Near("0000:80:00.0")), "2-3", kNear, false},
        Row{"clusters", Near("0000:a0:00.0"), "2", kNear, false},
        Row{"clusters", Near("0000:e0:00.0"), "0-3", kUnknown, true},
        Row{"superchip", Strict(Near("0000:01:00.0")), "0", kNear, false},
        Row{"superchip", Near(""), "0", kUnknown, true},
        Row{"tiers", Near("0000:17:00.0"), "0", kNear, false},
        Row{"tiers", Near("0000:97:00.0"), "1", kNear, false},
        Row{"tiers", Near(""), "0-1", kUnknown, true},
        Row{"single", Strict(Near("0000:03:00.0")), "0", kNear, false},
        Row{"apart", Strict(Near("0000:0a:00.0")), "3", kNear, false}));

// As in a virtual machine, where the kernel says -1. This machine's CPUs say which
// nodes are allowed: node 0 is everywhere.
struct DriverRow {
    const char *bus_id;
    const char *said;
    const char *why;
};

TEST(Placement, IsWhereTheDriverSaysIfTheSystemDoesNot)
{
    const DriverRow rows[] = {
        {"0000:06:00.0", "0", kDriver},
        {"", "0", kDriver},
        {"0000:06:00.0", "7", kUnknown}, // there is none
        {"0000:06:00.0", nullptr, kUnknown},
    };
    setenv("HWLOC_THISSYSTEM", "1", 1);
    Machine machine("cpulist");
    unsetenv("HWLOC_THISSYSTEM");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    for (const DriverRow &row : rows) {
        SCOPED_TRACE(row.said ? row.said : "nothing");
        bool is_said = row.why == kDriver;
        numa_probe_request request = Near(row.bus_id);
        request.driver_nodes = row.said;
        numa_probe_placement placement;
        ASSERT_EQ(MOIETY_OK,
                  numa_probe_place(machine.topology, &request, &placement));
        EXPECT_STREQ(placement.why, row.why);
        EXPECT_EQ(placement.is_fallback, !is_said);
        if (is_said) {
            EXPECT_STREQ("0", placement.nodes);
        }
        request.is_strict = true;
        EXPECT_EQ(is_said ? MOIETY_OK : MOIETY_E_UNSUPPORTED,
                  numa_probe_place(machine.topology, &request, &placement));
    }
}

TEST(Placement, DoesNotAskTheDriverOfAnotherMachine)
{
    Machine machine("cpulist");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    numa_probe_request request = Near("0000:06:00.0");
    request.driver_nodes = "1";
    numa_probe_placement placement;
    ASSERT_EQ(MOIETY_OK,
              numa_probe_place(machine.topology, &request, &placement));
    EXPECT_STREQ(placement.why, kUnknown);
}

// In a container, or without memory next to the device.
INSTANTIATE_TEST_SUITE_P(
    NearADeviceAsFarAsAllowed, Placement,
    testing::Values(
        Row{"clusters_cpuset", Near("0000:20:00.0"), "1", kNear, false},
        Row{"clusters_cpuset", Strict(Near("0000:20:00.0")), "1", kNear, false},
        Row{"clusters_cpuset", Near("0000:a0:00.0"), "3", kNotNear, true},
        Row{"clusters_cpuset", Near("0000:e0:00.0"), "1,3", kUnknown, true},
        Row{"hollow", Near("0000:21:00.0"), "2", kNotNear, true}));

INSTANTIATE_TEST_SUITE_P(
    NearAThread, Placement,
    testing::Values(Row{"clusters", Caller(2), "2", kThread, false},
                    Row{"clusters", Strict(Caller(3)), "3", kThread, false},
                    Row{"clusters_cpuset", Caller(3), "3", kThread, false},
                    Row{"clusters_cpuset", Caller(0), "1", kNotThread, true},
                    Row{"hollow", Caller(0), "2", kNotThread, true},
                    // A thread has no business in a GPU's own memory.
                    Row{"superchip", Caller(1), "0", kNotThread, true}));

INSTANTIATE_TEST_SUITE_P(
    OnNodes, Placement,
    testing::Values(
        Row{"clusters", Named(kExplicit, "1,3"), "1,3", kNamed, false},
        Row{"clusters", Strict(Named(kExplicit, "0")), "0", kNamed, false},
        // Who names it gets it, whatever it is.
        Row{"tiers", Named(kExplicit, "3"), "3", kNamed, false},
        Row{"superchip", Named(kExplicit, "1"), "1", kNamed, false},
        Row{"clusters_cpuset", Named(kExplicit, "3"), "3", kNamed, false},
        Row{"clusters", Named(kInterleave, "0-2"), "0-2", kSpread, false},
        Row{"clusters", Named(kInterleave, "2"), "2", kSpread, false}));

// As hwloc shows a machine without /sys: then any node may have all of it.
TEST(Placement, IsAnywhereWhereNothingIsKnownOfMemory)
{
    Machine machine("HWLOC_SYNTHETIC", "pack:2 [numa(memory=0)] pu:2");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    numa_probe_placement placement;
    for (numa_probe_request request :
         {Near("0000:20:00.0"), Near(""), Caller(1)}) {
        ASSERT_EQ(numa_probe_place(machine.topology, &request, &placement),
                  MOIETY_OK)
            << numa_probe_message();
        EXPECT_STREQ(placement.nodes, "0-1");
        EXPECT_STREQ(placement.why,
                     "the system does not tell where there is memory");
        EXPECT_TRUE(placement.is_fallback);
        request.is_strict = true;
        EXPECT_EQ(numa_probe_place(machine.topology, &request, &placement),
                  MOIETY_E_UNSUPPORTED);
    }
    numa_probe_request request = Named(kExplicit, "1");
    EXPECT_EQ(numa_probe_place(machine.topology, &request, &placement),
              MOIETY_OK)
        << numa_probe_message();
}

TEST(Placement, IsInterleavedOverMoreThanOneNode)
{
    Machine machine("clusters");
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    numa_probe_placement placement;
    for (const char *nodes : {"0-1", "0"}) {
        numa_probe_request request = Named(kInterleave, nodes);
        ASSERT_EQ(numa_probe_place(machine.topology, &request, &placement),
                  MOIETY_OK);
        EXPECT_EQ(placement.is_interleaved, std::string(nodes) == "0-1");
    }
    numa_probe_request request = Named(kExplicit, "0-1");
    ASSERT_EQ(numa_probe_place(machine.topology, &request, &placement),
              MOIETY_OK);
    EXPECT_FALSE(placement.is_interleaved);
}

struct BadRow {
    const char *machine;
    numa_probe_request request;
    moiety_status status;
    const char *message;
};

class BadPlacement : public testing::TestWithParam<BadRow>
{
};

TEST_P(BadPlacement, IsRefusedByName)
{
    const BadRow &row = GetParam();
    Machine machine(row.machine);
    ASSERT_EQ(machine.status, MOIETY_OK) << machine.message;
    numa_probe_placement placement;
    EXPECT_EQ(numa_probe_place(machine.topology, &row.request, &placement),
              row.status)
        << row.machine;
    EXPECT_STREQ(numa_probe_message(), row.message);
    EXPECT_STREQ(placement.nodes, "none");
}

INSTANTIATE_TEST_SUITE_P(
    Requests, BadPlacement,
    testing::Values(
        BadRow{"dgx", Named(kExplicit, "1,5"), MOIETY_E_INVALID,
               "node 5 does not exist; the machine has nodes 0-1"},
        BadRow{"dgx", Named(kInterleave, "0-2"), MOIETY_E_INVALID,
               "node 2 does not exist; the machine has nodes 0-1"},
        BadRow{"dgx", Caller(7), MOIETY_E_INVALID,
               "node 7 does not exist; the machine has nodes 0-1"},
        BadRow{"dgx", Caller(4000), MOIETY_E_INVALID,
               "node 4000 does not exist; the machine has nodes 0-1"},
        BadRow{"clusters_cpuset", Named(kExplicit, "1-2"), MOIETY_E_INVALID,
               "node 2 exists, but this process may not use it: its cpuset "
               "has nodes 1,3"},
        BadRow{"hollow", Named(kExplicit, "0"), MOIETY_E_INVALID,
               "node 0 has no memory"},
        BadRow{"superchip", Named(kInterleave, "0-3"), MOIETY_E_INVALID,
               "node 2 has no memory"},
        BadRow{"dgx", Named(kExplicit, ""), MOIETY_E_INVALID,
               "the explicit policy needs nodes, and none is named"},
        BadRow{"dgx", Named(kInterleave, ""), MOIETY_E_INVALID,
               "the interleave policy needs nodes, and none is named"},
        BadRow{"dgx", Named(kNearest, "0"), MOIETY_E_INVALID,
               "nodes 0 are named, but the nearest policy finds its own: ask "
               "for explicit or interleave, or name none"},
        BadRow{"dgx", Named(kCaller, "0-1"), MOIETY_E_INVALID,
               "nodes 0-1 are named, but the caller policy finds its own: ask "
               "for explicit or interleave, or name none"},
        BadRow{"dgx", Named(static_cast<Policy>(9), "0"), MOIETY_E_INVALID,
               "placement policy 9: accepted are 0 to 3"},
        BadRow{"dgx", Near("0000:1b"), MOIETY_E_INVALID,
               "PCI address '0000:1b': accepted is "
               "domain:bus:device.function, as 0000:21:00.0"},
        BadRow{"clusters", Strict(Near("0000:e0:00.0")), MOIETY_E_UNSUPPORTED,
               "strict placement near 0000:e0:00.0: where it is is not known; "
               "name the nodes instead"},
        BadRow{"dgx", Strict(Near("")), MOIETY_E_UNSUPPORTED,
               "strict placement near the device: where it is is not known; "
               "name the nodes instead"},
        BadRow{"clusters_cpuset", Strict(Near("0000:a0:00.0")),
               MOIETY_E_UNSUPPORTED,
               "strict placement near 0000:a0:00.0: node 2 next to it is not "
               "allowed for this process, or has no memory"},
        BadRow{"clusters_cpuset", Strict(Caller(0)), MOIETY_E_UNSUPPORTED,
               "strict placement near the calling thread: node 0 next to it is "
               "not allowed for this process, or has no memory"}));

struct TextRow {
    const char *text;
    const char *read;
};

TEST(PolicyText, IsRead)
{
    const TextRow rows[] = {
        {"nearest", "0 none"},
        {"caller", "1 none"},
        {"0", "2 0"},
        {"3+0-1", "2 0-1,3"},
        {"interleave=0-3", "3 0-3"},
        {"interleave=0+2", "3 0,2"},
    };
    for (const TextRow &row : rows) {
        char read[NUMA_PROBE_TEXT_BYTES];
        EXPECT_EQ(numa_probe_read_policy(row.text, read), MOIETY_OK)
            << row.text << ": " << numa_probe_message();
        EXPECT_STREQ(read, row.read) << row.text;
    }
}

TEST(PolicyText, IsRefusedByNameAndLeavesAllAsItWas)
{
    for (const char *text :
         {"", "near", "Nearest", "nearest ", "0,1", "0+", "+0", "256", "3-1",
          "interleave", "interleave=", "interleave=caller", "0\n", "-1"}) {
        char read[NUMA_PROBE_TEXT_BYTES];
        EXPECT_EQ(numa_probe_read_policy(text, read), MOIETY_E_INVALID) << text;
        EXPECT_EQ(std::string(numa_probe_message()),
                  "placement '" + std::string(text) +
                      "': accepted are nearest, caller, nodes below 256 as "
                      "0+2-3, and interleave=0+2-3");
        EXPECT_STREQ(read, "9 7") << text;
    }
}

TEST(PolicyText, IsRefusedWhenItIsTooLong)
{
    char read[NUMA_PROBE_TEXT_BYTES];
    std::string text(5000, '1');
    EXPECT_EQ(numa_probe_read_policy(text.c_str(), read), MOIETY_E_INVALID);
    EXPECT_STREQ(read, "9 7");
}

} // namespace

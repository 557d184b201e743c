// SPDX-License-Identifier: Apache-2.0
//
// The n-th allocation fails while a topology is loaded. hwloc's own are not
// among them.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/numa_probe.h"
#include "tests/support/tools/failing_memory.h"

namespace
{

TEST(TopologyFault, EachAllocationMayFailOnce)
{
    setenv("HWLOC_XMLFILE", "tests/numa_topology/machines/dgx.xml", 1);
    unsigned failures = 0;
    for (unsigned n = 1;; n++) {
        numa_probe *topology = nullptr;
        failing_memory_arm(n);
        moiety_status status = numa_probe_load(&topology);
        if (failing_memory_disarm()) {
            EXPECT_EQ(status, MOIETY_OK) << numa_probe_message();
            numa_probe_unload(topology);
            break;
        }
        failures++;
        EXPECT_EQ(status, MOIETY_E_NO_HOST_MEMORY) << n;
        EXPECT_EQ(topology, nullptr) << n;
    }
    EXPECT_EQ(failures, 2U); // the topology and its distances
    unsetenv("HWLOC_XMLFILE");
}

} // namespace

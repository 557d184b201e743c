// SPDX-License-Identifier: Apache-2.0
//
// The machines of machines/*.xml, each like one that is sold, for decisions:
// nothing can be bound on them.
#ifndef MOIETY_TESTS_NUMA_TOPOLOGY_MACHINE_H_
#define MOIETY_TESTS_NUMA_TOPOLOGY_MACHINE_H_

#include <cstdlib>
#include <string>

#include "tests/support/numa_probe.h"

namespace numa
{

// A topology, loaded with one variable set for that time.
class Machine
{
  public:
    Machine(const char *variable, const std::string &value)
    {
        setenv(variable, value.c_str(), 1);
        status = numa_probe_load(&topology);
        message = numa_probe_message();
        unsetenv(variable);
    }
    explicit Machine(const std::string &name)
        : Machine("HWLOC_XMLFILE",
                  "tests/numa_topology/machines/" + name + ".xml")
    {
    }
    ~Machine()
    {
        numa_probe_unload(topology);
    }
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    std::string Nodes() const
    {
        char text[NUMA_PROBE_TEXT_BYTES];
        numa_probe_nodes(topology, text);
        return text;
    }
    std::string Allowed() const
    {
        char text[NUMA_PROBE_TEXT_BYTES];
        numa_probe_allowed(topology, text);
        return text;
    }
    std::string NearCpu(unsigned cpu) const
    {
        char text[NUMA_PROBE_TEXT_BYTES];
        numa_probe_near_cpu(topology, cpu, text);
        return text;
    }
    // "unknown" if it is not.
    std::string Near(const std::string &bus_id) const
    {
        char text[NUMA_PROBE_TEXT_BYTES];
        bool is_known = false;
        if (numa_probe_near_pci(topology, bus_id.c_str(), text, &is_known) !=
            MOIETY_OK)
            return numa_probe_message();
        return is_known ? text : "unknown";
    }

    numa_probe *topology = nullptr;
    moiety_status status;
    std::string message;
};

} // namespace numa

#endif

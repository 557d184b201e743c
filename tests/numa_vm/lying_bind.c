/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A mutant of hwloc, for the guest: it says that it has bound memory, and has
 * not, as it does itself on a synthetic topology.
 */
#include <hwloc.h>

int hwloc_set_area_membind(hwloc_topology_t topology, const void *area,
                           size_t size_bytes, hwloc_const_bitmap_t nodes,
                           hwloc_membind_policy_t policy, int flags)
{
    (void)topology;
    (void)area;
    (void)size_bytes;
    (void)nodes;
    (void)policy;
    (void)flags;
    return 0;
}

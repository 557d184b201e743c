/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * From the options of a host arena to a place: what is asked for is checked, the
 * device is looked up, and the policy chooses.
 */
#ifndef MOIETY_NUMA_ARENA_PLACE_H_
#define MOIETY_NUMA_ARENA_PLACE_H_

#include "moiety/host.h"
#include "numa/topology/policy.h"
#include "pool/driver/driver_table.h"

/* Writes to `out`, if it returns MOIETY_OK, every field of this version: as
 * given, NULL for the defaults, with MOIETY_CONF's text over it. MOIETY_OK, or
 * MOIETY_E_INVALID with a message that names the field. */
MOIETY_MUST_USE moiety_status
moietyi_host_resolve(const moiety_host_options *given, const char *conf,
                     moiety_host_options *out);

/* The place of an arena with resolved options. MOIETY_OK, the status of
 * moietyi_place() or moietyi_topology_get(), or the driver's error for the
 * device. */
MOIETY_MUST_USE moiety_status moietyi_host_place(
    const struct moietyi_driver *driver, const moiety_host_options *options,
    struct moietyi_placement *out);

/* Bytes that all of these nodes have; 0: not known. */
uint64_t moietyi_host_bytes(const struct moietyi_topology *topology,
                            const moietyi_nodeset *nodes);

#endif

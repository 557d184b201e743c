/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * From the options of a host arena to a place: what is asked for is checked, the
 * device is looked up, and the policy chooses.
 */
#ifndef BINADE_NUMA_ARENA_PLACE_H_
#define BINADE_NUMA_ARENA_PLACE_H_

#include "binade/host.h"
#include "numa/topology/policy.h"
#include "pool/driver/driver_table.h"

/* Writes to `out`, if it returns BINADE_OK, every field of this version: as
 * given, NULL for the defaults, with BINADE_CONF's text over it. BINADE_OK, or
 * BINADE_E_INVALID with a message that names the field. */
BINADE_MUST_USE binade_status
binadei_host_resolve(const binade_host_options *given, const char *conf,
                     binade_host_options *out);

/* Where an arena with resolved options is to be. BINADE_OK, what binadei_place()
 * and binadei_topology_get() say, or what the driver said of the device. */
BINADE_MUST_USE binade_status binadei_host_place(
    const struct binadei_driver *driver, const binade_host_options *options,
    struct binadei_placement *out);

/* Bytes that all of these nodes have; 0: not known. */
uint64_t binadei_host_bytes(const struct binadei_topology *topology,
                            const binadei_nodeset *nodes);

#endif

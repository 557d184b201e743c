/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where memory is to be: a function of the topology and the request alone.
 * Nothing is bound or allocated here.
 */
#ifndef MOIETY_NUMA_TOPOLOGY_POLICY_H_
#define MOIETY_NUMA_TOPOLOGY_POLICY_H_

#include <stdbool.h>

#include "moiety/probe.h"
#include "moiety/status.h"
#include "numa/topology/nodeset.h"
#include "numa/topology/topology.h"

enum moietyi_policy {
    MOIETYI_POLICY_NEAREST = 0,    /* near the device */
    MOIETYI_POLICY_CALLER = 1,     /* near the calling thread */
    MOIETYI_POLICY_EXPLICIT = 2,   /* on the nodes named */
    MOIETYI_POLICY_INTERLEAVE = 3, /* spread over the nodes named, by pages */
};

#define MOIETYI_BUS_ID_BYTES 32

struct moietyi_placement_request {
    enum moietyi_policy policy;
    bool is_strict;        /* there or nowhere; else there if possible */
    moietyi_nodeset nodes; /* EXPLICIT, INTERLEAVE; else empty */
    char bus_id[MOIETYI_BUS_ID_BYTES]; /* NEAREST; "": not known */
    moietyi_nodeset driver_nodes;      /* NEAREST: what the driver says */
    unsigned caller_node;              /* CALLER */
};

/* For NEAREST: a GPU's address, "0000:21:00.0", as GPUs are function 0, and node. */
void moietyi_placement_ask(const moiety_caps *caps,
                           struct moietyi_placement_request *request);

struct moietyi_placement {
    moietyi_nodeset nodes; /* never empty; all allowed */
    bool is_strict;
    bool is_interleaved; /* over more than one */
    bool is_fallback;    /* not where it was wanted; `why` says the reason */
    const char *why;     /* static, for reports */
};

/* Chooses nodes.
 *
 * NEAREST and CALLER choose among nodes that are allowed and have memory, the
 * best kind of them. Where the system does not know where the device is, as in
 * virtual machines, the driver's word is taken. If there is none near the device or thread, or if nobody
 * knows where the device is, a strict request is refused; any other gets the
 * nodes with the least distance, or all where distances are not known, and
 * is_fallback says so. EXPLICIT and INTERLEAVE get exactly the nodes named.
 *
 * MOIETY_OK; MOIETY_E_INVALID for a policy that there is not, a bus id that is
 * no PCI address, no nodes where some must be named or nodes where none may be,
 * and a node that does not exist, is not allowed or has no memory;
 * MOIETY_E_UNSUPPORTED for a strict request that this machine cannot fulfil.
 * `*out` is written only with MOIETY_OK. */
MOIETY_MUST_USE moiety_status
moietyi_place(const struct moietyi_topology *topology,
              const struct moietyi_placement_request *request,
              struct moietyi_placement *out);

/* Reads a policy as MOIETY_CONF has it, where a comma ends a value: "nearest",
 * "caller", nodes as "0+2-3", or "interleave=0+2-3". Writes `policy` and
 * `nodes` of `*out` and leaves the rest. Whether the nodes exist is for
 * moietyi_place() to say. MOIETY_OK, or MOIETY_E_INVALID, with `*out`
 * untouched. */
MOIETY_MUST_USE moiety_status moietyi_policy_read(
    const char *text, size_t length, struct moietyi_placement_request *out);

#endif

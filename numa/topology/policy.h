/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where memory is to be: a function of the topology and the request alone.
 * Nothing is bound or allocated here.
 */
#ifndef BINADE_NUMA_TOPOLOGY_POLICY_H_
#define BINADE_NUMA_TOPOLOGY_POLICY_H_

#include <stdbool.h>

#include "binade/probe.h"
#include "binade/status.h"
#include "numa/topology/nodeset.h"
#include "numa/topology/topology.h"

enum binadei_policy {
    BINADEI_POLICY_NEAREST = 0,    /* near the device */
    BINADEI_POLICY_CALLER = 1,     /* near the calling thread */
    BINADEI_POLICY_EXPLICIT = 2,   /* on the nodes named */
    BINADEI_POLICY_INTERLEAVE = 3, /* spread over the nodes named, by pages */
};

#define BINADEI_BUS_ID_BYTES 32

/* A GPU's, "0000:21:00.0": GPUs are function 0. */
void binadei_bus_id_of(const binade_caps *caps, char out[BINADEI_BUS_ID_BYTES]);

struct binadei_placement_request {
    enum binadei_policy policy;
    bool is_strict;        /* there or nowhere; else there if possible */
    binadei_nodeset nodes; /* EXPLICIT, INTERLEAVE; else empty */
    char bus_id[BINADEI_BUS_ID_BYTES]; /* NEAREST; "": not known */
    unsigned caller_node;              /* CALLER */
};

struct binadei_placement {
    binadei_nodeset nodes; /* never empty; all allowed */
    bool is_strict;
    bool is_interleaved; /* over more than one */
    bool is_fallback;    /* not where it was wanted; `why` says the reason */
    const char *why;     /* static, for reports */
};

/* Chooses nodes.
 *
 * NEAREST and CALLER choose among nodes that are allowed and have memory, the
 * best kind of them. If there is none near the device or thread, or if nobody
 * knows where the device is, a strict request is refused; any other gets the
 * nodes with the least distance, or all where distances are not known, and
 * is_fallback says so. EXPLICIT and INTERLEAVE get exactly the nodes named.
 *
 * BINADE_OK; BINADE_E_INVALID for a policy that there is not, a bus id that is
 * no PCI address, no nodes where some must be named or nodes where none may be,
 * and a node that does not exist, is not allowed or has no memory;
 * BINADE_E_UNSUPPORTED for a strict request that this machine cannot fulfil.
 * `*out` is written only with BINADE_OK. */
BINADE_MUST_USE binade_status
binadei_place(const struct binadei_topology *topology,
              const struct binadei_placement_request *request,
              struct binadei_placement *out);

/* Reads a policy as BINADE_CONF has it, where a comma ends a value: "nearest",
 * "caller", nodes as "0+2-3", or "interleave=0+2-3". Writes `policy` and
 * `nodes` of `*out` and leaves the rest. Whether the nodes exist is for
 * binadei_place() to say. BINADE_OK, or BINADE_E_INVALID, with `*out`
 * untouched. */
BINADE_MUST_USE binade_status binadei_policy_read(
    const char *text, size_t length, struct binadei_placement_request *out);

#endif

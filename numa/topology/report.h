/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What there is of nodes and GPUs, and two ways to write it down.
 */
#ifndef MOIETY_NUMA_TOPOLOGY_REPORT_H_
#define MOIETY_NUMA_TOPOLOGY_REPORT_H_

#include <stdbool.h>
#include <stdio.h>

#include "moiety/probe.h"
#include "numa/topology/policy.h"
#include "numa/topology/topology.h"

struct moietyi_topo_gpu {
    moiety_caps caps;
    char bus_id[MOIETYI_BUS_ID_BYTES];
    moietyi_nodeset near;
    bool is_near_known;
    struct moietyi_placement use; /* nearest, not strict */
};

struct moietyi_topo_report {
    const struct moietyi_topology *topology;
    bool has_driver;
    char why_no_driver[1024]; /* "" with a driver */
    struct moietyi_topo_gpu *gpus;
    int gpu_count;
};

/* MOIETY_OK also without a driver. The caller frees `out`, also after an
 * error. */
MOIETY_MUST_USE moiety_status
moietyi_topo_report_make(struct moietyi_topo_report *out);
void moietyi_topo_report_free(struct moietyi_topo_report *report);

/* Whether all of it could be written is for the caller to ask `file`. */
void moietyi_topo_text(FILE *file, const struct moietyi_topo_report *report);
void moietyi_topo_json(FILE *file, const struct moietyi_topo_report *report);

/* fprintf(), whose errors the caller checks at the end with ferror(). */
__attribute__((format(printf, 2, 3))) void moietyi_say(FILE *file,
                                                       const char *format, ...);

#endif

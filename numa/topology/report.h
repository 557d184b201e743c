/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What there is of nodes and GPUs, and two ways to write it down.
 */
#ifndef BINADE_NUMA_TOPOLOGY_REPORT_H_
#define BINADE_NUMA_TOPOLOGY_REPORT_H_

#include <stdbool.h>
#include <stdio.h>

#include "binade/probe.h"
#include "numa/topology/policy.h"
#include "numa/topology/topology.h"

struct binadei_topo_gpu {
    binade_caps caps;
    char bus_id[BINADEI_BUS_ID_BYTES];
    binadei_nodeset near;
    bool is_near_known;
    struct binadei_placement use; /* nearest, not strict */
};

struct binadei_topo_report {
    const struct binadei_topology *topology;
    bool has_driver;
    char why_no_driver[1024]; /* "" with a driver */
    struct binadei_topo_gpu *gpus;
    int gpu_count;
};

/* BINADE_OK also without a driver. To be given back in any case. */
BINADE_MUST_USE binade_status
binadei_topo_report_make(struct binadei_topo_report *out);
void binadei_topo_report_free(struct binadei_topo_report *report);

/* Whether all of it could be written is for the caller to ask `file`. */
void binadei_topo_text(FILE *file, const struct binadei_topo_report *report);
void binadei_topo_json(FILE *file, const struct binadei_topo_report *report);

/* fprintf() for those two, which leave its errors to the end. */
__attribute__((format(printf, 2, 3))) void binadei_say(FILE *file,
                                                       const char *format, ...);

#endif

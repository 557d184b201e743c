/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the program topo found out, and the two ways to print it.
 */
#ifndef BINADE_NUMA_TOPO_H_
#define BINADE_NUMA_TOPO_H_

#include <stdbool.h>

#include "binade/probe.h"
#include "numa/policy.h"
#include "numa/topology.h"

struct topo_gpu {
    binade_caps caps;
    char bus_id[BINADEI_BUS_ID_BYTES];
    binadei_nodeset near;
    bool is_near_known;
    struct binadei_placement use; /* nearest, not strict */
};

struct topo_report {
    const struct binadei_topology *topology;
    bool has_driver;
    char why_no_driver[1024]; /* "" with a driver */
    struct topo_gpu *gpus;
    int gpu_count;
};

/* BINADE_OK also without a driver. To be given back in any case. */
BINADE_MUST_USE binade_status topo_report_make(struct topo_report *out);
void topo_report_free(struct topo_report *report);

/* On stdout; whether all of it could be written is for the caller to ask. */
void topo_print_text(const struct topo_report *report);
void topo_print_json(const struct topo_report *report);

#endif

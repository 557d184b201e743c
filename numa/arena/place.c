/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/arena/place.h"

#include <inttypes.h>
#include <string.h>

#include "numa/arena/conf.h"
#include "pool/base/failure.h"
#include "pool/driver/probe.h"

#define THREADS_MAX 64U
/* A struct_size above this is no later version but not filled in. */
#define STRUCT_BYTES_MAX 4096U

static const uint32_t known_flags =
    BINADE_HOST_STRICT | BINADE_HOST_WRITE_COMBINED | BINADE_HOST_READ_ONLY |
    BINADE_HOST_HUGE_2MIB | BINADE_HOST_HUGE_1GIB | BINADE_HOST_REPORT_LEAKS;

/* Two that exclude each other, and why. */
static const struct {
    uint32_t flags;
    const char *names;
    const char *why;
} exclusions[] = {
    {BINADE_HOST_HUGE_2MIB | BINADE_HOST_HUGE_1GIB, "HUGE_2MIB and HUGE_1GIB",
     "pages have one size"},
    {BINADE_HOST_WRITE_COMBINED | BINADE_HOST_HUGE_2MIB,
     "WRITE_COMBINED and HUGE_2MIB", "the driver chooses the pages"},
    {BINADE_HOST_WRITE_COMBINED | BINADE_HOST_HUGE_1GIB,
     "WRITE_COMBINED and HUGE_1GIB", "the driver chooses the pages"},
    {BINADE_HOST_WRITE_COMBINED | BINADE_HOST_READ_ONLY,
     "WRITE_COMBINED and READ_ONLY",
     "only memory that is registered can be read-only"},
};

static binade_status place_check_flags(uint32_t flags)
{
    if (flags & ~known_flags)
        return binadei_fail(BINADE_E_INVALID,
                            "host option flags: 0x%x has bits that are unknown",
                            (unsigned)flags);
    for (size_t i = 0; i < sizeof(exclusions) / sizeof(exclusions[0]); i++) {
        if ((flags & exclusions[i].flags) == exclusions[i].flags)
            return binadei_fail(BINADE_E_INVALID,
                                "host option flags: %s exclude each other: %s",
                                exclusions[i].names, exclusions[i].why);
    }
    return BINADE_OK;
}

static binade_status place_check(const binade_host_options *options)
{
    if (options->policy > BINADE_HOST_INTERLEAVE) {
        return binadei_fail(BINADE_E_INVALID,
                            "host option policy: %u is none; accepted are 0 "
                            "(nearest) to 3 (interleave)",
                            (unsigned)options->policy);
    }
    if (options->touch_threads > THREADS_MAX) {
        return binadei_fail(BINADE_E_INVALID,
                            "host option touch_threads: %u; accepted are 0 to "
                            "%u",
                            (unsigned)options->touch_threads, THREADS_MAX);
    }
    return place_check_flags(options->flags);
}

static binade_status place_take_struct(const binade_host_options *given,
                                       binade_host_options *out)
{
    const char *bytes = (const char *)given;
    if (given->struct_size < sizeof(*out) ||
        given->struct_size > STRUCT_BYTES_MAX) {
        return binadei_fail(BINADE_E_INVALID,
                            "host option struct_size: %u; begin with "
                            "BINADE_HOST_OPTIONS_INIT",
                            (unsigned)given->struct_size);
    }
    for (size_t i = sizeof(*out); i < given->struct_size; i++) {
        if (bytes[i])
            return binadei_fail(BINADE_E_INVALID,
                                "host options: a field of a later version is "
                                "not 0");
    }
    *out = *given;
    out->struct_size = sizeof(*out);
    return BINADE_OK;
}

/* Checked before the environment goes over it, too: one does not hide an error
 * of the other. */
binade_status binadei_host_resolve(const binade_host_options *given,
                                   const char *conf, binade_host_options *out)
{
    binade_status status = BINADE_OK;
    *out = (binade_host_options)BINADE_HOST_OPTIONS_INIT;
    if (given)
        status = place_take_struct(given, out);
    if (status == BINADE_OK)
        status = place_check(out);
    if (status == BINADE_OK)
        status = binadei_host_apply_conf(conf, out);
    return status == BINADE_OK ? place_check(out) : status;
}

static binade_status find_bus_id(const struct binadei_driver *driver,
                                 int32_t ordinal,
                                 char out[BINADEI_BUS_ID_BYTES])
{
    binade_caps caps;
    binade_status status = binadei_driver_probe(driver, ordinal, &caps);
    if (status == BINADE_OK)
        binadei_bus_id_of(&caps, out);
    return status;
}

static binade_status arena_find_place(const struct binadei_driver *driver,
                                      const struct binadei_topology *topology,
                                      const binade_host_options *options,
                                      struct binadei_placement *out)
{
    struct binadei_placement_request request = {
        .policy = (enum binadei_policy)options->policy,
        .is_strict = (options->flags & BINADE_HOST_STRICT) != 0,
    };
    binade_status status = BINADE_OK;
    memcpy(request.nodes.words, options->nodes, sizeof(options->nodes));
    if (request.policy == BINADEI_POLICY_NEAREST)
        status = find_bus_id(driver, options->device, request.bus_id);
    if (request.policy == BINADEI_POLICY_CALLER)
        status = binadei_topology_caller_node(topology, &request.caller_node);
    return status == BINADE_OK ? binadei_place(topology, &request, out)
                               : status;
}

uint64_t binadei_host_bytes(const struct binadei_topology *topology,
                            const binadei_nodeset *nodes)
{
    uint64_t sum = 0;
    for (BINADEI_NODESET_EACH(node, nodes))
        sum += binadei_topology_node_bytes(topology, node);
    return sum;
}

static binade_status place_check_limit(const struct binadei_topology *topology,
                                       const binade_host_options *options,
                                       const struct binadei_placement *place)
{
    char nodes[BINADEI_NODESET_TEXT_BYTES];
    uint64_t bytes = binadei_host_bytes(topology, &place->nodes);
    if (!place->is_strict || !bytes || options->limit_bytes <= bytes)
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID,
                        "host option limit_bytes: %" PRIu64 " is more than "
                        "node %s has: %" PRIu64,
                        options->limit_bytes,
                        binadei_nodeset_text(&place->nodes, nodes), bytes);
}

binade_status binadei_host_place(const struct binadei_driver *driver,
                                 const binade_host_options *options,
                                 struct binadei_placement *out)
{
    const struct binadei_topology *topology;
    binade_status status = binadei_topology_get(&topology);
    if (status == BINADE_OK)
        status = arena_find_place(driver, topology, options, out);
    return status == BINADE_OK ? place_check_limit(topology, options, out)
                               : status;
}

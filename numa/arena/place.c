/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/arena/place.h"

#include <inttypes.h>
#include <string.h>

#include "numa/arena/conf.h"
#include "numa/arena/pieces.h"
#include "pool/base/failure.h"
#include "pool/driver/probe.h"

#define THREADS_MAX 64U
/* A struct_size above this is no later version but not filled in. */
#define STRUCT_BYTES_MAX 4096U

static const uint32_t known_flags =
    MOIETY_HOST_STRICT | MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_READ_ONLY |
    MOIETY_HOST_HUGE_2MIB | MOIETY_HOST_HUGE_1GIB | MOIETY_HOST_REPORT_LEAKS |
    MOIETY_HOST_BY_DRIVER;

/* Two that exclude each other, and why. */
static const struct {
    uint32_t flags;
    const char *names;
    const char *why;
} exclusions[] = {
    {MOIETY_HOST_HUGE_2MIB | MOIETY_HOST_HUGE_1GIB, "HUGE_2MIB and HUGE_1GIB",
     "pages have one size"},
    {MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_HUGE_2MIB,
     "WRITE_COMBINED and HUGE_2MIB", "the driver chooses the pages"},
    {MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_HUGE_1GIB,
     "WRITE_COMBINED and HUGE_1GIB", "the driver chooses the pages"},
    {MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_READ_ONLY,
     "WRITE_COMBINED and READ_ONLY",
     "only memory that is registered can be read-only"},
    {MOIETY_HOST_BY_DRIVER | MOIETY_HOST_HUGE_2MIB, "BY_DRIVER and HUGE_2MIB",
     "the driver chooses the pages"},
    {MOIETY_HOST_BY_DRIVER | MOIETY_HOST_HUGE_1GIB, "BY_DRIVER and HUGE_1GIB",
     "the driver chooses the pages"},
    {MOIETY_HOST_BY_DRIVER | MOIETY_HOST_READ_ONLY, "BY_DRIVER and READ_ONLY",
     "only memory that is registered can be read-only"},
};

static moiety_status place_check_flags(uint32_t flags)
{
    if (flags & ~known_flags)
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option flags: 0x%x has bits that are unknown",
                            (unsigned)flags);
    for (size_t i = 0; i < sizeof(exclusions) / sizeof(exclusions[0]); i++) {
        if ((flags & exclusions[i].flags) == exclusions[i].flags)
            return moietyi_fail(MOIETY_E_INVALID,
                                "host option flags: %s exclude each other: %s",
                                exclusions[i].names, exclusions[i].why);
    }
    return MOIETY_OK;
}

static moiety_status place_check(const moiety_host_options *options)
{
    if (options->policy > MOIETY_HOST_INTERLEAVE) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option policy: %u is none; accepted are 0 "
                            "(nearest) to 3 (interleave)",
                            (unsigned)options->policy);
    }
    if (options->limit_bytes && options->limit_bytes < MOIETYI_PIECE_UNIT) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option limit_bytes: %" PRIu64
                            "; accepted are 0 and bytes from 2M on",
                            options->limit_bytes);
    }
    if (options->touch_threads > THREADS_MAX) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option touch_threads: %u; accepted are 0 to "
                            "%u",
                            (unsigned)options->touch_threads, THREADS_MAX);
    }
    if (options->unused)
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option unused: %u; accepted is 0",
                            (unsigned)options->unused);
    moiety_status status = moietyi_pieces_check(options);
    return status == MOIETY_OK ? place_check_flags(options->flags) : status;
}

static moiety_status place_take_struct(const moiety_host_options *given,
                                       moiety_host_options *out)
{
    const char *bytes = (const char *)given;
    if (given->struct_size < sizeof(*out) ||
        given->struct_size > STRUCT_BYTES_MAX) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "host option struct_size: %u; begin with "
                            "MOIETY_HOST_OPTIONS_INIT",
                            (unsigned)given->struct_size);
    }
    for (size_t i = sizeof(*out); i < given->struct_size; i++) {
        if (bytes[i])
            return moietyi_fail(MOIETY_E_INVALID,
                                "host options: a field of a later version is "
                                "not 0");
    }
    *out = *given;
    out->struct_size = sizeof(*out);
    return MOIETY_OK;
}

/* Checked before the environment overrides it, so that one error does not hide
 * the other. */
moiety_status moietyi_host_resolve(const moiety_host_options *given,
                                   const char *conf, moiety_host_options *out)
{
    moiety_status status = MOIETY_OK;
    *out = (moiety_host_options)MOIETY_HOST_OPTIONS_INIT;
    if (given)
        status = place_take_struct(given, out);
    if (status == MOIETY_OK)
        status = place_check(out);
    if (status == MOIETY_OK)
        status = moietyi_host_apply_conf(conf, out);
    return status == MOIETY_OK ? place_check(out) : status;
}

static moiety_status place_ask(const struct moietyi_driver *driver,
                               int32_t ordinal,
                               struct moietyi_placement_request *request)
{
    moiety_caps caps;
    moiety_status status = moietyi_driver_probe(driver, ordinal, &caps);
    if (status == MOIETY_OK)
        moietyi_placement_ask(&caps, request);
    return status;
}

static moiety_status arena_find_place(const struct moietyi_driver *driver,
                                      const struct moietyi_topology *topology,
                                      const moiety_host_options *options,
                                      struct moietyi_placement *out)
{
    struct moietyi_placement_request request = {
        .policy = (enum moietyi_policy)options->policy,
        .is_strict = (options->flags & MOIETY_HOST_STRICT) != 0,
    };
    moiety_status status = MOIETY_OK;
    memcpy(request.nodes.words, options->nodes, sizeof(options->nodes));
    if (request.policy == MOIETYI_POLICY_NEAREST)
        status = place_ask(driver, options->device, &request);
    if (request.policy == MOIETYI_POLICY_CALLER)
        status = moietyi_topology_caller_node(topology, &request.caller_node);
    return status == MOIETY_OK ? moietyi_place(topology, &request, out)
                               : status;
}

uint64_t moietyi_host_bytes(const struct moietyi_topology *topology,
                            const moietyi_nodeset *nodes)
{
    uint64_t sum = 0;
    for (MOIETYI_NODESET_EACH(node, nodes))
        sum += moietyi_topology_node_bytes(topology, node);
    return sum;
}

static moiety_status place_check_limit(const struct moietyi_topology *topology,
                                       const moiety_host_options *options,
                                       const struct moietyi_placement *place)
{
    char nodes[MOIETYI_NODESET_TEXT_BYTES];
    uint64_t bytes = moietyi_host_bytes(topology, &place->nodes);
    if (!place->is_strict || !bytes || options->limit_bytes <= bytes)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID,
                        "host option limit_bytes: %" PRIu64 " is more than "
                        "node %s has: %" PRIu64,
                        options->limit_bytes,
                        moietyi_nodeset_text(&place->nodes, nodes), bytes);
}

moiety_status moietyi_host_place(const struct moietyi_driver *driver,
                                 const moiety_host_options *options,
                                 struct moietyi_placement *out)
{
    const struct moietyi_topology *topology;
    moiety_status status = moietyi_topology_get(&topology);
    if (status == MOIETY_OK)
        status = arena_find_place(driver, topology, options, out);
    return status == MOIETY_OK ? place_check_limit(topology, options, out)
                               : status;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/topology/policy.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/failure.h"

#define WHY_NEAR "the nodes nearest to the device"
#define WHY_CALLER "the node of the calling thread"
#define WHY_UNKNOWN "the device's locality is not known"
#define WHY_NOT_NEAR                                                           \
    "no memory near the device may be used: the nearest that may"
#define WHY_NOT_CALLER                                                         \
    "no memory near the thread may be used: the nearest that may"
#define WHY_NAMED "the nodes that were named"
#define WHY_SPREAD "spread over the nodes that were named"

void binadei_bus_id_of(const binade_caps *caps, char out[BINADEI_BUS_ID_BYTES])
{
    (void)snprintf(out, BINADEI_BUS_ID_BYTES, "%04x:%02x:%02x.0",
                   caps->pci_domain, caps->pci_bus, caps->pci_device);
}

/* A placement that was wanted near `wanted`, and cannot be there. */
struct fallback {
    const char *why;
    const char *wanted_by; /* for the message of a strict request */
    binadei_nodeset wanted;
};

/* Of `among`, those with the least distance from any of `from`; all of them
 * where a distance is not known. */
static binadei_nodeset least_far(const struct binadei_topology *topology,
                                 const binadei_nodeset *from,
                                 const binadei_nodeset *among)
{
    binadei_nodeset nearest = {{0}};
    uint64_t least = UINT64_MAX;
    for (BINADEI_NODESET_EACH(to, among)) {
        uint64_t distance = UINT64_MAX;
        for (BINADEI_NODESET_EACH(node, from)) {
            uint64_t one = binadei_topology_distance(topology, node, to);
            if (one == 0)
                return *among;
            distance = one < distance ? one : distance;
        }
        if (distance < least)
            nearest = (binadei_nodeset){{0}};
        if (distance <= least) {
            least = distance;
            binadei_nodeset_add(&nearest, to);
        }
    }
    return nearest;
}

static binade_status refuse_strict(const struct fallback *fallback)
{
    char text[BINADEI_NODESET_TEXT_BYTES];
    if (binadei_nodeset_is_empty(&fallback->wanted)) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "strict placement near %s: where it is is not "
                            "known; name the nodes instead",
                            fallback->wanted_by);
    }
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "strict placement near %s: node %s next to it is not "
                        "allowed for this process, or has no memory",
                        fallback->wanted_by,
                        binadei_nodeset_text(&fallback->wanted, text));
}

static binade_status policy_fall_back(const struct binadei_topology *topology,
                                      const struct fallback *fallback,
                                      bool is_strict,
                                      struct binadei_placement *out)
{
    binadei_nodeset usable =
        binadei_topology_best_of(topology, binadei_topology_allowed(topology));
    if (is_strict)
        return refuse_strict(fallback);
    if (binadei_nodeset_is_empty(&usable))
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "no node that this process may use has memory");
    *out = (struct binadei_placement){
        .nodes = least_far(topology, &fallback->wanted, &usable),
        .is_fallback = true,
        .why = fallback->why,
    };
    return BINADE_OK;
}

/* On those of the nodes `fallback->wanted` that are allowed; if there are none,
 * elsewhere. */
static binade_status place_near(const struct binadei_topology *topology,
                                const struct fallback *fallback,
                                const char *why, bool is_strict,
                                struct binadei_placement *out)
{
    binadei_nodeset usable = binadei_nodeset_both(
        &fallback->wanted, binadei_topology_allowed(topology));
    usable = binadei_topology_best_of(topology, &usable);
    if (binadei_nodeset_is_empty(&usable))
        return policy_fall_back(topology, fallback, is_strict, out);
    *out = (struct binadei_placement){
        .nodes = usable, .is_strict = is_strict, .why = why};
    return BINADE_OK;
}

static binade_status
place_nearest(const struct binadei_topology *topology,
              const struct binadei_placement_request *request,
              struct binadei_placement *out)
{
    struct fallback fallback = {.why = WHY_UNKNOWN, .wanted_by = "the device"};
    bool is_known = false;
    if (request->bus_id[0]) {
        fallback.wanted_by = request->bus_id;
        binade_status status = binadei_topology_near_pci(
            topology, request->bus_id, &fallback.wanted, &is_known);
        if (status != BINADE_OK)
            return status;
    }
    if (is_known)
        fallback.why = WHY_NOT_NEAR;
    return place_near(topology, &fallback, WHY_NEAR, request->is_strict, out);
}

static binade_status refuse_missing(const struct binadei_topology *topology,
                                    unsigned node)
{
    char text[BINADEI_NODESET_TEXT_BYTES];
    (void)binadei_nodeset_text(binadei_topology_nodes(topology), text);
    return binadei_fail(BINADE_E_INVALID,
                        "node %u does not exist; the machine has node%s %s",
                        node, strpbrk(text, ",-") ? "s" : "", text);
}

static binade_status
place_caller(const struct binadei_topology *topology,
             const struct binadei_placement_request *request,
             struct binadei_placement *out)
{
    struct fallback fallback = {.why = WHY_NOT_CALLER,
                                .wanted_by = "the calling thread"};
    if (!binadei_topology_has_node(topology, request->caller_node))
        return refuse_missing(topology, request->caller_node);
    binadei_nodeset_add(&fallback.wanted, request->caller_node);
    return place_near(topology, &fallback, WHY_CALLER, request->is_strict, out);
}

static binade_status check_named(const struct binadei_topology *topology,
                                 const binadei_nodeset *nodes)
{
    char text[BINADEI_NODESET_TEXT_BYTES];
    for (BINADEI_NODESET_EACH(node, nodes)) {
        if (!binadei_topology_has_node(topology, node))
            return refuse_missing(topology, node);
        if (!binadei_topology_is_allowed(topology, node)) {
            return binadei_fail(
                BINADE_E_INVALID,
                "node %u exists, but this process may not use it: its cpuset "
                "has nodes %s",
                node,
                binadei_nodeset_text(binadei_topology_allowed(topology), text));
        }
        if (binadei_topology_node_bytes(topology, node) == 0)
            return binadei_fail(BINADE_E_INVALID, "node %u has no memory",
                                node);
    }
    return BINADE_OK;
}

static binade_status
place_named(const struct binadei_topology *topology,
            const struct binadei_placement_request *request,
            struct binadei_placement *out)
{
    bool is_spread = request->policy == BINADEI_POLICY_INTERLEAVE;
    if (binadei_nodeset_is_empty(&request->nodes))
        return binadei_fail(BINADE_E_INVALID,
                            "the %s policy needs nodes, and none is named",
                            is_spread ? "interleave" : "explicit");
    binade_status status = check_named(topology, &request->nodes);
    if (status != BINADE_OK)
        return status;
    *out = (struct binadei_placement){
        .nodes = request->nodes,
        .is_strict = request->is_strict,
        .is_interleaved =
            is_spread && binadei_nodeset_count(&request->nodes) > 1,
        .why = is_spread ? WHY_SPREAD : WHY_NAMED,
    };
    return BINADE_OK;
}

static binade_status
check_unnamed(const struct binadei_placement_request *request)
{
    char text[BINADEI_NODESET_TEXT_BYTES];
    if (binadei_nodeset_is_empty(&request->nodes))
        return BINADE_OK;
    return binadei_fail(
        BINADE_E_INVALID,
        "nodes %s are named, but the %s policy finds its own: ask for explicit "
        "or interleave, or name none",
        binadei_nodeset_text(&request->nodes, text),
        request->policy == BINADEI_POLICY_NEAREST ? "nearest" : "caller");
}

binade_status binadei_place(const struct binadei_topology *topology,
                            const struct binadei_placement_request *request,
                            struct binadei_placement *out)
{
    binade_status status = BINADE_OK;
    switch (request->policy) {
    case BINADEI_POLICY_NEAREST:
        status = check_unnamed(request);
        return status == BINADE_OK ? place_nearest(topology, request, out)
                                   : status;
    case BINADEI_POLICY_CALLER:
        status = check_unnamed(request);
        return status == BINADE_OK ? place_caller(topology, request, out)
                                   : status;
    case BINADEI_POLICY_EXPLICIT:
    case BINADEI_POLICY_INTERLEAVE:
        return place_named(topology, request, out);
    default:
        return binadei_fail(BINADE_E_INVALID,
                            "placement policy %d: accepted are 0 to 3",
                            (int)request->policy);
    }
}

#define INTERLEAVE "interleave="

static binade_status refuse_text(const char *text, size_t length)
{
    return binadei_fail(BINADE_E_INVALID,
                        "placement '%.*s': accepted are nearest, caller, nodes "
                        "below %u as 0+2-3, and interleave=0+2-3",
                        (int)(length < 64 ? length : 64), text,
                        BINADEI_NODES_MAX);
}

static bool read_word(const char *word, struct binadei_placement_request *out)
{
    size_t prefix = sizeof(INTERLEAVE) - 1;
    out->nodes = (binadei_nodeset){{0}};
    out->policy = BINADEI_POLICY_NEAREST;
    if (strcmp(word, "nearest") == 0)
        return true;
    out->policy = BINADEI_POLICY_CALLER;
    if (strcmp(word, "caller") == 0)
        return true;
    out->policy = BINADEI_POLICY_EXPLICIT;
    if (strncmp(word, INTERLEAVE, prefix) == 0) {
        out->policy = BINADEI_POLICY_INTERLEAVE;
        word += prefix;
    }
    return binadei_nodeset_parse(word, '+', &out->nodes) == strlen(word) &&
           *word;
}

binade_status binadei_policy_read(const char *text, size_t length,
                                  struct binadei_placement_request *out)
{
    char word[BINADEI_NODESET_TEXT_BYTES + sizeof(INTERLEAVE)];
    struct binadei_placement_request read = *out;
    if (length >= sizeof(word))
        return refuse_text(text, length);
    memcpy(word, text, length);
    word[length] = '\0';
    if (!read_word(word, &read))
        return refuse_text(text, length);
    *out = read;
    return BINADE_OK;
}

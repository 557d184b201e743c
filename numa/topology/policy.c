/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/topology/policy.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/failure.h"

#define WHY_NEAR "the nodes nearest to the device"
#define WHY_DRIVER "the node that the driver says is next to the device"
#define WHY_CALLER "the node of the calling thread"
#define WHY_UNKNOWN "the device's locality is not known"
#define WHY_NOT_NEAR                                                           \
    "no memory near the device may be used: the nearest that may"
#define WHY_NOT_CALLER                                                         \
    "no memory near the thread may be used: the nearest that may"
#define WHY_NOTHING "the system does not tell where there is memory"
#define WHY_NAMED "the nodes that were named"
#define WHY_SPREAD "spread over the nodes that were named"

void moietyi_placement_ask(const moiety_caps *caps,
                           struct moietyi_placement_request *request)
{
    (void)snprintf(request->bus_id, MOIETYI_BUS_ID_BYTES, "%04x:%02x:%02x.0",
                   caps->pci_domain, caps->pci_bus, caps->pci_device);
    if (caps->host_numa_node >= 0 &&
        caps->host_numa_node < (int32_t)MOIETYI_NODES_MAX)
        moietyi_nodeset_add(&request->driver_nodes,
                            (unsigned)caps->host_numa_node);
}

/* A request near `wanted` that cannot be fulfilled there. */
struct fallback {
    const char *why;
    const char *wanted_by; /* for the message of a strict request */
    moietyi_nodeset wanted;
};

/* The nodes of `among` with the least distance from any of `from`; all of them
 * if a distance is unknown. */
static moietyi_nodeset least_far(const struct moietyi_topology *topology,
                                 const moietyi_nodeset *from,
                                 const moietyi_nodeset *among)
{
    moietyi_nodeset nearest = {{0}};
    uint64_t least = UINT64_MAX;
    for (MOIETYI_NODESET_EACH(to, among)) {
        uint64_t distance = UINT64_MAX;
        for (MOIETYI_NODESET_EACH(node, from)) {
            uint64_t one = moietyi_topology_distance(topology, node, to);
            if (one == 0)
                return *among;
            distance = one < distance ? one : distance;
        }
        if (distance < least)
            nearest = (moietyi_nodeset){{0}};
        if (distance <= least) {
            least = distance;
            moietyi_nodeset_add(&nearest, to);
        }
    }
    return nearest;
}

static moiety_status refuse_strict(const struct fallback *fallback)
{
    char text[MOIETYI_NODESET_TEXT_BYTES];
    if (moietyi_nodeset_is_empty(&fallback->wanted)) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "strict placement near %s: where it is is not "
                            "known; name the nodes instead",
                            fallback->wanted_by);
    }
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "strict placement near %s: node %s next to it is not "
                        "allowed for this process, or has no memory",
                        fallback->wanted_by,
                        moietyi_nodeset_text(&fallback->wanted, text));
}

/* Without /sys no node has any, as far as hwloc knows. */
static bool is_memory_known(const struct moietyi_topology *topology)
{
    uint64_t bytes = 0;
    for (MOIETYI_NODESET_EACH(node, moietyi_topology_nodes(topology)))
        bytes += moietyi_topology_node_bytes(topology, node);
    return bytes != 0;
}

static moiety_status policy_fall_back(const struct moietyi_topology *topology,
                                      const struct fallback *fallback,
                                      bool is_strict,
                                      struct moietyi_placement *out)
{
    moietyi_nodeset usable =
        moietyi_topology_best_of(topology, moietyi_topology_allowed(topology));
    if (is_strict)
        return refuse_strict(fallback);
    if (!is_memory_known(topology)) {
        *out = (struct moietyi_placement){
            .nodes = *moietyi_topology_allowed(topology),
            .is_fallback = true,
            .why = WHY_NOTHING,
        };
        return MOIETY_OK;
    }
    if (moietyi_nodeset_is_empty(&usable))
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "no node that this process may use has memory");
    *out = (struct moietyi_placement){
        .nodes = least_far(topology, &fallback->wanted, &usable),
        .is_fallback = true,
        .why = fallback->why,
    };
    return MOIETY_OK;
}

/* On those of the nodes `fallback->wanted` that are allowed; if there are none,
 * elsewhere. */
static moiety_status place_near(const struct moietyi_topology *topology,
                                const struct fallback *fallback,
                                const char *why, bool is_strict,
                                struct moietyi_placement *out)
{
    moietyi_nodeset usable = moietyi_nodeset_both(
        &fallback->wanted, moietyi_topology_allowed(topology));
    usable = moietyi_topology_best_of(topology, &usable);
    if (moietyi_nodeset_is_empty(&usable))
        return policy_fall_back(topology, fallback, is_strict, out);
    *out = (struct moietyi_placement){
        .nodes = usable, .is_strict = is_strict, .why = why};
    return MOIETY_OK;
}

static moiety_status
place_nearest(const struct moietyi_topology *topology,
              const struct moietyi_placement_request *request,
              struct moietyi_placement *out)
{
    struct fallback fallback = {.why = WHY_UNKNOWN, .wanted_by = "the device"};
    const char *why = WHY_NEAR;
    bool is_known = false;
    if (request->bus_id[0]) {
        fallback.wanted_by = request->bus_id;
        moiety_status status = moietyi_topology_near_pci(
            topology, request->bus_id, &fallback.wanted, &is_known);
        if (status != MOIETY_OK)
            return status;
    }
    if (!is_known && moietyi_topology_is_this_system(topology)) {
        fallback.wanted = moietyi_nodeset_both(
            &request->driver_nodes, moietyi_topology_nodes(topology));
        is_known = !moietyi_nodeset_is_empty(&fallback.wanted);
        why = WHY_DRIVER;
    }
    if (is_known)
        fallback.why = WHY_NOT_NEAR;
    return place_near(topology, &fallback, why, request->is_strict, out);
}

static moiety_status refuse_missing(const struct moietyi_topology *topology,
                                    unsigned node)
{
    char text[MOIETYI_NODESET_TEXT_BYTES];
    (void)moietyi_nodeset_text(moietyi_topology_nodes(topology), text);
    return moietyi_fail(MOIETY_E_INVALID,
                        "node %u does not exist; the machine has node%s %s",
                        node, strpbrk(text, ",-") ? "s" : "", text);
}

static moiety_status
place_caller(const struct moietyi_topology *topology,
             const struct moietyi_placement_request *request,
             struct moietyi_placement *out)
{
    struct fallback fallback = {.why = WHY_NOT_CALLER,
                                .wanted_by = "the calling thread"};
    if (!moietyi_topology_has_node(topology, request->caller_node))
        return refuse_missing(topology, request->caller_node);
    moietyi_nodeset_add(&fallback.wanted, request->caller_node);
    return place_near(topology, &fallback, WHY_CALLER, request->is_strict, out);
}

static moiety_status check_named(const struct moietyi_topology *topology,
                                 const moietyi_nodeset *nodes)
{
    char text[MOIETYI_NODESET_TEXT_BYTES];
    for (MOIETYI_NODESET_EACH(node, nodes)) {
        if (!moietyi_topology_has_node(topology, node))
            return refuse_missing(topology, node);
        if (!moietyi_topology_is_allowed(topology, node)) {
            return moietyi_fail(
                MOIETY_E_INVALID,
                "node %u exists, but this process may not use it: its cpuset "
                "has nodes %s",
                node,
                moietyi_nodeset_text(moietyi_topology_allowed(topology), text));
        }
        if (moietyi_topology_node_bytes(topology, node) == 0 &&
            is_memory_known(topology))
            return moietyi_fail(MOIETY_E_INVALID, "node %u has no memory",
                                node);
    }
    return MOIETY_OK;
}

static moiety_status
place_named(const struct moietyi_topology *topology,
            const struct moietyi_placement_request *request,
            struct moietyi_placement *out)
{
    bool is_spread = request->policy == MOIETYI_POLICY_INTERLEAVE;
    if (moietyi_nodeset_is_empty(&request->nodes))
        return moietyi_fail(MOIETY_E_INVALID,
                            "the %s policy needs nodes, and none is named",
                            is_spread ? "interleave" : "explicit");
    moiety_status status = check_named(topology, &request->nodes);
    if (status != MOIETY_OK)
        return status;
    *out = (struct moietyi_placement){
        .nodes = request->nodes,
        .is_strict = request->is_strict,
        .is_interleaved =
            is_spread && moietyi_nodeset_count(&request->nodes) > 1,
        .why = is_spread ? WHY_SPREAD : WHY_NAMED,
    };
    return MOIETY_OK;
}

static moiety_status
check_unnamed(const struct moietyi_placement_request *request)
{
    char text[MOIETYI_NODESET_TEXT_BYTES];
    if (moietyi_nodeset_is_empty(&request->nodes))
        return MOIETY_OK;
    return moietyi_fail(
        MOIETY_E_INVALID,
        "nodes %s are named, but the %s policy finds its own: ask for explicit "
        "or interleave, or name none",
        moietyi_nodeset_text(&request->nodes, text),
        request->policy == MOIETYI_POLICY_NEAREST ? "nearest" : "caller");
}

moiety_status moietyi_place(const struct moietyi_topology *topology,
                            const struct moietyi_placement_request *request,
                            struct moietyi_placement *out)
{
    moiety_status status = MOIETY_OK;
    switch (request->policy) {
    case MOIETYI_POLICY_NEAREST:
        status = check_unnamed(request);
        return status == MOIETY_OK ? place_nearest(topology, request, out)
                                   : status;
    case MOIETYI_POLICY_CALLER:
        status = check_unnamed(request);
        return status == MOIETY_OK ? place_caller(topology, request, out)
                                   : status;
    case MOIETYI_POLICY_EXPLICIT:
    case MOIETYI_POLICY_INTERLEAVE:
        return place_named(topology, request, out);
    default:
        return moietyi_fail(MOIETY_E_INVALID,
                            "placement policy %d: accepted are 0 to 3",
                            (int)request->policy);
    }
}

#define INTERLEAVE "interleave="

static moiety_status refuse_text(const char *text, size_t length)
{
    return moietyi_fail(MOIETY_E_INVALID,
                        "placement '%.*s': accepted are nearest, caller, nodes "
                        "below %u as 0+2-3, and interleave=0+2-3",
                        (int)(length < 64 ? length : 64), text,
                        MOIETYI_NODES_MAX);
}

static bool read_word(const char *word, struct moietyi_placement_request *out)
{
    size_t prefix = sizeof(INTERLEAVE) - 1;
    out->nodes = (moietyi_nodeset){{0}};
    out->policy = MOIETYI_POLICY_NEAREST;
    if (strcmp(word, "nearest") == 0)
        return true;
    out->policy = MOIETYI_POLICY_CALLER;
    if (strcmp(word, "caller") == 0)
        return true;
    out->policy = MOIETYI_POLICY_EXPLICIT;
    if (strncmp(word, INTERLEAVE, prefix) == 0) {
        out->policy = MOIETYI_POLICY_INTERLEAVE;
        word += prefix;
    }
    return moietyi_nodeset_parse(word, '+', &out->nodes) == strlen(word) &&
           *word;
}

moiety_status moietyi_policy_read(const char *text, size_t length,
                                  struct moietyi_placement_request *out)
{
    char word[MOIETYI_NODESET_TEXT_BYTES + sizeof(INTERLEAVE)];
    struct moietyi_placement_request read = *out;
    if (length >= sizeof(word))
        return refuse_text(text, length);
    memcpy(word, text, length);
    word[length] = '\0';
    if (!read_word(word, &read))
        return refuse_text(text, length);
    *out = read;
    return MOIETY_OK;
}

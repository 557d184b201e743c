/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Statistics and the report of an arena, and the machine's topology.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numa/arena/arena.h"
#include "numa/topology/report.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

/* Of the memory, and of the choice of its nodes. */
static void take_stats(moiety_host *host, moiety_host_stats *out)
{
    moietyi_pinned_stats(host->pinned, out);
    if (host->place.is_fallback)
        out->fallbacks |= MOIETY_HOST_FELL_TO_OTHER_NODES;
}

moiety_status moiety_host_get_stats(moiety_host *host, moiety_host_stats *out)
{
    moiety_host_stats stats;
    moiety_status status = moietyi_host_check(host, "moiety_host_get_stats");
    if (status != MOIETY_OK)
        return status;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_get_stats: out is NULL");
    uint32_t size_bytes = out->struct_size;
    if (size_bytes < sizeof(stats)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_get_stats: struct_size is %u, must "
                            "be %zu or more",
                            (unsigned)size_bytes, sizeof(stats));
    }
    /* The source's lock may be held by a thread that a child does not have. */
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    take_stats(host, &stats);
    *out = stats;
    return MOIETY_OK;
}

/* Adds to a text that is cut where there is no room. */
static void report_add(char *out, size_t size_bytes, const char *more)
{
    size_t length = strlen(out);
    (void)snprintf(out + length, size_bytes - length, "%s", more);
}

/* That the nodes are others is said where they are named. */
static void add_fallbacks(uint32_t fallbacks, char *out, size_t size_bytes)
{
    static const struct {
        uint32_t bit;
        const char *words;
    } names[] = {
        {MOIETY_HOST_FELL_TO_UNBOUND, "; not bound"},
        {MOIETY_HOST_FELL_ELSEWHERE, "; in part on other nodes"},
        {MOIETY_HOST_FELL_TO_2MIB, "; no pages of 1 GiB"},
        {MOIETY_HOST_FELL_TO_TRANSPARENT, "; no pages set aside"},
        {MOIETY_HOST_FELL_TO_FEWER_THREADS, "; touched by fewer threads"},
        {MOIETY_HOST_FELL_TO_UNVERIFIED, "; not verified"},
        {MOIETY_HOST_FELL_TO_DRIVER, "; allocated by the driver"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fallbacks & names[i].bit)
            report_add(out, size_bytes, names[i].words);
}

moiety_status moiety_host_report(moiety_host *host, char *out,
                                 size_t size_bytes)
{
    char nodes[MOIETYI_NODESET_TEXT_BYTES];
    char reason[MOIETYI_REASON_BYTES];
    moiety_host_stats stats;
    moiety_status status = moietyi_host_check(host, "moiety_host_report");
    if (status != MOIETY_OK)
        return status;
    if (!out || !size_bytes)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_host_report: %s",
                            out ? "size_bytes is 0" : "out is NULL");
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moietyi_pinned_stats(host->pinned, &stats);
    moietyi_pinned_reason(host->pinned, reason, sizeof(reason));
    (void)snprintf(out, size_bytes, "node %s (%s)",
                   moietyi_nodeset_text(&host->place.nodes, nodes),
                   host->place.why);
    add_fallbacks(stats.fallbacks, out, size_bytes);
    if (reason[0]) {
        report_add(out, size_bytes, ": ");
        report_add(out, size_bytes, reason);
    }
    return MOIETY_OK;
}

static moiety_status check_topology(uint32_t format, const char *out,
                                    size_t size_bytes)
{
    if (format > MOIETY_HOST_TOPOLOGY_JSON)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_topology: format %u is unknown",
                            (unsigned)format);
    if (!out && size_bytes)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_topology: out is NULL");
    return moietyi_is_forked() ? moietyi_refuse_child() : MOIETY_OK;
}

/* The whole in memory of its own, for free(). */
static moiety_status write_topology(uint32_t format,
                                    const struct moietyi_topo_report *report,
                                    char **text, size_t *length)
{
    FILE *to = open_memstream(text, length);
    if (!to)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a description of the machine");
    if (format == MOIETY_HOST_TOPOLOGY_JSON)
        moietyi_topo_json(to, report);
    else
        moietyi_topo_text(to, report);
    bool is_whole = !ferror(to);
    if (fclose(to) == 0 && is_whole)
        return MOIETY_OK;
    free(*text);
    *text = NULL;
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for a description of the machine");
}

moiety_status moiety_host_topology(uint32_t format, char *out,
                                   size_t size_bytes, size_t *out_bytes)
{
    struct moietyi_topo_report report = {.has_driver = false};
    char *text = NULL;
    size_t length = 0;
    moiety_status status = check_topology(format, out, size_bytes);
    if (status == MOIETY_OK)
        status = moietyi_topo_report_make(&report);
    if (status == MOIETY_OK)
        status = write_topology(format, &report, &text, &length);
    moietyi_topo_report_free(&report);
    if (!text)
        return status;
    if (size_bytes)
        (void)snprintf(out, size_bytes, "%s", text);
    if (out_bytes)
        *out_bytes = length;
    free(text);
    return MOIETY_OK;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an arena says of itself, growing it before it is needed, and what the
 * machine has.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numa/arena/arena.h"
#include "numa/topology/report.h"
#include "pool/api/arena.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

#define THREADS_MAX 64U
#define SEGMENT_BYTES (UINT64_C(2) << 20)

/* Of the memory, and of the choice of its nodes. */
static void take_stats(binade_host *host, binade_host_stats *out)
{
    binadei_pinned_stats(host->pinned, out);
    if (host->place.is_fallback)
        out->fallbacks |= BINADE_HOST_FELL_TO_OTHER_NODES;
}

binade_status binade_host_stats_get(binade_host *host, binade_host_stats *out)
{
    binade_host_stats stats;
    binade_status status = binadei_host_check(host, "binade_host_stats_get");
    if (status != BINADE_OK)
        return status;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_stats_get: out is NULL");
    uint32_t size_bytes = out->struct_size;
    if (size_bytes < sizeof(stats)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_stats_get: struct_size is %u, must "
                            "be %zu or more",
                            (unsigned)size_bytes, sizeof(stats));
    }
    /* The source's lock may be held by a thread that a child does not have. */
    if (binadei_is_forked())
        return binadei_refuse_child();
    take_stats(host, &stats);
    *out = stats;
    return BINADE_OK;
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
        {BINADE_HOST_FELL_TO_UNBOUND, "; not bound"},
        {BINADE_HOST_FELL_ELSEWHERE, "; in part on other nodes"},
        {BINADE_HOST_FELL_TO_2MIB, "; no pages of 1 GiB"},
        {BINADE_HOST_FELL_TO_TRANSPARENT, "; no pages set aside"},
        {BINADE_HOST_FELL_TO_FEWER_THREADS, "; touched by fewer threads"},
        {BINADE_HOST_FELL_TO_UNVERIFIED, "; not verified"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (fallbacks & names[i].bit)
            report_add(out, size_bytes, names[i].words);
}

binade_status binade_host_report(binade_host *host, char *out,
                                 size_t size_bytes)
{
    char nodes[BINADEI_NODESET_TEXT_BYTES];
    char reason[BINADEI_REASON_BYTES];
    binade_host_stats stats;
    binade_status status = binadei_host_check(host, "binade_host_report");
    if (status != BINADE_OK)
        return status;
    if (!out || !size_bytes)
        return binadei_fail(BINADE_E_INVALID, "binade_host_report: %s",
                            out ? "size_bytes is 0" : "out is NULL");
    if (binadei_is_forked())
        return binadei_refuse_child();
    binadei_pinned_stats(host->pinned, &stats);
    binadei_pinned_reason(host->pinned, reason, sizeof(reason));
    (void)snprintf(out, size_bytes, "node %s (%s)",
                   binadei_nodeset_text(&host->place.nodes, nodes),
                   host->place.why);
    add_fallbacks(stats.fallbacks, out, size_bytes);
    if (reason[0]) {
        report_add(out, size_bytes, ": ");
        report_add(out, size_bytes, reason);
    }
    return BINADE_OK;
}

static binade_status check_reserve(const binade_host *host, uint64_t size_bytes,
                                   uint32_t thread_count)
{
    char nodes[BINADEI_NODESET_TEXT_BYTES];
    binade_status status = binadei_host_check(host, "binade_host_reserve");
    if (status != BINADE_OK)
        return status;
    if (thread_count > THREADS_MAX) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_reserve: thread_count is %u, must be "
                            "%u at most",
                            (unsigned)thread_count, THREADS_MAX);
    }
    if (size_bytes <= UINT64_MAX - SEGMENT_BYTES &&
        (!host->limit_bytes || size_bytes <= host->limit_bytes))
        return binadei_is_forked() ? binadei_refuse_child() : BINADE_OK;
    return binadei_fail(BINADE_E_TOO_LARGE,
                        "%" PRIu64 " bytes: the arena on node %s never has "
                        "more than %" PRIu64,
                        size_bytes,
                        binadei_nodeset_text(&host->place.nodes, nodes),
                        host->limit_bytes);
}

binade_status binade_host_reserve(binade_host *host, uint64_t size_bytes,
                                  uint32_t thread_count,
                                  binade_host_progress_fn *progress,
                                  void *user_data)
{
    binade_host_stats stats;
    binade_status status = check_reserve(host, size_bytes, thread_count);
    if (status != BINADE_OK)
        return status;
    binadei_pinned_stats(host->pinned, &stats);
    size_bytes = (size_bytes + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);
    struct binadei_progress to = {
        .report = progress,
        .user_data = user_data,
        .total_bytes = size_bytes > stats.pinned_bytes
                           ? size_bytes - stats.pinned_bytes
                           : 0,
        .thread_count = thread_count,
    };
    binadei_pinned_report_to(&to);
    status = binade_pool_reserve(host->pool, size_bytes);
    binadei_pinned_report_to(NULL);
    return status;
}

static binade_status check_topology(uint32_t format, const char *out,
                                    size_t size_bytes)
{
    if (format > BINADE_HOST_TOPOLOGY_JSON)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_topology: format %u is unknown",
                            (unsigned)format);
    if (!out && size_bytes)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_topology: out is NULL");
    return binadei_is_forked() ? binadei_refuse_child() : BINADE_OK;
}

/* The whole in memory of its own, for free(). */
static binade_status write_topology(uint32_t format,
                                    const struct binadei_topo_report *report,
                                    char **text, size_t *length)
{
    FILE *to = open_memstream(text, length);
    if (!to)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for a description of the machine");
    if (format == BINADE_HOST_TOPOLOGY_JSON)
        binadei_topo_json(to, report);
    else
        binadei_topo_text(to, report);
    bool is_whole = !ferror(to);
    if (fclose(to) == 0 && is_whole)
        return BINADE_OK;
    free(*text);
    *text = NULL;
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a description of the machine");
}

binade_status binade_host_topology(uint32_t format, char *out,
                                   size_t size_bytes, size_t *out_bytes)
{
    struct binadei_topo_report report = {.has_driver = false};
    char *text = NULL;
    size_t length = 0;
    binade_status status = check_topology(format, out, size_bytes);
    if (status == BINADE_OK)
        status = binadei_topo_report_make(&report);
    if (status == BINADE_OK)
        status = write_topology(format, &report, &text, &length);
    binadei_topo_report_free(&report);
    if (!text)
        return status;
    if (size_bytes)
        (void)snprintf(out, size_bytes, "%s", text);
    if (out_bytes)
        *out_bytes = length;
    free(text);
    return BINADE_OK;
}

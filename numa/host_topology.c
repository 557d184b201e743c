/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binade/host.h"
#include "numa/topo_report.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

static binade_status check(uint32_t format, const char *out, size_t size_bytes)
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
static binade_status write_down(uint32_t format,
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
    binade_status status = check(format, out, size_bytes);
    if (status == BINADE_OK)
        status = binadei_topo_report_make(&report);
    if (status == BINADE_OK)
        status = write_down(format, &report, &text, &length);
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

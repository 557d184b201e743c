/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Keepers, as far as no memory is concerned.
 */
#include <string.h>

#include "moiety/region.h"
#include "pool/base/failure.h"
#include "serve/client/connection.h"

moiety_status moiety_keeper_connect(const moiety_keeper_options *options,
                                    moiety_keeper **out)
{
    if (!options || !out || options->struct_size < sizeof(*options) ||
        options->flags) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_keeper_connect: options or out is NULL, "
                            "flags are not 0, or struct_size is below %zu",
                            sizeof(*options));
    }
    return moietyi_connection_open(options->path, out);
}

moiety_status moiety_keeper_disconnect(moiety_keeper *keeper)
{
    if (!keeper)
        return MOIETY_OK;
    moiety_status status = moietyi_connection_enter(keeper);
    if (status != MOIETY_OK)
        return status;
    if (keeper->region_count)
        status = moietyi_fail(MOIETY_E_IN_USE,
                              "%zu regions of the keeper are not closed",
                              keeper->region_count);
    moietyi_connection_leave(keeper);
    if (status == MOIETY_OK)
        moietyi_connection_close(keeper);
    return status;
}

/* The request of a function without descriptors. */
static moiety_status keeper_ask(struct moiety_keeper *keeper,
                                struct moietyi_serve_received *exchange)
{
    moiety_status status = moietyi_connection_enter(keeper);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_connection_ask(keeper, exchange, NULL, 0);
    moietyi_connection_leave(keeper);
    return status;
}

moiety_status moiety_keeper_drop(moiety_keeper *keeper, const char *name)
{
    struct moietyi_serve_received exchange = {
        .frame = {.kind = MOIETYI_SERVE_DROP}};
    if (!keeper || !name)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_keeper_drop: keeper or name is NULL");
    moiety_status status = moietyi_serve_check_name(name);
    if (status != MOIETY_OK)
        return status;
    memcpy(exchange.frame.region.name, name, strlen(name) + 1);
    return keeper_ask(keeper, &exchange);
}

moiety_status moiety_keeper_list(moiety_keeper *keeper, uint64_t after,
                                 moiety_region_entry *out)
{
    struct moietyi_serve_received exchange = {
        .frame = {.kind = MOIETYI_SERVE_LIST, .cursor = after}};
    const struct moietyi_serve_region *region = &exchange.frame.region;
    if (!keeper || !out || out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_keeper_list: keeper or out is NULL, or "
                            "struct_size is below %zu",
                            sizeof(*out));
    }
    moiety_status status = keeper_ask(keeper, &exchange);
    if (status != MOIETY_OK)
        return status;
    if (!region->number)
        return moietyi_fail(MOIETY_E_STALE,
                            "the keeper has no region behind id %llu",
                            (unsigned long long)after);
    *out = (moiety_region_entry){.struct_size = (uint32_t)sizeof(*out),
                                 .state = region->state,
                                 .id = region->number,
                                 .generation = region->generation,
                                 .layout_bytes = region->layout_bytes,
                                 .part_count = region->part_count,
                                 .hold_count = region->hold_count,
                                 .writer_pid = region->writer_pid};
    for (uint32_t i = 0; i < region->part_count; i++)
        out->size_bytes += region->parts[i].size_bytes;
    memcpy(out->hold_pids, exchange.frame.hold_pids, sizeof(out->hold_pids));
    memcpy(out->name, region->name, sizeof(out->name));
    return MOIETY_OK;
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/staging.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* An input in flight and a response, and what the thread's cache keeps of other
 * sizes. It is all there before the first request: growing later would have hit
 * the subject whose turn it was. */
#define THREAD_BYTES (UINT64_C(8) << 20)

moiety_status server_staging_open(const struct server_device *device,
                                  enum server_staging_kind kind,
                                  unsigned thread_count,
                                  struct server_staging *out)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    uint64_t size_bytes = thread_count * THREAD_BYTES;
    options.device = device->index;
    options.limit_bytes = size_bytes;
    *out = (struct server_staging){.device = device, .kind = kind};
    moiety_status status = moiety_host_create(&options, &out->arena);
    if (status == MOIETY_OK)
        status = moiety_host_reserve(out->arena, size_bytes, 0, NULL, NULL);
    return status;
}

void server_staging_look(const struct server_staging *staging,
                         struct server_staging_facts *out)
{
    *out =
        (struct server_staging_facts){.stats.struct_size = sizeof(out->stats)};
    /* Nothing is known of an arena that is not there. */
    if (moiety_host_stats_get(staging->arena, &out->stats) != MOIETY_OK ||
        moiety_host_report(staging->arena, out->place, sizeof(out->place)) !=
            MOIETY_OK)
        *out = (struct server_staging_facts){0};
}

/* An arena that cannot say what was lost has lost something. */
void server_staging_close(struct server_staging *staging,
                          struct server_staging_facts *out)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    server_staging_look(staging, out);
    moiety_status status = moiety_host_destroy(staging->arena, &leaks);
    out->lost_bytes = status == MOIETY_OK ? leaks.bytes : UINT64_MAX;
    staging->arena = NULL;
}

const char *server_staging_page_kind(const moiety_host_stats *stats)
{
    static const char *const names[MOIETY_HOST_PAGES_COUNT] = {
        [MOIETY_HOST_PAGES_SMALL] = "small",
        [MOIETY_HOST_PAGES_TRANSPARENT] = "small or transparent huge",
        [MOIETY_HOST_PAGES_2MIB] = "2 MiB",
        [MOIETY_HOST_PAGES_1GIB] = "1 GiB",
        [MOIETY_HOST_PAGES_DRIVER] = "the driver's",
    };
    unsigned most = 0;
    for (unsigned i = 1; i < MOIETY_HOST_PAGES_COUNT; i++)
        if (stats->page_kind_bytes[i] > stats->page_kind_bytes[most])
            most = i;
    return names[most];
}

void server_staging_print(const struct server_staging_facts *facts,
                          const moiety_caps *caps, int device)
{
    const moiety_host_stats *stats = &facts->stats;
    printf("staging     for device %d at %04x:%02x:%02x: %s\n", device,
           caps->pci_domain, caps->pci_bus, caps->pci_device, facts->place);
    printf("            %" PRIu64 " of %" PRIu64 " pages asked for are there",
           stats->pages_near, stats->pages_asked);
    if (stats->pages_elsewhere)
        printf(", %" PRIu64 " ELSEWHERE", stats->pages_elsewhere);
    printf("; %" PRIu64 " MiB pinned, in %s pages\n", stats->pinned_bytes >> 20,
           server_staging_page_kind(stats));
    (void)fflush(stdout);
}

moiety_status server_staging_send(const struct server_staging *staging,
                                  CUdeviceptr to, const void *bytes,
                                  size_t size_bytes, unsigned stream)
{
    const struct server_device *device = staging->device;
    CUstream on = device->streams[stream];
    void *buffer;
    moiety_status status = moiety_host_alloc(
        staging->arena, size_bytes,
        staging->kind == SERVER_STAGING_PLANTED ? on : MOIETY_HOST_CPU,
        &buffer);
    if (status != MOIETY_OK)
        return status;
    memcpy(buffer, bytes, size_bytes);
    status = MOIETYI_CALL(device->driver, cuMemcpyHtoDAsync,
                          (to, buffer, size_bytes, on));
    /* Not waited for: the arena knows when the copy is over. */
    moiety_status freed = moiety_host_free(staging->arena, buffer, on);
    return status != MOIETY_OK ? status : freed;
}

moiety_status server_staging_expect(const struct server_staging *staging,
                                    size_t size_bytes, unsigned stream,
                                    void **out)
{
    return moiety_host_alloc(staging->arena, size_bytes,
                             staging->device->streams[stream], out);
}

moiety_status server_staging_end(const struct server_staging *staging,
                                 void *address, unsigned stream, bool is_over)
{
    return moiety_host_free(staging->arena, address,
                            is_over ? MOIETY_STREAM_DONE
                                    : staging->device->streams[stream]);
}

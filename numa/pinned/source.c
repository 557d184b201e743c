/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of the source, and the records of what it gave. No lock is held
 * while the kernel or the driver works, but for a word about children.
 */
#include "numa/pinned/source.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numa/pinned/map.h"
#include "numa/pinned/pin_region.h"
#include "numa/pinned/register.h"
#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/segment/segment.h"

#define THREADS_BY_ITSELF 16U

struct record {
    struct record *next;
    struct moietyi_region region;
};

struct moietyi_pinned {
    /* Constant. */
    struct moietyi_context *own_context;
    struct moietyi_place place;
    uint32_t flags;
    uint32_t thread_max;
    bool is_foreign;
    size_t granularity_bytes;

    pthread_mutex_t lock;
    /* Under the lock. */
    struct record *live;
    struct record *refused; /* the pool never had them, the driver keeps them */
    bool is_for_children;
    moiety_host_stats stats;
    char reason[MOIETYI_REASON_BYTES];
};

static _Thread_local struct moietyi_progress *progress;

void moietyi_pinned_report_to(struct moietyi_progress *to)
{
    progress = to;
}

/* Lock held. `sign` is 1 for a region that was added, and -1 (mod 2^64) for one
 * that was removed. */
static void count(moiety_host_stats *stats, const struct moietyi_region *region,
                  uint64_t sign)
{
    size_t page_bytes = moietyi_page_bytes(MOIETYI_PAGES_SMALL);
    stats->pinned_bytes += sign * region->size_bytes;
    stats->region_count += sign;
    stats->pages_asked += sign * (region->size_bytes / page_bytes);
    stats->pages_near += sign * region->pages_near;
    stats->pages_elsewhere += sign * region->pages_elsewhere;
    stats->page_kind_bytes[region->pages] += sign * region->size_bytes;
}

/* Lock held. For memory that the driver allocated, the driver decides what a
 * child has. */
static void open_to_children(const struct moietyi_region *region)
{
    if (region->pages != MOIETYI_PAGES_DRIVER)
        moietyi_let_children_have(region->base, region->size_bytes);
}

static void source_push(struct record **list, struct record *record)
{
    record->next = *list;
    *list = record;
}

static void source_publish(struct moietyi_pinned *pinned, struct record *record)
{
    moiety_host_stats *stats = &pinned->stats;
    const struct moietyi_region *region = &record->region;
    pthread_mutex_lock(&pinned->lock);
    if (pinned->is_for_children)
        open_to_children(region);
    source_push(&pinned->live, record);
    count(stats, region, 1);
    for (int i = 0; i < MOIETY_HOST_STAGE_COUNT; i++)
        stats->stage_ns[i] += region->stage_ns[i];
    if (region->thread_count > stats->touch_threads)
        stats->touch_threads = region->thread_count;
    pthread_mutex_unlock(&pinned->lock);
    if (progress)
        progress->done_bytes += region->size_bytes;
}

/* Unregistered, or gone with its process or driver. */
static bool source_is_gone(moiety_status status)
{
    return status == MOIETY_OK || status == MOIETY_E_FORKED ||
           status == MOIETY_E_DEINITIALIZED;
}

/* Undoes a region that failed halfway. What the driver refuses to unregister
 * now is tried again later. */
static void source_abandon(struct moietyi_pinned *pinned, struct record *record)
{
    /* The message stays the failure's. */
    struct moietyi_failure kept;
    moietyi_failure_keep(&kept);
    moiety_status status =
        moietyi_unregister(pinned->own_context, &record->region);
    moietyi_failure_restore(&kept);
    if (source_is_gone(status)) {
        free(record);
        return;
    }
    pthread_mutex_lock(&pinned->lock);
    source_push(&pinned->refused, record);
    pinned->stats.unreleased_count++;
    pthread_mutex_unlock(&pinned->lock);
}

static void retry_refused(struct moietyi_pinned *pinned)
{
    pthread_mutex_lock(&pinned->lock);
    struct record *refused = pinned->refused;
    pinned->refused = NULL;
    pinned->stats.unreleased_count = 0;
    pthread_mutex_unlock(&pinned->lock);
    while (refused) {
        struct record *record = refused;
        refused = record->next;
        source_abandon(pinned, record);
    }
}

/* Also of a region that failed. */
static void note_fallbacks(struct moietyi_pinned *pinned,
                           const struct moietyi_region *region)
{
    if (!region->fallbacks)
        return;
    pthread_mutex_lock(&pinned->lock);
    bool is_new = (region->fallbacks & ~pinned->stats.fallbacks) != 0;
    pinned->stats.fallbacks |= region->fallbacks;
    memcpy(pinned->reason, region->reason, sizeof(pinned->reason));
    pthread_mutex_unlock(&pinned->lock);
    if (is_new)
        moietyi_log(MOIETY_LOG_WARNING,
                    "a host arena does without (fallbacks 0x%x): %s",
                    region->fallbacks, region->reason);
}

/* hwloc's bindings succeeded, and did nothing. */
static void note_foreign(struct moietyi_region *region)
{
    region->fallbacks |= MOIETY_HOST_FELL_TO_UNBOUND;
    (void)snprintf(region->reason, sizeof(region->reason),
                   "the topology is not this machine's");
}

static moiety_status source_make(struct moietyi_pinned *pinned,
                                 struct moietyi_region *region)
{
    const struct moietyi_pin_request request = {
        .own_context = pinned->own_context,
        .place = &pinned->place,
        .flags = pinned->flags,
        .thread_max = progress && progress->thread_count
                          ? progress->thread_count
                          : pinned->thread_max,
        .progress = progress,
    };
    moiety_status status = moietyi_make_region(&request, region);
    if (pinned->is_foreign)
        note_foreign(region);
    note_fallbacks(pinned, region);
    return status;
}

/* The driver would not register it now either. */
static enum moietyi_pages first_pages(struct moietyi_pinned *pinned)
{
    uint32_t flags = pinned->flags;
    pthread_mutex_lock(&pinned->lock);
    bool is_refused =
        (pinned->stats.fallbacks & MOIETY_HOST_FELL_TO_DRIVER) != 0;
    pthread_mutex_unlock(&pinned->lock);
    if (is_refused || flags & MOIETY_HOST_WRITE_COMBINED)
        return MOIETYI_PAGES_DRIVER;
    if (flags & MOIETY_HOST_HUGE_1GIB)
        return MOIETYI_PAGES_1GIB;
    return flags & MOIETY_HOST_HUGE_2MIB ? MOIETYI_PAGES_2MIB
                                         : MOIETYI_PAGES_TRANSPARENT;
}

static moiety_status source_reserve(void *context, size_t size_bytes,
                                    moiety_devptr *out)
{
    struct moietyi_pinned *pinned = context;
    struct record *record = calloc(1, sizeof(*record));
    if (!record)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the record of pinned memory");
    retry_refused(pinned);
    record->region.size_bytes = size_bytes;
    record->region.pages = first_pages(pinned);
    moiety_status status = source_make(pinned, &record->region);
    if (status != MOIETY_OK) {
        source_abandon(pinned, record);
        return status;
    }
    *out = (moiety_devptr)(uintptr_t)record->region.base;
    source_publish(pinned, record);
    return MOIETY_OK;
}

/* Lock held. */
static struct record **source_find(struct moietyi_pinned *pinned,
                                   uintptr_t address)
{
    struct record **at = &pinned->live;
    while (*at &&
           address - (uintptr_t)(*at)->region.base >= (*at)->region.size_bytes)
        at = &(*at)->next;
    return at;
}

static struct record *source_withdraw(struct moietyi_pinned *pinned,
                                      moiety_devptr address)
{
    pthread_mutex_lock(&pinned->lock);
    struct record **at = source_find(pinned, (uintptr_t)address);
    struct record *record = *at;
    if (record) {
        *at = record->next;
        count(&pinned->stats, &record->region, UINT64_MAX);
    }
    pthread_mutex_unlock(&pinned->lock);
    return record;
}

static moiety_status source_release(void *context, moiety_devptr address,
                                    size_t size_bytes)
{
    struct moietyi_pinned *pinned = context;
    struct record *record = source_withdraw(pinned, address);
    if (!record)
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "0x%llx, %zu bytes: not memory of this source",
                            address, size_bytes);
    moiety_status status =
        moietyi_unregister(pinned->own_context, &record->region);
    if (source_is_gone(status)) {
        free(record);
        return status;
    }
    pthread_mutex_lock(&pinned->lock);
    source_push(&pinned->live, record);
    count(&pinned->stats, &record->region, 1);
    pthread_mutex_unlock(&pinned->lock);
    return status;
}

moiety_source moietyi_pinned_source(struct moietyi_pinned *pinned)
{
    return (moiety_source){
        .struct_size = sizeof(moiety_source),
        .flags = MOIETY_SOURCE_PINNED | MOIETYI_SOURCE_EXPLAINS,
        .name = "pinned host memory",
        .context = pinned,
        .reserve = source_reserve,
        .release = source_release,
        .granularity_bytes = pinned->granularity_bytes,
    };
}

static bool make_place(struct moietyi_place *place,
                       const struct moietyi_pinned_options *options)
{
    place->topology = options->topology;
    place->is_interleaved = options->is_interleaved;
    place->is_strict = (options->flags & MOIETY_HOST_STRICT) != 0;
    place->nodes = hwloc_bitmap_alloc();
    place->cpus = hwloc_bitmap_alloc();
    if (!place->nodes || !place->cpus)
        return false;
    for (unsigned node = 0; node < MOIETYI_NODES_MAX; node++)
        if (moietyi_nodeset_has(&options->nodes, node) &&
            hwloc_bitmap_set(place->nodes, node) != 0)
            return false;
    hwloc_cpuset_from_nodeset(place->topology, place->cpus, place->nodes);
    return hwloc_bitmap_and(
               place->cpus, place->cpus,
               hwloc_topology_get_allowed_cpuset(place->topology)) == 0;
}

/* If the nodes have no CPUs, any CPU will do. */
static uint32_t count_threads(const struct moietyi_place *place)
{
    int cpus = hwloc_bitmap_weight(
        hwloc_bitmap_iszero(place->cpus)
            ? hwloc_topology_get_allowed_cpuset(place->topology)
            : place->cpus);
    if (cpus < 1)
        return 1;
    return (unsigned)cpus < THREADS_BY_ITSELF ? (uint32_t)cpus
                                              : THREADS_BY_ITSELF;
}

moiety_status
moietyi_pinned_create(const struct moietyi_pinned_options *options,
                      struct moietyi_pinned **out)
{
    struct moietyi_pinned *pinned = calloc(1, sizeof(*pinned));
    if (!pinned || !make_place(&pinned->place, options) ||
        pthread_mutex_init(&pinned->lock, NULL) != 0) {
        if (pinned) {
            hwloc_bitmap_free(pinned->place.nodes);
            hwloc_bitmap_free(pinned->place.cpus);
        }
        free(pinned);
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a source of pinned memory");
    }
    pinned->own_context = options->own_context;
    pinned->flags = options->flags;
    pinned->is_foreign = options->is_foreign;
    pinned->thread_max = options->thread_max ? options->thread_max
                                             : count_threads(&pinned->place);
    if (options->flags & MOIETY_HOST_HUGE_1GIB)
        pinned->granularity_bytes = (size_t)1 << 30;
    memcpy(pinned->stats.nodes, options->nodes.words,
           sizeof(pinned->stats.nodes));
    *out = pinned;
    return MOIETY_OK;
}

void moietyi_pinned_destroy(struct moietyi_pinned *pinned)
{
    if (!pinned)
        return;
    retry_refused(pinned);
    (void)pthread_mutex_destroy(&pinned->lock);
    hwloc_bitmap_free(pinned->place.nodes);
    hwloc_bitmap_free(pinned->place.cpus);
    while (pinned->refused) {
        struct record *lost = pinned->refused;
        pinned->refused = lost->next;
        free(lost);
    }
    free(pinned);
}

void moietyi_pinned_stats(struct moietyi_pinned *pinned, moiety_host_stats *out)
{
    pthread_mutex_lock(&pinned->lock);
    *out = pinned->stats;
    pthread_mutex_unlock(&pinned->lock);
    out->struct_size = sizeof(*out);
}

moiety_status moietyi_pinned_device_address(struct moietyi_pinned *pinned,
                                            const void *address,
                                            moiety_devptr *out)
{
    uintptr_t at = (uintptr_t)address;
    pthread_mutex_lock(&pinned->lock);
    const struct record *record = *source_find(pinned, at);
    if (record)
        *out = record->region.device_address +
               (at - (uintptr_t)record->region.base);
    pthread_mutex_unlock(&pinned->lock);
    return record ? MOIETY_OK
                  : moietyi_fail(MOIETY_E_FOREIGN,
                                 "%p: not memory of this arena", address);
}

void moietyi_pinned_open_to_children(struct moietyi_pinned *pinned)
{
    pthread_mutex_lock(&pinned->lock);
    pinned->is_for_children = true;
    for (const struct record *at = pinned->live; at; at = at->next)
        open_to_children(&at->region);
    pthread_mutex_unlock(&pinned->lock);
}

void moietyi_pinned_reason(struct moietyi_pinned *pinned, char *out,
                           size_t size_bytes)
{
    pthread_mutex_lock(&pinned->lock);
    (void)snprintf(out, size_bytes, "%s", pinned->reason);
    pthread_mutex_unlock(&pinned->lock);
}

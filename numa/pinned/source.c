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

#include "numa/pinned/headroom.h"
#include "numa/pinned/map.h"
#include "numa/pinned/pin_region.h"
#include "numa/pinned/register.h"
#include "numa/pinned/shortage.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/segment/segment.h"

/* More touch no sooner, and the driver registers more slowly beside them. */
#define THREADS_BY_ITSELF 8U
/* Of registrations, to know how long the next takes. */
#define RECENT_COUNT 8U
/* The driver's lock is not fair: a thread that registers again at once keeps all
 * others out. */
#define PAUSE_NS UINT64_C(200000)
#define LIVE_LEAST 16U

struct record {
    struct record *next; /* of those that were refused */
    struct moietyi_region region;
};

/* Live records by address. Each record that may come to be there has its place. */
struct live {
    struct record **at;
    size_t count;
    size_t coming_count;
    size_t capacity;
};

struct recent {
    uint64_t bytes;
    uint64_t ns;
};

struct moietyi_pinned {
    /* Constant. */
    struct moietyi_context *own_context;
    struct moietyi_place place;
    uint32_t flags;
    uint32_t thread_max;
    bool is_foreign;
    size_t granularity_bytes;
    /* Edge: none; relaxed, a number. */
    const moietyi_atomic_word *cancels;

    pthread_mutex_t lock;
    /* Under the lock. */
    struct live live;
    struct recent recent[RECENT_COUNT];
    unsigned recent_next;
    struct record *refused; /* the pool never had them, the driver keeps them */
    struct moietyi_shortage shortage;
    uint64_t release_count;
    bool is_for_children;
    moiety_host_stats stats;
    char reason[MOIETYI_REASON_BYTES];
};

static _Thread_local struct moietyi_reserve *own_reserve;

/* The calling thread's of this source, or NULL. A function that the reserve calls
 * allocates without it. */
static struct moietyi_reserve *reserve_of(const struct moietyi_pinned *pinned)
{
    struct moietyi_reserve *reserve = own_reserve;
    return reserve && reserve->pinned == pinned && !reserve->progress.is_telling
               ? reserve
               : NULL;
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

/* Lock held. How many live records begin at `address` or below it. */
static size_t live_count_below(const struct live *live, uintptr_t address)
{
    size_t low = 0;
    size_t high = live->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)live->at[middle]->region.base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Lock held. In the place that it has. */
static void live_add(struct live *live, struct record *record)
{
    size_t index = live_count_below(live, (uintptr_t)record->region.base);
    memmove(&live->at[index + 1], &live->at[index],
            (live->count - index) * sizeof(struct record *));
    live->at[index] = record;
    live->count++;
    live->coming_count--;
}

/* Lock held. The record that has the address, or NULL. */
static struct record *live_find(const struct live *live, uintptr_t address)
{
    size_t index = live_count_below(live, address);
    struct record *record = index ? live->at[index - 1] : NULL;
    return record && address - (uintptr_t)record->region.base <
                         record->region.size_bytes
               ? record
               : NULL;
}

/* Lock held. It keeps its place. */
static void live_remove(struct live *live, const struct record *record)
{
    size_t end = live_count_below(live, (uintptr_t)record->region.base);
    memmove(&live->at[end - 1], &live->at[end],
            (live->count - end) * sizeof(struct record *));
    live->count--;
    live->coming_count++;
}

static void live_drop_place(struct moietyi_pinned *pinned)
{
    pthread_mutex_lock(&pinned->lock);
    pinned->live.coming_count--;
    pthread_mutex_unlock(&pinned->lock);
}

/* Lock held. Moves to a larger table, and returns the one to free. */
static struct record **live_move(struct live *live, struct record **to,
                                 size_t capacity)
{
    struct record **from = live->at;
    if (live->count)
        memcpy(to, from, live->count * sizeof(struct record *));
    live->at = to;
    live->capacity = capacity;
    return from;
}

/* A place for a record that is to come. False: no memory. */
static bool live_make_place(struct moietyi_pinned *pinned)
{
    struct live *live = &pinned->live;
    struct record **spare = NULL;
    size_t capacity = 0;
    for (;;) {
        pthread_mutex_lock(&pinned->lock);
        size_t wanted = live->count + live->coming_count + 1;
        if (wanted > live->capacity && wanted <= capacity)
            spare = live_move(live, spare, capacity);
        bool has_place = wanted <= live->capacity;
        live->coming_count += has_place;
        pthread_mutex_unlock(&pinned->lock);
        free(spare);
        if (has_place)
            return true;
        capacity = wanted < LIVE_LEAST ? LIVE_LEAST : 2 * wanted;
        spare = malloc(capacity * sizeof(struct record *));
        if (!spare)
            return false;
    }
}

/* Lock held. */
static void source_note_time(struct moietyi_pinned *pinned,
                             const struct moietyi_region *region)
{
    pinned->recent[pinned->recent_next++ % RECENT_COUNT] = (struct recent){
        region->size_bytes, region->stage_ns[MOIETY_HOST_STAGE_REGISTER]};
}

static void source_publish(struct moietyi_pinned *pinned, struct record *record,
                           struct moietyi_progress *progress)
{
    moiety_host_stats *stats = &pinned->stats;
    const struct moietyi_region *region = &record->region;
    uint64_t size_bytes = region->size_bytes;
    pthread_mutex_lock(&pinned->lock);
    if (pinned->is_for_children)
        open_to_children(region);
    live_add(&pinned->live, record);
    count(stats, region, 1);
    moietyi_shortage_forget(&pinned->shortage, size_bytes);
    source_note_time(pinned, region);
    for (int i = 0; i < MOIETY_HOST_STAGE_COUNT; i++)
        stats->stage_ns[i] += region->stage_ns[i];
    if (region->thread_count > stats->touch_threads)
        stats->touch_threads = region->thread_count;
    pthread_mutex_unlock(&pinned->lock);
    progress->done_bytes += size_bytes;
}

/* Unregistered, or gone with its process or driver. */
static bool source_is_gone(moiety_status status)
{
    return status == MOIETY_OK || status == MOIETY_E_FORKED ||
           status == MOIETY_E_DEINITIALIZED;
}

/* Undoes a region that failed halfway. False: the driver refuses to unregister it
 * now, and it is tried again later. */
static bool source_abandon(struct moietyi_pinned *pinned, struct record *record)
{
    /* The message stays the failure's. */
    struct moietyi_failure kept;
    moietyi_failure_keep(&kept);
    moiety_status status =
        moietyi_unregister(pinned->own_context, &record->region);
    moietyi_failure_restore(&kept);
    if (source_is_gone(status)) {
        free(record);
        return true;
    }
    pthread_mutex_lock(&pinned->lock);
    source_push(&pinned->refused, record);
    pinned->stats.unreleased_count++;
    pthread_mutex_unlock(&pinned->lock);
    return false;
}

/* Memory was given back: there is some again. */
static void source_end_shortage(struct moietyi_pinned *pinned)
{
    pthread_mutex_lock(&pinned->lock);
    pinned->release_count++;
    moietyi_shortage_forget(&pinned->shortage, UINT64_MAX);
    pthread_mutex_unlock(&pinned->lock);
}

static void retry_refused(struct moietyi_pinned *pinned)
{
    pthread_mutex_lock(&pinned->lock);
    struct record *refused = pinned->refused;
    pinned->refused = NULL;
    pinned->stats.unreleased_count = 0;
    pthread_mutex_unlock(&pinned->lock);
    bool is_some_back = false;
    while (refused) {
        struct record *record = refused;
        refused = record->next;
        is_some_back |= source_abandon(pinned, record);
    }
    if (is_some_back)
        source_end_shortage(pinned);
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

static struct moietyi_pin_request
source_request(const struct moietyi_pinned *pinned,
               struct moietyi_progress *progress, struct moietyi_runway *runway)
{
    return (struct moietyi_pin_request){
        .own_context = pinned->own_context,
        .place = &pinned->place,
        .flags = pinned->flags,
        .thread_max = progress->thread_count ? progress->thread_count
                                             : pinned->thread_max,
        .progress = progress,
        .runway = runway,
    };
}

static moiety_status source_make(struct moietyi_pinned *pinned,
                                 struct moietyi_region *region,
                                 struct moietyi_progress *progress)
{
    struct moietyi_reserve *reserve = reserve_of(pinned);
    const struct moietyi_pin_request request =
        source_request(pinned, progress, reserve ? &reserve->runway : NULL);
    moiety_status status = moietyi_make_region(&request, region);
    if (pinned->is_foreign)
        note_foreign(region);
    note_fallbacks(pinned, region);
    if (reserve)
        reserve->pinned_at_ns = moietyi_now_ns();
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
    if (is_refused ||
        flags & (MOIETY_HOST_WRITE_COMBINED | MOIETY_HOST_BY_DRIVER))
        return MOIETYI_PAGES_DRIVER;
    if (flags & MOIETY_HOST_HUGE_1GIB)
        return MOIETYI_PAGES_1GIB;
    return flags & MOIETY_HOST_HUGE_2MIB ? MOIETYI_PAGES_2MIB
                                         : MOIETYI_PAGES_TRANSPARENT;
}

/* Not if memory was given back since `releases` was counted. */
static void source_note_shortage(struct moietyi_pinned *pinned,
                                 const struct moietyi_region *region,
                                 uint64_t releases)
{
    pthread_mutex_lock(&pinned->lock);
    if (releases == pinned->release_count)
        moietyi_shortage_note(&pinned->shortage, region->size_bytes);
    pthread_mutex_unlock(&pinned->lock);
}

/* Of a miss. */
static moiety_status source_check_shortage(struct moietyi_pinned *pinned,
                                           size_t size_bytes,
                                           uint64_t *out_releases)
{
    char reason[MOIETYI_REASON_BYTES] = "";
    pthread_mutex_lock(&pinned->lock);
    *out_releases = pinned->release_count;
    bool is_refused = moietyi_shortage_covers(&pinned->shortage, size_bytes);
    if (is_refused)
        memcpy(reason, pinned->shortage.reason, sizeof(reason));
    pthread_mutex_unlock(&pinned->lock);
    return is_refused ? moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                                     "a moment ago: %s", reason)
                      : MOIETY_OK;
}

static moiety_status source_refuse_record(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for the record of pinned memory");
}

/* Of pinned memory that this thread is about to have; the record has a place. */
static moiety_status source_fill(struct moietyi_pinned *pinned,
                                 struct record *record,
                                 struct moietyi_progress *progress)
{
    moiety_status status = source_make(pinned, &record->region, progress);
    if (status != MOIETY_OK)
        return status;
    source_publish(pinned, record, progress);
    moietyi_progress_tick(progress, 0);
    return MOIETY_OK;
}

static moiety_status source_fill_for_miss(struct moietyi_pinned *pinned,
                                          struct record *record)
{
    struct moietyi_progress alone = {.report = NULL};
    const struct moietyi_region *region = &record->region;
    uint64_t releases;
    moiety_status status =
        source_check_shortage(pinned, region->size_bytes, &releases);
    if (status != MOIETY_OK)
        return status;
    moietyi_progress_begin(&alone, pinned->cancels);
    status = source_fill(pinned, record, &alone);
    if (status == MOIETY_E_NO_PINNED_MEMORY && region->is_asked_for)
        source_note_shortage(pinned, region, releases);
    return status;
}

static moiety_status source_reserve(void *context, size_t size_bytes,
                                    moiety_devptr *out)
{
    struct moietyi_pinned *pinned = context;
    retry_refused(pinned);
    struct record *record = calloc(1, sizeof(*record));
    if (!record)
        return source_refuse_record();
    if (!live_make_place(pinned)) {
        free(record);
        return source_refuse_record();
    }
    record->region.size_bytes = size_bytes;
    record->region.pages = first_pages(pinned);
    struct moietyi_reserve *reserve = reserve_of(pinned);
    moiety_status status = reserve
                               ? source_fill(pinned, record, &reserve->progress)
                               : source_fill_for_miss(pinned, record);
    if (status == MOIETY_OK) {
        *out = (moiety_devptr)(uintptr_t)record->region.base;
    } else {
        live_drop_place(pinned);
        (void)source_abandon(pinned, record);
    }
    return status;
}

static struct record *source_withdraw(struct moietyi_pinned *pinned,
                                      moiety_devptr address)
{
    pthread_mutex_lock(&pinned->lock);
    struct record *record = live_find(&pinned->live, (uintptr_t)address);
    if (record) {
        live_remove(&pinned->live, record);
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
        live_drop_place(pinned);
        source_end_shortage(pinned);
        free(record);
        return status;
    }
    pthread_mutex_lock(&pinned->lock);
    live_add(&pinned->live, record);
    count(&pinned->stats, &record->region, 1);
    pthread_mutex_unlock(&pinned->lock);
    return status;
}

moiety_status moietyi_pinned_reserve_begin(struct moietyi_pinned *pinned,
                                           struct moietyi_reserve *reserve,
                                           size_t size_bytes)
{
    enum moietyi_pages pages = first_pages(pinned);
    struct moietyi_progress *progress = &reserve->progress;
    moiety_status status = MOIETY_OK;
    reserve->pinned = pinned;
    reserve->pinned_at_ns = 0;
    reserve->runway.whole.base = NULL;
    progress->is_reserve = true;
    if (!moietyi_pages_are_set_aside(pages))
        status = moietyi_headroom_check(&pinned->place, size_bytes,
                                        pinned->place.is_strict);
    if (status == MOIETY_OK && pages != MOIETYI_PAGES_DRIVER && size_bytes) {
        const struct moietyi_pin_request request =
            source_request(pinned, progress, &reserve->runway);
        status =
            moietyi_runway_open(&reserve->runway, &request, pages, size_bytes);
    }
    /* No addresses for all, or no pages set aside: region by region there may
     * be. */
    if (status == MOIETY_E_NO_HOST_MEMORY || moietyi_pages_are_set_aside(pages))
        status = MOIETY_OK;
    if (status != MOIETY_OK)
        return status;
    reserve->outer = own_reserve;
    own_reserve = reserve;
    return MOIETY_OK;
}

moiety_status moietyi_pinned_reserve_await(struct moietyi_reserve *reserve,
                                           size_t size_bytes)
{
    struct moietyi_progress *progress = &reserve->progress;
    struct moietyi_runway *runway = &reserve->runway;
    moiety_status status = MOIETY_OK;
    moietyi_progress_tick(progress, 0);
    if (moietyi_progress_is_over(progress))
        return moietyi_progress_refuse(progress);
    if (moietyi_runway_has(runway, size_bytes))
        status = moietyi_runway_await(runway, size_bytes, progress);
    uint64_t since_ns = moietyi_now_ns() - reserve->pinned_at_ns;
    if (status == MOIETY_OK && since_ns < PAUSE_NS)
        moietyi_nap((long)(PAUSE_NS - since_ns));
    return status;
}

void moietyi_pinned_reserve_end(struct moietyi_reserve *reserve)
{
    moietyi_runway_close(&reserve->runway);
    /* Pages that were touched ahead are free again. */
    source_end_shortage(reserve->pinned);
    own_reserve = reserve->outer;
}

uint64_t moietyi_pinned_bytes_in(struct moietyi_pinned *pinned, uint64_t ns)
{
    struct recent sum = {0};
    pthread_mutex_lock(&pinned->lock);
    for (unsigned i = 0; i < RECENT_COUNT; i++) {
        sum.bytes += pinned->recent[i].bytes;
        sum.ns += pinned->recent[i].ns;
    }
    pthread_mutex_unlock(&pinned->lock);
    return sum.ns ? (uint64_t)((double)sum.bytes / (double)sum.ns * (double)ns)
                  : UINT64_MAX;
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
    pinned->cancels = options->cancels;
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
    free(pinned->live.at);
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
    const struct record *record = live_find(&pinned->live, at);
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
    for (size_t i = 0; i < pinned->live.count; i++)
        open_to_children(&pinned->live.at[i]->region);
    pthread_mutex_unlock(&pinned->lock);
}

void moietyi_pinned_reason(struct moietyi_pinned *pinned, char *out,
                           size_t size_bytes)
{
    pthread_mutex_lock(&pinned->lock);
    (void)snprintf(out, size_bytes, "%s", pinned->reason);
    pthread_mutex_unlock(&pinned->lock);
}

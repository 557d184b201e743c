/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Checked pools: their beginning and end, the list of all, and what was found.
 */
#include "pool/checked/checked.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/cache/cache.h"
#include "pool/checked/state.h"
#include "pool/driver/section.h"

/* How long a look at all waits for events that it recorded itself, which are over
 * at once where no work is left: longer than a device takes to say so. */
#define SETTLE_NS UINT64_C(20000000)
#define NAP_NS 10000L
#define NAP_MOST_NS 2000000L

/* All of them, for the names of foreign blocks' owners. Taken before a pool's
 * own lock. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct moietyi_checked *all;

static void enlist(struct moietyi_checked *checked)
{
    moietyi_lock(&all_lock);
    checked->next = all;
    all = checked;
    moietyi_unlock(&all_lock);
}

static void delist(struct moietyi_checked *checked)
{
    moietyi_lock(&all_lock);
    struct moietyi_checked **at = &all;
    while (*at && *at != checked)
        at = &(*at)->next;
    if (*at)
        *at = checked->next;
    moietyi_unlock(&all_lock);
}

static bool checked_has(struct moietyi_checked *checked, moiety_devptr address)
{
    pthread_mutex_lock(&checked->lock);
    const struct moietyi_block_record *record =
        moietyi_block_record_around(checked, address);
    bool is_its = record && record->state != MOIETYI_BLOCK_GONE;
    pthread_mutex_unlock(&checked->lock);
    return is_its;
}

const void *moietyi_checked_owner(const struct moietyi_checked *except,
                                  moiety_devptr address)
{
    const void *found = NULL;
    moietyi_lock(&all_lock);
    for (struct moietyi_checked *at = all; at && !found; at = at->next)
        if (at != except && checked_has(at, address))
            found = at->body->pool;
    moietyi_unlock(&all_lock);
    return found;
}

static moiety_status make_stream(struct moietyi_checked *checked)
{
    struct moietyi_pool_body *body = checked->body;
    struct moietyi_section section;
    moiety_status status = moietyi_context_enter(&body->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(body->driver, cuStreamCreate,
                          (&checked->stream, CU_STREAM_NON_BLOCKING));
    (void)moietyi_section_leave(&section);
    return status;
}

/* A refusal is tried once more, except for memory that went with its context.
 * No context need be current. */
static void end_stream(struct moietyi_checked *checked)
{
    const struct moietyi_driver *driver = checked->body->driver;
    if (checked->stream &&
        !moietyi_context_is_lost(&checked->body->own_context) &&
        driver->cuStreamDestroy(checked->stream) != CUDA_SUCCESS)
        (void)driver->cuStreamDestroy(checked->stream);
}

/* So that no finding has to load what backtrace() needs. */
static void load_backtrace(void)
{
    void *frame;
    (void)backtrace(&frame, 1);
}

moiety_status moietyi_checked_create(struct moietyi_pool_body *body,
                                     const moiety_source *source)
{
    struct moietyi_checked *checked = calloc(1, sizeof(*checked));
    if (!checked)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a pool");
    checked->body = body;
    checked->source = *source;
    checked->is_checked = moietyi_is_checked(body);
    checked->is_passing = moietyi_is_passing(body);
    checked->is_own_device = !body->options.source;
    pthread_mutex_init(&checked->lock, NULL);
    pthread_cond_init(&checked->answered, NULL);
    body->checked = checked;
    enlist(checked);
    if (!checked->is_checked)
        return MOIETY_OK;
    load_backtrace();
    return make_stream(checked);
}

/* A block that the program never freed. */
static void end_live(struct moietyi_checked *checked,
                     struct moietyi_block_record *record, bool is_at_rest,
                     moiety_leaks *leaks)
{
    uint32_t room = sizeof(leaks->addresses) / sizeof(leaks->addresses[0]);
    leaks->block_count++;
    leaks->bytes += record->size_bytes;
    if (leaks->address_count < room)
        leaks->addresses[leaks->address_count++] = record->address;
    moietyi_finding_leak(checked, record);
    if (is_at_rest && checked->is_checked)
        moietyi_block_record_look(checked, record);
    moiety_status status = moietyi_backing_give(checked, NULL, record);
    if (checked->end_status == MOIETY_OK)
        checked->end_status = status;
}

static void end_all(struct moietyi_checked *checked, bool is_at_rest,
                    moiety_leaks *leaks)
{
    checked->end_status = moietyi_quarantine_end(checked, is_at_rest);
    for (unsigned i = 0; i < MOIETYI_BLOCK_RECORD_BUCKETS; i++) {
        struct moietyi_block_record *record = checked->buckets[i];
        for (; record; record = record->next_in_bucket)
            if (record->state == MOIETYI_BLOCK_LIVE)
                end_live(checked, record, is_at_rest, leaks);
    }
}

void moietyi_checked_end(struct moietyi_pool_body *body, bool is_at_rest,
                         moiety_leaks *leaks)
{
    struct moietyi_checked *checked = body->checked;
    struct moietyi_section section;
    bool has_section =
        moietyi_context_enter(&body->own_context, &section) == MOIETY_OK;
    end_all(checked, is_at_rest && has_section, leaks);
    if (has_section)
        (void)moietyi_section_leave(&section);
}

moiety_status moietyi_checked_destroy(struct moietyi_checked *checked)
{
    if (!checked)
        return MOIETY_OK;
    moiety_status status = checked->end_status;
    delist(checked);
    end_stream(checked);
    moietyi_block_record_clear(checked);
    moietyi_streams_clear(checked);
    pthread_cond_destroy(&checked->answered);
    pthread_mutex_destroy(&checked->lock);
    free(checked);
    return status;
}

uint64_t moietyi_checked_sweep(struct moietyi_call *call)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    long nap_ns = NAP_NS;
    moietyi_quarantine_synchronise(call);
    uint64_t bytes = moietyi_quarantine_release(call, UINT64_MAX);
    uint64_t end_ns = moietyi_now_ns() + SETTLE_NS;
    while (moietyi_quarantine_is_any(checked) && moietyi_now_ns() < end_ns) {
        moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
        bytes += moietyi_quarantine_release(call, UINT64_MAX);
    }
    return checked->is_passing ? bytes : 0;
}

void moietyi_checked_fill(struct moietyi_call *call, moiety_pool_stats *stats)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    pthread_mutex_lock(&checked->lock);
    stats->allocation_allocated = checked->alloc_count;
    stats->allocation_freed = checked->free_count;
    stats->allocation_current = checked->alloc_count - checked->free_count;
    stats->allocated_bytes_allocated = checked->alloc_bytes;
    stats->allocated_bytes_freed = checked->free_bytes;
    stats->allocated_bytes_current = checked->alloc_bytes - checked->free_bytes;
    stats->allocated_bytes_peak = checked->live_peak_bytes;
    stats->requested_bytes_allocated = checked->alloc_bytes;
    stats->cache_hits = 0;
    stats->cache_misses = checked->alloc_count;
    stats->retiring_bytes += checked->held.bytes + checked->waiting.bytes;
    if (checked->is_passing) {
        stats->segment_allocated = checked->reserve_count;
        stats->segment_freed = checked->release_count;
        stats->segment_current =
            (uint32_t)(checked->reserve_count - checked->release_count);
        stats->reserved_bytes_current = checked->reserved_bytes;
        stats->reserved_bytes_peak = checked->peak_bytes;
    }
    pthread_mutex_unlock(&checked->lock);
}

void moietyi_checked_reset_peaks(struct moietyi_pool_body *body)
{
    struct moietyi_checked *checked = body->checked;
    moietyi_segments_reset_peak(body->segments);
    pthread_mutex_lock(&checked->lock);
    checked->peak_bytes = checked->reserved_bytes;
    checked->live_peak_bytes = checked->alloc_bytes - checked->free_bytes;
    pthread_mutex_unlock(&checked->lock);
}

static void read_counts(struct moietyi_checked *checked,
                        moiety_checked_counts *out)
{
    pthread_mutex_lock(&checked->lock);
    checked->counts.struct_size = sizeof(*out);
    checked->counts.held_blocks = checked->held.count + checked->waiting.count +
                                  checked->kept.count + checked->moving_count;
    checked->counts.held_bytes =
        checked->held.bytes + checked->waiting.bytes + checked->kept.bytes;
    *out = checked->counts;
    pthread_mutex_unlock(&checked->lock);
}

moiety_status moiety_pool_check(moiety_pool *pool, moiety_checked_counts *out)
{
    struct moietyi_call call;
    if (out && out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_pool_check: struct_size is %u, must be %zu "
                            "or more",
                            (unsigned)out->struct_size, sizeof(*out));
    }
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_checked *checked = pool->body->checked;
    if (!checked || !checked->is_checked) {
        moietyi_call_leave(&call);
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pool's mode is not a checked one");
    }
    (void)moietyi_checked_sweep(&call);
    if (out)
        read_counts(checked, out);
    moietyi_call_end(&call);
    return MOIETY_OK;
}

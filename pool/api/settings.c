/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a pool that lives, and changed in it: its options, its limit,
 * what it has reserved, and whose an address is.
 */
#include "pool/api/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "binade/pool.h"
#include "binade/stats.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/gate.h"
#include "pool/config/options.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/driver/section.h"
#include "pool/observe/told/told.h"
#include "pool/oom/others.h"

/* Offsets for so many times the limit: room beside segments that come and go,
 * and places that are waited for; tables of a few megabytes for a small limit. */
#define CAPACITY_SHARE 64U
/* A limit may grow to this part of the offsets. */
#define LIMIT_PART 4U

uint32_t binadei_page_capacity_of(uint64_t limit_bytes)
{
    uint64_t bytes = limit_bytes < BINADEI_CAPACITY_BYTES / CAPACITY_SHARE
                         ? limit_bytes * CAPACITY_SHARE
                         : BINADEI_CAPACITY_BYTES;
    return (uint32_t)(bytes / BINADEI_PAGE_BYTES);
}

static uint64_t limit_whole_pages(uint64_t bytes)
{
    return bytes / BINADEI_PAGE_BYTES * BINADEI_PAGE_BYTES;
}

binade_status binadei_limit_find(struct binadei_pool_body *body,
                                 uint64_t asked_bytes, uint64_t *out)
{
    struct binadei_section section;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    *out = limit_whole_pages(asked_bytes);
    if (!*out && body->options.source)
        *out = BINADEI_CAPACITY_BYTES;
    if (*out)
        return BINADE_OK;
    binade_status status = binadei_context_enter(&body->own_context, &section);
    if (status != BINADE_OK)
        return status;
    status =
        BINADEI_CALL(body->driver, cuMemGetInfo, (&free_bytes, &total_bytes));
    (void)binadei_section_leave(&section);
    *out = limit_whole_pages(total_bytes);
    return status;
}

static bool is_passing(const struct binadei_pool_body *body)
{
    return body->options.flags & BINADE_POOL_PASS_THROUGH;
}

static uint64_t most_limit_bytes(const struct binadei_pool_body *body)
{
    uint64_t bytes = (uint64_t)body->page_capacity * BINADEI_PAGE_BYTES;
    return bytes == BINADEI_CAPACITY_BYTES ? bytes : bytes / LIMIT_PART;
}

/* The source may work, and others must not wait for it on our account. */
static binade_status limit_change(struct binadei_call *call,
                                  uint64_t asked_bytes, uint64_t *out)
{
    struct binadei_pool_body *body = call->pool->body;
    binade_status status = binadei_limit_find(body, asked_bytes, out);
    if (status != BINADE_OK)
        return status;
    if (!asked_bytes && *out > most_limit_bytes(body))
        *out = most_limit_bytes(body);
    if (*out > most_limit_bytes(body)) {
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "a limit of %llu bytes: this pool's may be %llu at "
                            "most, 16 times that with which it was made",
                            (unsigned long long)*out,
                            (unsigned long long)most_limit_bytes(body));
    }
    binadei_slow_path_end(call->thread_state);
    binadei_segments_set_limit(body->segments, *out);
    binadei_slow_path_begin(call->thread_state);
    return BINADE_OK;
}

static uint64_t reserved_bytes_of(binade_pool *pool)
{
    binade_stats stats = {.struct_size = sizeof(stats)};
    return binade_pool_stats(pool, &stats) == BINADE_OK
               ? stats.reserved_bytes_current
               : 0;
}

binade_status binade_pool_set_limit(binade_pool *pool, uint64_t limit_bytes)
{
    struct binadei_call call;
    uint64_t bytes = 0;
    if (limit_bytes && limit_bytes < BINADEI_PAGE_BYTES) {
        return binadei_fail(BINADE_E_INVALID,
                            "a limit of %llu bytes; accepted are 0 and 2 MiB "
                            "at least",
                            (unsigned long long)limit_bytes);
    }
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = limit_change(&call, limit_bytes, &bytes);
    binadei_call_pass_gate(&call);
    binadei_call_end(&call);
    if (status == BINADE_OK && reserved_bytes_of(pool) > bytes)
        status = binade_pool_trim(pool, bytes, NULL);
    /* A segment that is larger than the rest goes as a whole. */
    if (status == BINADE_OK && reserved_bytes_of(pool) > bytes)
        status = binade_pool_trim(pool, 0, NULL);
    return status;
}

/* As growing does on the way out of memory: outside of slow paths, so that
 * nobody waits for the source on our account. */
static binade_status settings_reserve(struct binadei_call *call,
                                      uint64_t total_bytes)
{
    struct binadei_segments *segments = call->pool->body->segments;
    struct binadei_others others = {0};
    uint64_t refusals;
    binade_status status;
    do {
        refusals = binadei_segments_refusals(segments);
        binadei_slow_path_end(call->thread_state);
        status = binadei_segments_grow_to(segments, total_bytes);
        binadei_call_resume(call);
        binadei_call_pass_gate(call);
    } while (binadei_others_help(call, refusals, &others, &status));
    return status;
}

binade_status binade_pool_reserve(binade_pool *pool, uint64_t total_bytes)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    if (is_passing(pool->body)) {
        binadei_call_leave(&call);
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the pool passes all through: each block is a "
                            "reservation");
    }
    status = settings_reserve(&call, total_bytes);
    binadei_call_end(&call);
    return status;
}

binade_status binade_pool_reset_peaks(binade_pool *pool)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_slow_path_end(call.thread_state);
    pool->body->ops->reset_peaks(pool->body);
    binadei_slow_path_begin(call.thread_state);
    binadei_call_pass_gate(&call);
    binadei_call_end(&call);
    return BINADE_OK;
}

binade_status binade_pool_options_get(binade_pool *pool,
                                      binade_pool_options *out)
{
    struct binadei_call call;
    if (!out || out->struct_size < BINADEI_OPTIONS_BYTES_MIN) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_pool_options_get: out is NULL or its "
                            "struct_size below %zu",
                            BINADEI_OPTIONS_BYTES_MIN);
    }
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    struct binadei_pool_body *body = pool->body;
    binade_pool_options options = body->options;
    options.struct_size = out->struct_size < sizeof(options)
                              ? out->struct_size
                              : (uint32_t)sizeof(options);
    options.device = body->device;
    options.context = body->context;
    options.source = body->options.source ? &body->source : NULL;
    options.limit_bytes = binadei_limit_of(body);
    options.allocation_callbacks = binadei_told_callbacks(body->told);
    memcpy(out, &options, options.struct_size);
    binadei_call_leave(&call);
    return BINADE_OK;
}

/* --- whose an address is --- */

struct search {
    binade_devptr address;
    binade_pool *pool; /* looked at last; it may end at any time */
    bool has_segments;
    bool has_it;
};

static void search_look(const struct binadei_pool_body *body, void *context)
{
    struct search *search = context;
    binadei_grain grain;
    search->pool = body->pool;
    search->has_segments = !is_passing(body);
    search->has_it = binadei_grain_of(binadei_segments_lookup(body->segments),
                                      search->address, &grain);
}

/* Of a pool without segments, only where a block begins. */
static bool search_ends(struct search *search)
{
    size_t size_bytes;
    return search->has_segments
               ? search->has_it
               : binade_usable_size(search->pool, search->address,
                                    &size_bytes) == BINADE_OK;
}

binade_status binade_pool_of(binade_devptr address, binade_pool **out)
{
    struct search search = {.address = address};
    uint64_t id = 0;
    if (!out)
        return binadei_fail(BINADE_E_INVALID, "binade_pool_of: out is NULL");
    if (binadei_is_forked())
        return binadei_refuse_child();
    while ((id = binadei_exposed_look(id + 1, search_look, &search)) != 0) {
        if (search_ends(&search)) {
            *out = search.pool;
            return BINADE_OK;
        }
    }
    return binadei_fail(BINADE_E_FOREIGN,
                        "address 0x%llx is in no pool of this process",
                        (unsigned long long)address);
}

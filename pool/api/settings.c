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

#include "moiety/pool.h"
#include "moiety/stats.h"
#include "pool/base/clock.h"
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

uint32_t moietyi_page_capacity_of(uint64_t limit_bytes)
{
    uint64_t bytes = limit_bytes < MOIETYI_CAPACITY_BYTES / CAPACITY_SHARE
                         ? limit_bytes * CAPACITY_SHARE
                         : MOIETYI_CAPACITY_BYTES;
    return (uint32_t)(bytes / MOIETYI_PAGE_BYTES);
}

static uint64_t limit_whole_pages(uint64_t bytes)
{
    return bytes / MOIETYI_PAGE_BYTES * MOIETYI_PAGE_BYTES;
}

/* Some libraries between the program and the driver say 0, or a number below it as
 * one without a sign. */
static bool is_of_a_device(size_t total_bytes)
{
    return total_bytes >= MOIETYI_PAGE_BYTES &&
           total_bytes < MOIETYI_ADDRESS_END;
}

/* By the second way if the first one makes no sense. */
static moiety_status find_total(const struct moietyi_pool_body *body,
                                size_t *out)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    moiety_status status =
        MOIETYI_CALL(body->driver, cuMemGetInfo, (&free_bytes, &total_bytes));
    *out = total_bytes;
    if (status != MOIETY_OK || is_of_a_device(total_bytes))
        return status;
    status = MOIETYI_CALL(body->driver, cuDeviceTotalMem, (out, body->device));
    if (status != MOIETY_OK || is_of_a_device(*out))
        return status;
    return moietyi_fail(MOIETY_E_NO_DEVICE_MEMORY,
                        "the driver says that device %d has %zu bytes "
                        "(cuMemGetInfo), or %zu (cuDeviceTotalMem): give the "
                        "pool a limit",
                        body->device, total_bytes, *out);
}

moiety_status moietyi_limit_find(struct moietyi_pool_body *body,
                                 uint64_t asked_bytes, uint64_t *out)
{
    struct moietyi_section section;
    size_t total_bytes = 0;
    *out = limit_whole_pages(asked_bytes);
    if (!*out && body->options.source)
        *out = MOIETYI_CAPACITY_BYTES;
    if (*out)
        return MOIETY_OK;
    moiety_status status = moietyi_context_enter(&body->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = find_total(body, &total_bytes);
    (void)moietyi_section_leave(&section);
    *out = limit_whole_pages(total_bytes);
    if (status == MOIETY_OK && !*out) {
        status = moietyi_fail(MOIETY_E_NO_DEVICE_MEMORY,
                              "the driver says that the device has %zu bytes: "
                              "a pool on it needs a limit",
                              total_bytes);
    }
    return status;
}

static uint64_t most_limit_bytes(const struct moietyi_pool_body *body)
{
    uint64_t bytes = (uint64_t)body->page_capacity * MOIETYI_PAGE_BYTES;
    return bytes == MOIETYI_CAPACITY_BYTES ? bytes : bytes / LIMIT_PART;
}

/* The source may work, and others must not wait for it because of us. */
static moiety_status limit_change(struct moietyi_call *call,
                                  uint64_t asked_bytes, uint64_t *out)
{
    struct moietyi_pool_body *body = call->pool->body;
    moiety_status status = moietyi_limit_find(body, asked_bytes, out);
    if (status != MOIETY_OK)
        return status;
    if (!asked_bytes && *out > most_limit_bytes(body))
        *out = most_limit_bytes(body);
    if (*out > most_limit_bytes(body)) {
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "a limit of %llu bytes: this pool's may be %llu at "
                            "most, 16 times that with which it was made",
                            (unsigned long long)*out,
                            (unsigned long long)most_limit_bytes(body));
    }
    moietyi_slow_path_end(call->thread_state);
    moietyi_segments_set_limit(body->segments, *out);
    moietyi_slow_path_begin(call->thread_state);
    return MOIETY_OK;
}

static uint64_t reserved_bytes_of(moiety_pool *pool)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    return moiety_pool_get_stats(pool, &stats) == MOIETY_OK
               ? stats.reserved_bytes_current
               : 0;
}

moiety_status moiety_pool_set_limit(moiety_pool *pool, uint64_t limit_bytes)
{
    struct moietyi_call call;
    uint64_t bytes = 0;
    if (limit_bytes && limit_bytes < MOIETYI_PAGE_BYTES) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "a limit of %llu bytes; accepted are 0 and 2 MiB "
                            "at least",
                            (unsigned long long)limit_bytes);
    }
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = limit_change(&call, limit_bytes, &bytes);
    moietyi_call_pass_gate(&call);
    moietyi_call_end(&call);
    if (status == MOIETY_OK && reserved_bytes_of(pool) > bytes)
        status = moiety_pool_trim(pool, bytes, NULL);
    /* A segment that is larger than the rest goes as a whole. */
    if (status == MOIETY_OK && reserved_bytes_of(pool) > bytes)
        status = moiety_pool_trim(pool, 0, NULL);
    return status;
}

static uint64_t missing_bytes(const struct moietyi_segments *segments,
                              uint64_t total_bytes)
{
    uint64_t reserved_bytes = moietyi_segments_reserved_bytes(segments);
    return total_bytes > reserved_bytes ? total_bytes - reserved_bytes : 0;
}

/* Outside of slow paths, like growth, so that no thread waits for the source
 * because of us. */
static moiety_status settings_reserve(struct moietyi_call *call,
                                      uint64_t total_bytes)
{
    struct moietyi_segments *segments = call->pool->body->segments;
    struct moietyi_others others = {0};
    uint64_t end_ns = moietyi_now_ns() +
                      call->pool->body->options.wait_ms * UINT64_C(1000000);
    uint64_t refusals;
    moiety_status status;
    do {
        refusals = moietyi_segments_refusals(segments);
        moietyi_slow_path_end(call->thread_state);
        status = moietyi_segments_grow_to(segments, total_bytes);
        moietyi_call_resume(call);
        moietyi_call_pass_gate(call);
    } while (
        moietyi_others_help(call, refusals, &others, &status) ||
        (status == MOIETY_E_NO_DEVICE_MEMORY &&
         moietyi_others_await(call, &others,
                              missing_bytes(segments, total_bytes), end_ns)));
    return status;
}

moiety_status moiety_pool_reserve(moiety_pool *pool, uint64_t total_bytes)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    if (moietyi_is_passing(pool->body)) {
        moietyi_call_leave(&call);
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pool passes all through: each block is a "
                            "reservation");
    }
    status = settings_reserve(&call, total_bytes);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_pool_reset_peaks(moiety_pool *pool)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_slow_path_end(call.thread_state);
    pool->body->ops->reset_peaks(pool->body);
    moietyi_slow_path_begin(call.thread_state);
    moietyi_call_pass_gate(&call);
    moietyi_call_end(&call);
    return MOIETY_OK;
}

moiety_status moiety_pool_get_options(moiety_pool *pool,
                                      moiety_pool_options *out)
{
    struct moietyi_call call;
    if (!out || out->struct_size < MOIETYI_OPTIONS_BYTES_MIN) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_pool_get_options: out is NULL or its "
                            "struct_size below %zu",
                            MOIETYI_OPTIONS_BYTES_MIN);
    }
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_pool_body *body = pool->body;
    moiety_pool_options options = body->options;
    options.struct_size = out->struct_size < sizeof(options)
                              ? out->struct_size
                              : (uint32_t)sizeof(options);
    options.device = body->device;
    if (body->may_fall_back && !moietyi_segments_are_mapped(body->segments))
        options.memory = MOIETY_MEMORY_DRIVER;
    moietyi_options_say_none(&options);
    options.context = body->context;
    options.source = body->options.source ? &body->source : NULL;
    options.limit_bytes = moietyi_limit_of(body);
    options.allocation_callbacks = moietyi_told_callbacks(body->told);
    memcpy(out, &options, options.struct_size);
    moietyi_call_leave(&call);
    return MOIETY_OK;
}

/* --- the pool of an address --- */

struct search {
    moiety_devptr address;
    moiety_pool *pool; /* looked at last; it may end at any time */
    bool has_segments;
    bool has_it;
};

static void search_look(const struct moietyi_pool_body *body, void *context)
{
    struct search *search = context;
    moietyi_grain grain;
    search->pool = body->pool;
    search->has_segments = !moietyi_is_passing(body);
    search->has_it = moietyi_grain_of(moietyi_segments_lookup(body->segments),
                                      search->address, &grain);
}

/* If the pool has no segments, only where a block begins. */
static bool search_ends(struct search *search)
{
    size_t size_bytes;
    return search->has_segments
               ? search->has_it
               : moiety_usable_size(search->pool, search->address,
                                    &size_bytes) == MOIETY_OK;
}

moiety_status moiety_pool_of(moiety_devptr address, moiety_pool **out)
{
    struct search search = {.address = address};
    uint64_t id = 0;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_pool_of: out is NULL");
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    while ((id = moietyi_exposed_look(id + 1, search_look, &search)) != 0) {
        if (search_ends(&search)) {
            *out = search.pool;
            return MOIETY_OK;
        }
    }
    return moietyi_fail(MOIETY_E_FOREIGN,
                        "address 0x%llx is in no pool of this process",
                        (unsigned long long)address);
}

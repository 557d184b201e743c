/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/pin_region.h"

#include <stdio.h>

#include "numa/pinned/headroom.h"
#include "numa/pinned/map.h"
#include "numa/pinned/prefault.h"
#include "numa/pinned/register.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"

/* Addresses that the driver takes for somebody's registered memory, tried
 * before giving up. */
#define STALE_MAX 4U

/* Begins where the last stage ended. */
static void end_stage(struct binadei_region *region, int stage, uint64_t *since)
{
    uint64_t now = binadei_now_ns();
    region->stage_ns[stage] += now - *since;
    *since = now;
}

/* Why something is done without: the last failure's words. */
static void note_reason(struct binadei_region *region)
{
    (void)snprintf(region->reason, sizeof(region->reason), "%s",
                   binadei_failure_message());
}

static void pin_region_fall_back(struct binadei_region *region, uint32_t bit)
{
    region->fallbacks |= bit;
    note_reason(region);
}

/* Near is worth more than huge: pages set aside are taken from the nodes or not
 * at all. */
static binade_status pin_region_bind(const struct binadei_pin_request *request,
                                     struct binadei_region *region)
{
    const struct binadei_place *place = request->place;
    binade_status status = binadei_bind(
        region, place,
        place->is_strict || binadei_pages_are_set_aside(region->pages));
    if (status == BINADE_OK || place->is_strict)
        return status;
    pin_region_fall_back(region, BINADE_HOST_FELL_TO_UNBOUND);
    return BINADE_OK;
}

/* Mapped memory, with all its pages. */
static binade_status pin_region_fill(const struct binadei_pin_request *request,
                                     struct binadei_region *region)
{
    const struct binadei_place *place = request->place;
    uint64_t since = binadei_now_ns();
    binade_status status = pin_region_bind(request, region);
    end_stage(region, BINADE_HOST_STAGE_BIND, &since);
    /* Pages that were set aside are nobody else's. */
    if (status == BINADE_OK && !binadei_pages_are_set_aside(region->pages))
        status =
            binadei_headroom_check(place, region->size_bytes, place->is_strict);
    if (status == BINADE_OK)
        status = binadei_prefault(region, place, request->thread_max,
                                  request->progress);
    end_stage(region, BINADE_HOST_STAGE_TOUCH, &since);
    return status;
}

static binade_status try_pages(const struct binadei_pin_request *request,
                               struct binadei_region *region)
{
    uint64_t since = binadei_now_ns();
    binade_status status = binadei_map(region);
    end_stage(region, BINADE_HOST_STAGE_MAP, &since);
    if (status == BINADE_OK)
        status = pin_region_fill(request, region);
    if (status != BINADE_OK)
        binadei_unmap(region);
    return status;
}

/* From the largest pages that were asked for down to those that need no
 * asking. */
static binade_status
pin_region_obtain(const struct binadei_pin_request *request,
                  struct binadei_region *region)
{
    for (;;) {
        binade_status status = try_pages(request, region);
        if (status == BINADE_OK || request->place->is_strict ||
            !binadei_pages_are_set_aside(region->pages))
            return status;
        bool was_large = region->pages == BINADEI_PAGES_1GIB;
        region->pages =
            was_large ? BINADEI_PAGES_2MIB : BINADEI_PAGES_TRANSPARENT;
        pin_region_fall_back(region, was_large
                                         ? BINADE_HOST_FELL_TO_2MIB
                                         : BINADE_HOST_FELL_TO_TRANSPARENT);
    }
}

static binade_status register_timed(const struct binadei_pin_request *request,
                                    struct binadei_region *region)
{
    uint64_t since = binadei_now_ns();
    binade_status status =
        binadei_register(request->own_context, region,
                         (request->flags & BINADE_HOST_READ_ONLY) != 0);
    end_stage(region, BINADE_HOST_STAGE_REGISTER, &since);
    return status;
}

/* Somebody unmapped memory without unregistering it, and the kernel gave us its
 * address: that is kept until another was found. */
static binade_status
obtain_and_register(const struct binadei_pin_request *request,
                    struct binadei_region *region)
{
    struct binadei_region stale[STALE_MAX];
    unsigned stale_count = 0;
    binade_status status;
    for (;;) {
        status = pin_region_obtain(request, region);
        if (status != BINADE_OK)
            break;
        status = register_timed(request, region);
        if (status != BINADE_E_BUSY || region->is_pinned)
            break;
        stale[stale_count++] = *region;
        region->base = NULL;
        if (stale_count == STALE_MAX) {
            status = binadei_fail(BINADE_E_DRIVER,
                                  "cuMemHostRegister takes new memory for "
                                  "registered: some was unmapped before it was "
                                  "unregistered");
            break;
        }
    }
    while (stale_count)
        binadei_unmap(&stale[--stale_count]);
    return status;
}

/* The driver allocates, in this thread's name, so that the thread is bound. */
static binade_status obtain_combined(const struct binadei_pin_request *request,
                                     struct binadei_region *region)
{
    const struct binadei_place *place = request->place;
    struct binadei_thread_binding binding = {0};
    uint64_t since = binadei_now_ns();
    binade_status status =
        binadei_headroom_check(place, region->size_bytes, place->is_strict);
    if (status != BINADE_OK)
        return status;
    status = binadei_bind_thread(place, &binding);
    if (status != BINADE_OK && place->is_strict)
        return status;
    if (status != BINADE_OK)
        pin_region_fall_back(region, BINADE_HOST_FELL_TO_UNBOUND);
    end_stage(region, BINADE_HOST_STAGE_BIND, &since);
    status = binadei_register_combined(request->own_context, region);
    end_stage(region, BINADE_HOST_STAGE_REGISTER, &since);
    /* By this thread alone, as long as it is bound. */
    if (status == BINADE_OK)
        status = binadei_prefault(region, place, 0, request->progress);
    end_stage(region, BINADE_HOST_STAGE_TOUCH, &since);
    binadei_unbind_thread(place, &binding);
    return status;
}

/* The region is pinned and read back. */
static binade_status judge(const struct binadei_pin_request *request,
                           struct binadei_region *region)
{
    binade_status status = BINADE_OK;
    if (region->fallbacks & BINADE_HOST_FELL_TO_FEWER_THREADS)
        status = binadei_fail(BINADE_E_NO_HOST_MEMORY,
                              "threads that touch memory could not be started");
    if (region->fallbacks & BINADE_HOST_FELL_TO_UNVERIFIED)
        status = binadei_fail(BINADE_E_UNSUPPORTED,
                              "the kernel does not tell which node memory is "
                              "on; a container may forbid move_pages()");
    if (region->pages_elsewhere) {
        region->fallbacks |= BINADE_HOST_FELL_ELSEWHERE;
        status = binadei_fail(BINADE_E_NO_PINNED_MEMORY,
                              "%llu pages of a stretch of %zu bytes are not on "
                              "node %s",
                              (unsigned long long)region->pages_elsewhere,
                              region->size_bytes,
                              binadei_nodes_text(request->place).text);
    }
    if (status == BINADE_OK || request->place->is_strict)
        return status;
    note_reason(region);
    return BINADE_OK;
}

binade_status binadei_make_region(const struct binadei_pin_request *request,
                                  struct binadei_region *region)
{
    binade_status status = region->pages == BINADEI_PAGES_DRIVER
                               ? obtain_combined(request, region)
                               : obtain_and_register(request, region);
    if (status != BINADE_OK)
        return status;
    uint64_t since = binadei_now_ns();
    binadei_read_back(region, request->place);
    end_stage(region, BINADE_HOST_STAGE_READ_BACK, &since);
    return judge(request, region);
}

/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/pin_region.h"

#include "numa/pinned/headroom.h"
#include "numa/pinned/map.h"
#include "numa/pinned/prefault.h"
#include "numa/pinned/register.h"
#include "numa/pinned/runway.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"

/* Mappings to try if the driver has a registration of somebody else's at their
 * addresses. */
#define STALE_MAX 4U
/* Of the small pages of a runway one is asked for its node, unless the place is
 * strict. */
#define SAMPLE_STEP 64U

static moiety_status try_pages(const struct moietyi_pin_request *request,
                               struct moietyi_region *region)
{
    const struct moietyi_place *place = request->place;
    moiety_status status = moietyi_map_region(region, place);
    if (status != MOIETY_OK)
        return status;
    uint64_t since = moietyi_now_ns();
    region->is_asked_for = false;
    /* Pages that were set aside are nobody else's. */
    if (!moietyi_pages_are_set_aside(region->pages))
        status =
            moietyi_headroom_check(place, region->size_bytes, place->is_strict);
    if (status == MOIETY_OK) {
        region->is_asked_for = true;
        status = moietyi_prefault(region, place, request->thread_max,
                                  request->progress);
    }
    moietyi_end_stage(region, MOIETY_HOST_STAGE_TOUCH, &since);
    if (status != MOIETY_OK)
        moietyi_unmap(region);
    return status;
}

/* Tries the largest requested pages first, and at last those that are always
 * there. */
static moiety_status
pin_region_obtain(const struct moietyi_pin_request *request,
                  struct moietyi_region *region)
{
    for (;;) {
        moiety_status status = try_pages(request, region);
        if (status == MOIETY_OK || status == MOIETY_E_INTERRUPTED ||
            request->place->is_strict ||
            !moietyi_pages_are_set_aside(region->pages))
            return status;
        bool was_large = region->pages == MOIETYI_PAGES_1GIB;
        region->pages =
            was_large ? MOIETYI_PAGES_2MIB : MOIETYI_PAGES_TRANSPARENT;
        moietyi_fall_back(region, was_large ? MOIETY_HOST_FELL_TO_2MIB
                                            : MOIETY_HOST_FELL_TO_TRANSPARENT);
    }
}

static moiety_status register_timed(const struct moietyi_pin_request *request,
                                    struct moietyi_region *region)
{
    uint64_t since = moietyi_now_ns();
    moiety_status status =
        moietyi_register(request->own_context, region,
                         (request->flags & MOIETY_HOST_READ_ONLY) != 0);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_REGISTER, &since);
    return status;
}

/* Another library unmapped memory without unregistering it, and the kernel gave
 * us its address. We keep that mapping until we have found another. */
static moiety_status
obtain_and_register(const struct moietyi_pin_request *request,
                    struct moietyi_region *region)
{
    struct moietyi_region stale[STALE_MAX];
    unsigned stale_count = 0;
    moiety_status status;
    for (;;) {
        status = pin_region_obtain(request, region);
        if (status != MOIETY_OK)
            break;
        status = register_timed(request, region);
        if (status != MOIETY_E_IN_USE || region->is_pinned)
            break;
        stale[stale_count++] = *region;
        region->base = NULL;
        if (stale_count == STALE_MAX) {
            status = moietyi_fail(MOIETY_E_DRIVER,
                                  "cuMemHostRegister takes new memory for "
                                  "registered: some was unmapped before it was "
                                  "unregistered");
            break;
        }
    }
    while (stale_count)
        moietyi_unmap(&stale[--stale_count]);
    return status;
}

/* The driver allocates in this thread, so the thread is bound. */
static moiety_status allocate_bound(const struct moietyi_pin_request *request,
                                    struct moietyi_region *region)
{
    const struct moietyi_place *place = request->place;
    struct moietyi_thread_binding binding = {0};
    uint64_t since = moietyi_now_ns();
    region->is_asked_for = false;
    moiety_status status =
        moietyi_headroom_check(place, region->size_bytes, place->is_strict);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_bind_thread(place, &binding);
    if (status != MOIETY_OK && place->is_strict)
        return status;
    if (status != MOIETY_OK)
        moietyi_fall_back(region, MOIETY_HOST_FELL_TO_UNBOUND);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_BIND, &since);
    region->is_asked_for = true;
    status = moietyi_allocate_pinned(
        request->own_context, region,
        (request->flags & MOIETY_HOST_WRITE_COMBINED) != 0);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_REGISTER, &since);
    /* By this thread alone, as long as it is bound. */
    if (status == MOIETY_OK)
        status = moietyi_prefault(region, place, 0, request->progress);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_TOUCH, &since);
    moietyi_unbind_thread(place, &binding);
    return status;
}

/* The driver registers no memory, as with confidential computing. */
static bool is_register_refused(const struct moietyi_region *region,
                                moiety_status status)
{
    return status == MOIETY_E_UNSUPPORTED && region->base && !region->is_pinned;
}

static moiety_status obtain(const struct moietyi_pin_request *request,
                            struct moietyi_region *region)
{
    if (region->pages == MOIETYI_PAGES_DRIVER)
        return allocate_bound(request, region);
    moiety_status status = obtain_and_register(request, region);
    if (request->place->is_strict || !is_register_refused(region, status))
        return status;
    moietyi_fall_back(region, MOIETY_HOST_FELL_TO_DRIVER);
    moietyi_unmap(region);
    region->pages = MOIETYI_PAGES_DRIVER;
    return allocate_bound(request, region);
}

/* The region is pinned and read back. */
static moiety_status judge(const struct moietyi_pin_request *request,
                           struct moietyi_region *region)
{
    moiety_status status = MOIETY_OK;
    if (region->fallbacks & MOIETY_HOST_FELL_TO_FEWER_THREADS)
        status = moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                              "threads that touch memory could not be started");
    if (region->fallbacks & MOIETY_HOST_FELL_TO_UNVERIFIED)
        status = moietyi_fail(MOIETY_E_UNSUPPORTED,
                              "the kernel does not tell which node memory is "
                              "on; a container may forbid move_pages()");
    if (region->pages_elsewhere) {
        region->fallbacks |= MOIETY_HOST_FELL_ELSEWHERE;
        status = moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                              "%llu pages of a stretch of %zu bytes are not on "
                              "node %s",
                              (unsigned long long)region->pages_elsewhere,
                              region->size_bytes,
                              moietyi_nodes_text(request->place).text);
    }
    if (status == MOIETY_OK || request->place->is_strict)
        return status;
    moietyi_fall_back(region, 0);
    return MOIETY_OK;
}

/* Whether the region could be had, but not from this runway: its address is taken
 * for registered, its pages are used up, or the driver registers nothing. */
static bool is_better_elsewhere(const struct moietyi_region *region,
                                moiety_status status)
{
    return !region->is_pinned &&
           (status == MOIETY_E_IN_USE || status == MOIETY_E_UNSUPPORTED);
}

static moiety_status
obtain_from_runway(const struct moietyi_pin_request *request,
                   struct moietyi_region *region)
{
    const struct moietyi_region fresh = *region;
    moiety_status status =
        moietyi_runway_take(request->runway, request->progress, region);
    if (status != MOIETY_OK)
        return status;
    status = register_timed(request, region);
    if (status != MOIETY_OK && !region->is_pinned) {
        moietyi_runway_put_back(request->runway, region->size_bytes);
        *region = fresh;
    }
    return status;
}

/* `out_step`: how much of it is to be read back. */
static moiety_status obtain_any(const struct moietyi_pin_request *request,
                                struct moietyi_region *region, size_t *out_step)
{
    bool is_small = !moietyi_pages_are_set_aside(region->pages);
    *out_step = is_small && !request->place->is_strict ? SAMPLE_STEP : 1;
    if (request->runway &&
        moietyi_runway_has(request->runway, region->size_bytes)) {
        moiety_status status = obtain_from_runway(request, region);
        if (!is_better_elsewhere(region, status))
            return status;
        moietyi_runway_close(request->runway);
    }
    *out_step = 1;
    return obtain(request, region);
}

moiety_status moietyi_make_region(const struct moietyi_pin_request *request,
                                  struct moietyi_region *region)
{
    size_t step;
    moiety_status status = obtain_any(request, region, &step);
    if (status != MOIETY_OK)
        return status;
    uint64_t since = moietyi_now_ns();
    moietyi_read_back(region, request->place, step);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_READ_BACK, &since);
    return judge(request, region);
}

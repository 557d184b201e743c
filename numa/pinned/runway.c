/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The crew is a bounded stretch ahead of the caller: far enough that registering
 * never waits, near enough that little is unmapped when the program cancels, and
 * that memory is not all gone before the room is asked for again.
 */
#include "numa/pinned/runway.h"

#include <string.h>

#include "numa/pinned/headroom.h"
#include "numa/pinned/map.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"

#define AHEAD_BYTES ((size_t)256 << 20)

moiety_status moietyi_runway_open(struct moietyi_runway *runway,
                                  const struct moietyi_pin_request *request,
                                  enum moietyi_pages pages, size_t size_bytes)
{
    size_t page_bytes = moietyi_page_bytes(pages);
    runway->place = request->place;
    runway->taken_bytes = 0;
    runway->granted_bytes = 0;
    runway->whole = (struct moietyi_region){
        .size_bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes,
        .pages = pages,
    };
    moiety_status status = moietyi_map_region(&runway->whole, request->place);
    if (status == MOIETY_OK)
        moietyi_touch_begin(&runway->touching, &runway->whole, request->place,
                            request->thread_max, request->progress);
    return status;
}

void moietyi_runway_close(struct moietyi_runway *runway)
{
    struct moietyi_region *whole = &runway->whole;
    if (!whole->base)
        return;
    moietyi_workers_end(&runway->touching.workers);
    struct moietyi_region rest = {
        .base = (char *)whole->base + runway->taken_bytes,
        .size_bytes = whole->size_bytes - runway->taken_bytes,
    };
    if (rest.size_bytes)
        moietyi_unmap(&rest);
    whole->base = NULL;
}

bool moietyi_runway_has(const struct moietyi_runway *runway, size_t size_bytes)
{
    return runway->whole.base &&
           size_bytes <= runway->whole.size_bytes - runway->taken_bytes;
}

/* Whether there is memory for all before `end_bytes` that is not touched yet. Pages
 * that were set aside are nobody else's. */
static moiety_status runway_check_room(struct moietyi_runway *runway,
                                       size_t end_bytes)
{
    const struct moietyi_place *place = runway->place;
    size_t done_bytes = moietyi_workers_done(&runway->touching.workers);
    if (moietyi_pages_are_set_aside(runway->whole.pages) ||
        end_bytes <= done_bytes)
        return MOIETY_OK;
    return moietyi_headroom_check(place, end_bytes - done_bytes,
                                  place->is_strict);
}

/* Lets the crew touch the piece and what comes behind it, if there is room for both,
 * otherwise the piece alone. */
static moiety_status runway_grant(struct moietyi_runway *runway,
                                  size_t end_bytes)
{
    size_t piece_bytes = end_bytes - runway->taken_bytes;
    size_t ahead_bytes = piece_bytes > AHEAD_BYTES ? piece_bytes : AHEAD_BYTES;
    size_t left_bytes = runway->whole.size_bytes - end_bytes;
    size_t until_bytes =
        end_bytes + (ahead_bytes < left_bytes ? ahead_bytes : left_bytes);
    if (until_bytes <= runway->granted_bytes)
        return MOIETY_OK;
    struct moietyi_failure kept;
    moietyi_failure_keep(&kept);
    if (runway_check_room(runway, until_bytes) != MOIETY_OK) {
        moietyi_failure_restore(&kept);
        if (end_bytes <= runway->granted_bytes)
            return MOIETY_OK;
        until_bytes = end_bytes;
        moiety_status status = runway_check_room(runway, until_bytes);
        if (status != MOIETY_OK)
            return status;
    }
    runway->granted_bytes = until_bytes;
    moietyi_workers_grant(&runway->touching.workers, until_bytes);
    return MOIETY_OK;
}

moiety_status moietyi_runway_await(struct moietyi_runway *runway,
                                   size_t size_bytes,
                                   struct moietyi_progress *progress)
{
    size_t end_bytes = runway->taken_bytes + size_bytes;
    uint64_t since_ns = moietyi_now_ns();
    moiety_status status = runway_grant(runway, end_bytes);
    if (status == MOIETY_OK)
        status =
            moietyi_touch_await(&runway->touching, end_bytes, progress, false);
    runway->whole.stage_ns[MOIETY_HOST_STAGE_TOUCH] +=
        moietyi_now_ns() - since_ns;
    if (status != MOIETY_E_NO_PINNED_MEMORY ||
        !moietyi_pages_are_set_aside(runway->whole.pages))
        return status;
    moietyi_runway_close(runway);
    return MOIETY_OK;
}

moiety_status moietyi_runway_take(struct moietyi_runway *runway,
                                  struct moietyi_progress *progress,
                                  struct moietyi_region *region)
{
    struct moietyi_region *whole = &runway->whole;
    size_t size_bytes = region->size_bytes;
    moiety_status status = moietyi_runway_await(runway, size_bytes, progress);
    if (status != MOIETY_OK)
        return status;
    if (!whole->base)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pages set aside are used up");
    *region = *whole;
    region->base = (char *)whole->base + runway->taken_bytes;
    region->size_bytes = size_bytes;
    runway->taken_bytes += size_bytes;
    /* The runway's own times count once. */
    memset(whole->stage_ns, 0, sizeof(whole->stage_ns));
    return MOIETY_OK;
}

void moietyi_runway_put_back(struct moietyi_runway *runway, size_t size_bytes)
{
    runway->taken_bytes -= size_bytes;
}

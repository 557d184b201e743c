/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Growth of mapped memory. A page of offset space has one address for good, with
 * or without memory behind it. Handles that are wholly free go where memory is
 * wanted first, if they are enough to be worth it or nothing else is to be had;
 * new ones are powers of two, as the driver takes its time by the handle and not
 * by the byte (docs/adr/0027-mapped-segments.md).
 */
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/segment/mapped.h"

/* Of a new handle: where a growth is that large, an eighth of it. */
#define HANDLE_PAGES_LEAST 32U
#define HANDLE_PAGES_MOST 128U
#define HANDLE_PART 8U
/* Of a growth whose need is less. */
#define STEP_PAGES_MOST 128U
/* Handles move where more than this part of what is reserved could. */
#define MOVABLE_PART 100U
/* A pool grows by this part of what is reserved at least; where it is too tight,
 * by the other one. */
#define STEP_PART 128U
#define TIGHT_STEP_PART 32U
#define TIGHT_PART 4U
/* What moving may take of the time since it grew last. */
#define MOVING_TIME_PART 32U

/* The driver's, unless the lookup has no room for them. */
static moiety_status reserve_within(const struct moietyi_mapper *mapper,
                                    uint64_t size_bytes, moiety_devptr *out)
{
    moiety_devptr address;
    moiety_status status =
        mapper->reserve(mapper->context, size_bytes, &address);
    if (status != MOIETY_OK)
        return status;
    if (address <= MOIETYI_ADDRESS_END - size_bytes) {
        *out = address;
        return MOIETY_OK;
    }
    (void)mapper->release(mapper->context, address, size_bytes);
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the driver reserved addresses at 0x%llx, which are "
                        "not within the 512 TiB that a device addresses",
                        (unsigned long long)address);
}

/* All of the offset space, so that there is room among places that are still
 * waited for. What is refused is halved, but not below the need or the limit: the
 * pool never gets others. */
moiety_status moietyi_reserve_addresses(struct moietyi_segments *segments,
                                        uint32_t needed)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t pages = segments->page_capacity;
    uint64_t limit = moietyi_limit(segments) / MOIETYI_PAGE_BYTES;
    uint64_t least = limit < pages && limit > needed ? limit : needed;
    moiety_status status;
    if (segments->base)
        return MOIETY_OK;
    for (;;) {
        status =
            reserve_within(mapper, pages * MOIETYI_PAGE_BYTES, &segments->base);
        if (status == MOIETY_OK || status == MOIETY_E_UNSUPPORTED ||
            pages / 2 < least)
            break;
        pages /= 2;
    }
    if (status == MOIETY_OK)
        segments->base_pages = (uint32_t)pages;
    return status;
}

/* Where a pool has moved a good part of what it has since it grew last, and that
 * took a good part of the time, it has too little for what the program does, and a
 * little more costs less than to move on. */
static bool has_moved_much(const struct moietyi_segments *segments)
{
    return segments->moved_bytes - segments->moved_at_growth >=
               moietyi_segments_reserved_bytes(segments) / TIGHT_PART &&
           MOVING_TIME_PART * segments->moving_ns >=
               moietyi_now_ns() - segments->grown_at_ns;
}

static uint64_t free_bytes_of(const struct moietyi_view *view)
{
    return (moietyi_space_free_grains(view->space) +
            moietyi_heap_grains(view->heap, MOIETYI_FRESH) +
            moietyi_heap_grains(view->heap, MOIETYI_AGEING)) *
           MOIETYI_GRAIN_BYTES;
}

/* Free memory is no less than what may move. Its sum needs no look at each handle,
 * which takes longer than all else of a growth if there are many. */
static bool is_worth_moving(struct moietyi_segments *segments,
                            const struct moietyi_view *view,
                            const struct moietyi_place *place)
{
    uint64_t little = moietyi_segments_reserved_bytes(segments) / MOVABLE_PART;
    uint64_t missing = (uint64_t)place->pages * MOIETYI_PAGE_BYTES;
    uint64_t left = moietyi_bytes_below(segments, moietyi_limit(segments));
    if (left >= missing && free_bytes_of(view) <= little)
        return false;
    uint64_t bytes = moietyi_movable_bytes(segments, view, place);
    return (bytes > little && !has_moved_much(segments)) ||
           bytes + left < missing;
}

/* The largest power of two up to `pages`. */
static uint32_t power_of_two(uint32_t pages)
{
    return UINT32_C(1) << (31U - (unsigned)__builtin_clz(pages));
}

/* Of the handles of a growth by so many pages. */
static uint32_t largest_handle(uint32_t pages)
{
    uint32_t part = pages / HANDLE_PART;
    if (part > HANDLE_PAGES_MOST)
        return HANDLE_PAGES_MOST;
    return part > HANDLE_PAGES_LEAST ? power_of_two(part) : HANDLE_PAGES_LEAST;
}

/* One new handle of at most `most` pages; what the driver refuses is halved. */
static moiety_status create_one(struct moietyi_segments *segments,
                                uint32_t most, struct moietyi_segment **out)
{
    uint32_t pages = power_of_two(most);
    moiety_status status;
    for (;; pages /= 2) {
        status = moietyi_source_create(
            segments, (uint64_t)pages * MOIETYI_PAGE_BYTES, out);
        if (status == MOIETY_OK || pages == 1)
            return status;
    }
}

static void release_created(struct moietyi_segments *segments,
                            struct moietyi_segment *created)
{
    while (created) {
        struct moietyi_segment *segment = created;
        created = segment->next;
        (void)moietyi_source_release(segments, segment);
    }
}

/* Whether the device may have that much. Where it has less, all of it would be
 * this pool's, to the last page, until that is refused: other programs would
 * find none. */
static moiety_status look_before(struct moietyi_segments *segments,
                                 uint32_t pages)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t bytes = (uint64_t)pages * MOIETYI_PAGE_BYTES;
    uint64_t free_bytes;
    if (pages <= HANDLE_PAGES_LEAST ||
        mapper->look_free(mapper->context, &free_bytes) != MOIETY_OK ||
        free_bytes >= bytes)
        return MOIETY_OK;
    moietyi_source_note_refusal(segments);
    return moietyi_fail(moietyi_source_exhausted(segments),
                        "%llu bytes are missing, and the device has %llu",
                        (unsigned long long)bytes,
                        (unsigned long long)free_bytes);
}

/* `pages` pages or, if the driver has less, `least` or more: nothing that is too
 * little stays, or a pool that is out of memory would find it free again and
 * again. */
static moiety_status create_all(struct moietyi_segments *segments, uint32_t at,
                                uint32_t least, uint32_t pages)
{
    struct moietyi_segment *created = NULL;
    struct moietyi_segment **end = &created;
    uint32_t created_pages = 0;
    moiety_status status = look_before(segments, least);
    const uint32_t largest = largest_handle(pages);
    if (status != MOIETY_OK)
        return status;
    segments->moved_at_growth = segments->moved_bytes;
    segments->grown_at_ns = moietyi_now_ns();
    segments->moving_ns = 0;
    while (created_pages < pages && status == MOIETY_OK) {
        uint32_t rest = pages - created_pages;
        status = create_one(segments, rest < largest ? rest : largest, end);
        if (status == MOIETY_OK) {
            created_pages += (*end)->info.page_count;
            end = &(*end)->next;
        }
    }
    if (created_pages >= least)
        status = MOIETY_OK;
    while (created && status == MOIETY_OK) {
        struct moietyi_segment *segment = created;
        uint32_t segment_pages = segment->info.page_count;
        created = segment->next;
        status = moietyi_handle_put(segments, segment, at, NULL);
        if (status != MOIETY_OK) {
            segment->next = created;
            created = segment;
        }
        at += segment_pages;
    }
    release_created(segments, created);
    return status;
}

/* Where a step is that large, growth is in whole handles: a piece or two in one
 * call of the driver each cost as much as all of it. */
#define WHOLE_STEP_PAGES 8U

/* One handle for all that is missing, if that is at most a step more. */
static uint64_t whole_pages(uint64_t step, uint32_t missing)
{
    uint64_t whole = power_of_two(missing);
    if (whole < missing)
        whole *= 2;
    if (whole > STEP_PAGES_MOST || whole > missing + step)
        return missing;
    return step > whole ? power_of_two((uint32_t)step) : whole;
}

/* What is created at least, if room and limit allow it. */
static uint32_t growth_step(const struct moietyi_segments *segments,
                            uint32_t missing, uint32_t room)
{
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    uint64_t part = has_moved_much(segments) ? TIGHT_STEP_PART : STEP_PART;
    uint64_t pages = reserved / part / MOIETYI_PAGE_BYTES;
    uint64_t left = moietyi_bytes_below(segments, moietyi_limit(segments)) /
                    MOIETYI_PAGE_BYTES;
    if (pages > STEP_PAGES_MOST)
        pages = STEP_PAGES_MOST;
    if (pages >= WHOLE_STEP_PAGES)
        pages = whole_pages(pages, missing);
    if (pages < segments->first_bytes / MOIETYI_PAGE_BYTES)
        pages = segments->first_bytes / MOIETYI_PAGE_BYTES;
    if (pages > left)
        pages = left;
    if (pages > room)
        pages = room;
    return pages > missing ? (uint32_t)pages : missing;
}

static bool may_create(const struct moietyi_segments *segments, uint32_t pages)
{
    return (uint64_t)pages * MOIETYI_PAGE_BYTES <=
           moietyi_bytes_below(segments, moietyi_limit(segments));
}

/* Returns the pages that are still missing. */
static uint32_t move_what_is_free(struct moietyi_segments *segments,
                                  const struct moietyi_extension *extension,
                                  const struct moietyi_place *place)
{
    const struct moietyi_view view = moietyi_movable_view(segments, extension);
    uint32_t missing = place->pages;
    if (is_worth_moving(segments, &view, place))
        missing =
            moietyi_move_to(segments, extension, &view, place, missing, false);
    /* The limit leaves too little: any handle will do that has room. */
    if (!may_create(segments, missing))
        missing =
            moietyi_move_to(segments, extension, &view, place, missing, true);
    return missing;
}

static struct moietyi_place
find_place(struct moietyi_segments *segments,
           const struct moietyi_extension *extension)
{
    pthread_mutex_lock(&segments->lock);
    const struct moietyi_place place = moietyi_place_find(segments, extension);
    pthread_mutex_unlock(&segments->lock);
    return place;
}

static moiety_status no_room(const struct moietyi_segments *segments,
                             const struct moietyi_extension *extension)
{
    return moietyi_fail(moietyi_source_exhausted(segments),
                        "the pool's addresses have no room for %llu bytes in a "
                        "row",
                        (unsigned long long)extension->needed_bytes);
}

/* Whether a handle that was to move there could neither be used there nor unmapped
 * again. */
static bool is_left(struct moietyi_segments *segments, uint32_t page)
{
    pthread_mutex_lock(&segments->lock);
    const struct moietyi_segment *at = segments->left;
    while (at && at->info.first.index != page)
        at = at->next;
    pthread_mutex_unlock(&segments->lock);
    return at != NULL;
}

static moiety_status fill(struct moietyi_segments *segments,
                          const struct moietyi_extension *extension,
                          struct moietyi_place place)
{
    uint64_t begin_ns = moietyi_now_ns();
    uint32_t missing = extension->view
                           ? move_what_is_free(segments, extension, &place)
                           : place.pages;
    segments->moving_ns += moietyi_now_ns() - begin_ns;
    uint32_t done = place.pages - missing;
    if (missing && is_left(segments, place.first + done)) {
        place = find_place(segments, extension);
        missing = place.pages;
        done = 0;
    }
    if (!place.pages)
        return no_room(segments, extension);
    return missing
               ? create_all(segments, place.first + done, missing,
                            growth_step(segments, missing, place.room - done))
               : MOIETY_OK;
}

moiety_status moietyi_extend(struct moietyi_segments *segments,
                             const struct moietyi_extension *extension)
{
    moiety_status status = moietyi_reserve_addresses(
        segments, moietyi_pages_of_grains(moietyi_needed_grains(extension)));
    if (status != MOIETY_OK)
        return status;
    MOIETYI_STEP("locked.mapped.begun");
    (void)moietyi_unmap_left(segments, extension->passed_epoch,
                             MOIETYI_UNMAPS_MOST);
    struct moietyi_place place = find_place(segments, extension);
    if (!place.pages) {
        (void)moietyi_unmap_left(segments, extension->passed_epoch, UINT32_MAX);
        place = find_place(segments, extension);
    }
    return place.pages ? fill(segments, extension, place)
                       : no_room(segments, extension);
}

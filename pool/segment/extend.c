/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Growth of mapped memory. A page of offset space keeps its address, with or
 * without memory behind it. Free handles move to the needed place first, if
 * enough of them are free, or if no new ones can be made. New handles are
 * powers of two pages long, because the driver takes its time per handle, not
 * per byte (docs/dev/adr/0027-mapped-segments.md).
 */
#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/segment/mapped.h"

/* A growth, and a new handle, is this part of what is reserved, so that a large
 * pool has no more handles than a small one; a handle is this part of a growth,
 * if that is more. */
#define HANDLE_PART_OF_POOL 512U
#define HANDLE_PART_OF_GROWTH 64U
/* A pool that has used up its moves has too little memory for its program: it
 * grows by this part, so that fewer calls need a move. */
#define TIGHT_PART 64U
#define HANDLE_PAGES_MOST 128U
/* Before a larger growth the device is asked for its free memory. */
#define LITTLE_PAGES 32U

/* Reserves the driver's addresses, unless the lookup has no room for them. */
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

/* All of the offset space, so that there is room next to places that still wait
 * for work. After a refusal it is halved, but not below the need or the limit:
 * the pool never gets other addresses. */
static moiety_status reserve_addresses(struct moietyi_segments *segments,
                                       uint32_t needed)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t pages = segments->page_capacity;
    uint64_t limit = moietyi_segments_limit(segments) / MOIETYI_PAGE_BYTES;
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

/* The largest power of two up to `pages`. */
static uint32_t power_of_two(uint32_t pages)
{
    return UINT32_C(1) << (31U - (unsigned)__builtin_clz(pages));
}

/* The most pages of a handle in a growth by so many pages. */
static uint32_t largest_handle(const struct moietyi_segments *segments,
                               uint32_t pages)
{
    uint64_t most = moietyi_segments_reserved_bytes(segments) /
                    MOIETYI_PAGE_BYTES / HANDLE_PART_OF_POOL;
    if (most < pages / HANDLE_PART_OF_GROWTH)
        most = pages / HANDLE_PART_OF_GROWTH;
    if (most < segments->handle_pages)
        most = segments->handle_pages;
    return most < HANDLE_PAGES_MOST ? power_of_two((uint32_t)most)
                                    : HANDLE_PAGES_MOST;
}

/* One new handle of at most `most` pages; halved after each refusal. */
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

/* Whether the limit and the device have that much. A device that has less is
 * not asked: the pool would take its last pages before the refusal, and other
 * programs would find none. */
static moiety_status look_before(struct moietyi_segments *segments,
                                 uint32_t pages)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t bytes = (uint64_t)pages * MOIETYI_PAGE_BYTES;
    uint64_t free_bytes;
    moiety_status status = moietyi_source_check_limit(segments, bytes);
    if (status != MOIETY_OK)
        return status;
    if (pages <= LITTLE_PAGES ||
        mapper->look_free(mapper->context, &free_bytes) != MOIETY_OK ||
        free_bytes >= bytes)
        return MOIETY_OK;
    moietyi_source_note_refusal(segments);
    return moietyi_fail(moietyi_source_exhausted(segments),
                        "%llu bytes are missing, and the device has %llu",
                        (unsigned long long)bytes,
                        (unsigned long long)free_bytes);
}

/* `pages` pages or, if the driver has less, at least `least`. Fewer are not
 * kept: a pool that is out of memory would find them free again and again. */
static moiety_status create_all(struct moietyi_segments *segments, uint32_t at,
                                uint32_t least, uint32_t pages)
{
    struct moietyi_segment *created = NULL;
    struct moietyi_segment **end = &created;
    uint32_t created_pages = 0;
    moiety_status status = look_before(segments, least);
    const uint32_t largest = largest_handle(segments, pages);
    if (status != MOIETY_OK)
        return status;
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
        segments->move_credit += status == MOIETY_OK;
        if (status != MOIETY_OK) {
            segment->next = created;
            created = segment;
        }
        at += segment_pages;
    }
    release_created(segments, created);
    return status;
}

/* Pages to create: the missing ones, or the first size that the program asked
 * for, or a part of what is reserved, if room and limit allow it. */
static uint32_t growth_step(const struct moietyi_segments *segments,
                            uint32_t missing, uint32_t room)
{
    uint64_t pages = segments->first_bytes / MOIETYI_PAGE_BYTES;
    uint64_t part =
        moietyi_segments_reserved_bytes(segments) / MOIETYI_PAGE_BYTES /
        (segments->move_credit > 0 ? HANDLE_PART_OF_POOL : TIGHT_PART);
    if (pages < part)
        pages = part;
    uint64_t left =
        moietyi_bytes_below(segments, moietyi_segments_limit(segments)) /
        MOIETYI_PAGE_BYTES;
    if (pages > left)
        pages = left;
    if (pages > room)
        pages = room;
    return pages > missing ? (uint32_t)pages : missing;
}

static bool may_create(const struct moietyi_segments *segments, uint32_t pages)
{
    return (uint64_t)pages * MOIETYI_PAGE_BYTES <=
           moietyi_bytes_below(segments, moietyi_segments_limit(segments));
}

/* Returns the pages that are still missing. */
static uint32_t move_what_is_free(struct moietyi_segments *segments,
                                  const struct moietyi_extension *extension,
                                  const struct moietyi_place *place)
{
    const struct moietyi_view view = moietyi_movable_view(segments, extension);
    /* At the limit all free handles move, at any cost. */
    return moietyi_may_move(segments, extension->view) ||
                   !may_create(segments, place->pages)
               ? moietyi_move_to(segments, extension, &view, place)
               : place->pages;
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

moiety_status moietyi_find_place(struct moietyi_segments *segments,
                                 const struct moietyi_extension *extension,
                                 struct moietyi_place *out)
{
    moiety_status status = reserve_addresses(
        segments, moietyi_pages_of_grains(moietyi_needed_grains(extension)));
    if (status != MOIETY_OK)
        return status;
    *out = find_place(segments, extension);
    if (!out->pages) {
        (void)moietyi_unmap_left(segments, extension->passed_epoch, UINT32_MAX);
        *out = find_place(segments, extension);
    }
    return out->pages
               ? MOIETY_OK
               : moietyi_fail(moietyi_source_exhausted(segments),
                              "the pool's addresses have no room for %llu "
                              "bytes in a row",
                              (unsigned long long)extension->needed_bytes);
}

/* Whether a handle that should move there could neither be used there nor
 * unmapped again. */
static bool is_left(struct moietyi_segments *segments, uint32_t page)
{
    pthread_mutex_lock(&segments->lock);
    bool is_taken = moietyi_page_is_taken(segments, page);
    pthread_mutex_unlock(&segments->lock);
    return is_taken;
}

static moiety_status fill(struct moietyi_segments *segments,
                          const struct moietyi_extension *extension,
                          struct moietyi_place place)
{
    uint32_t missing = extension->view
                           ? move_what_is_free(segments, extension, &place)
                           : place.pages;
    uint32_t done = place.pages - missing;
    if (missing && is_left(segments, place.first + done)) {
        moiety_status status = moietyi_find_place(segments, extension, &place);
        if (status != MOIETY_OK)
            return status;
        missing = place.pages;
        done = 0;
    }
    return missing
               ? create_all(segments, place.first + done, missing,
                            growth_step(segments, missing, place.room - done))
               : MOIETY_OK;
}

moiety_status moietyi_extend(struct moietyi_segments *segments,
                             const struct moietyi_extension *extension)
{
    struct moietyi_place place;
    MOIETYI_STEP("locked.mapped.begun");
    (void)moietyi_unmap_left(segments, extension->passed_epoch,
                             MOIETYI_UNMAPS_MOST);
    moiety_status status = moietyi_find_place(segments, extension, &place);
    return status == MOIETY_OK ? fill(segments, extension, place) : status;
}

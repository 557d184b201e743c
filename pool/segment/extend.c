/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Growth of mapped memory. A page of offset space has one address for good, with
 * or without memory behind it. What is wanted goes where the fewest pages are
 * missing: behind a free run, in front of one, or between two. Handles that are
 * wholly free go there first, if they are enough to be worth it or nothing else
 * is to be had; new ones are powers of two up to 64 MiB, as the driver takes its
 * time by the handle and not by the byte (docs/adr/0027-mapped-segments.md).
 *
 * A handle that moves is claimed whole out of the maps, so that it serves at one
 * place alone, and mapped at the new one before it is unmapped at the old. Where
 * a stream's own memory was in it, the old mapping stays until that stream's work
 * is over, and its pages are in no map: the new ones are the stream's alone, whose
 * order keeps the two apart.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/segment/mapper.h"
#include "pool/segment/state.h"

/* Of a new handle. */
#define HANDLE_PAGES_MOST 32U
/* A call that grows moves no more: each takes the driver about 80 us. */
#define MOVES_MOST 32U
/* Handles move where more than this part of what is reserved could. */
#define MOVABLE_PART 100U
/* A pool grows by this part of what is reserved at least; where it is too tight,
 * by the other one. */
#define STEP_PART 128U
#define TIGHT_STEP_PART 32U
#define TIGHT_PART 4U

/* Where memory goes, and what is free beside it. */
struct place {
    uint32_t first;     /* pages without memory */
    uint32_t pages;     /* that are missing */
    uint32_t room;      /* from `first` on */
    uint64_t run_start; /* grains: the run that all of it is to become */
    uint64_t run_end;
};

static uint64_t grain_of_page(uint32_t page)
{
    return (uint64_t)page * BINADEI_PAGE_GRAINS;
}

static uint32_t pages_of_grains(uint64_t grains)
{
    return (uint32_t)((grains + BINADEI_PAGE_GRAINS - 1) / BINADEI_PAGE_GRAINS);
}

static uint64_t needed_grains(const struct binadei_extension *extension)
{
    return (extension->needed_bytes + BINADEI_GRAIN_BYTES - 1) /
           BINADEI_GRAIN_BYTES;
}

/* All of the offset space, so that there is room among places that are still
 * waited for. What is refused is halved, but not below the need or the limit: the
 * pool never gets others. */
static binade_status reserve_addresses(struct binadei_segments *segments,
                                       uint32_t needed)
{
    const struct binadei_mapper *mapper = segments->mapper;
    uint64_t pages = segments->page_capacity;
    uint64_t limit = segments->limit_bytes / BINADEI_PAGE_BYTES;
    uint64_t least = limit < pages && limit > needed ? limit : needed;
    binade_status status;
    if (segments->base)
        return BINADE_OK;
    for (;;) {
        status = mapper->reserve(mapper->context, pages * BINADEI_PAGE_BYTES,
                                 &segments->base);
        if (status == BINADE_OK || pages / 2 < least)
            break;
        pages /= 2;
    }
    if (status == BINADE_OK)
        segments->base_pages = (uint32_t)pages;
    return status;
}

/* Pages that have memory, or may not have any yet. */
struct taken {
    uint32_t first;
    uint32_t end;
    bool has_memory;
};

/* Both lists in one order. */
struct cursor {
    const struct binadei_segment *listed;
    const struct binadei_segment *left;
};

static bool next_taken(struct cursor *cursor, struct taken *out)
{
    const struct binadei_segment *next = cursor->listed;
    out->has_memory =
        !cursor->left ||
        (next && next->info.first.index < cursor->left->info.first.index);
    if (!out->has_memory)
        next = cursor->left;
    if (!next)
        return false;
    out->first = next->info.first.index;
    out->end = out->first + next->info.page_count;
    if (out->has_memory)
        cursor->listed = next->next;
    else
        cursor->left = next->next;
    return true;
}

static void keep_better(struct place *best, const struct place *place)
{
    if (place->pages && place->pages <= place->room &&
        (!best->pages || place->pages < best->pages))
        *best = *place;
}

/* The pages [at, end) have no memory; on both sides so many grains are free. */
static void consider(struct place *best, uint32_t at, uint32_t end,
                     uint64_t before, uint64_t behind, uint64_t needed)
{
    uint64_t start_grain = grain_of_page(at);
    uint64_t end_grain = grain_of_page(end);
    uint32_t room = end - at;
    struct place place = {.first = at,
                          .pages = pages_of_grains(needed - before),
                          .room = room,
                          .run_start = start_grain - before};
    place.run_end = grain_of_page(at + place.pages);
    keep_better(best, &place);
    place.pages = pages_of_grains(needed - behind);
    place.first = end - place.pages;
    place.room = place.pages <= room ? place.pages : 0;
    place.run_start = grain_of_page(place.first);
    place.run_end = end_grain + behind;
    keep_better(best, &place);
    if (before + (end_grain - start_grain) + behind < needed)
        return;
    place = (struct place){.first = at,
                           .pages = room,
                           .room = room,
                           .run_start = start_grain - before,
                           .run_end = end_grain + behind};
    keep_better(best, &place);
}

/* Up to `most` grains, less one: there may be such a run, for it was not found by
 * who wants another alignment, or somebody was faster. */
static uint64_t less_than(uint64_t grains, uint64_t most)
{
    return grains < most ? grains : most - 1;
}

static uint64_t free_before(const struct binadei_extension *extension,
                            uint32_t page, uint64_t needed)
{
    uint64_t end = grain_of_page(page);
    if (!extension->view)
        return 0;
    return less_than(binadei_view_free_before(
                         extension->view,
                         binadei_grain_at(end > needed ? end - needed : 0),
                         binadei_grain_at(end)),
                     needed);
}

static uint64_t free_behind(const struct binadei_segments *segments,
                            const struct binadei_extension *extension,
                            uint32_t page, uint64_t needed)
{
    uint64_t start = grain_of_page(page);
    uint64_t end = grain_of_page(segments->base_pages);
    if (!extension->view)
        return 0;
    return less_than(
        binadei_view_free_from(
            extension->view, binadei_grain_at(start),
            binadei_grain_at(start + needed < end ? start + needed : end)),
        needed);
}

/* Lock held. No pages: there is none. */
static struct place find_place(const struct binadei_segments *segments,
                               const struct binadei_extension *extension)
{
    struct cursor cursor = {segments->listed, segments->left};
    struct place best = {0};
    struct taken last = {0};
    struct taken next;
    uint64_t needed = needed_grains(extension);
    bool is_any;
    do {
        is_any = next_taken(&cursor, &next);
        if (!is_any)
            next = (struct taken){segments->base_pages, 0, false};
        if (next.first > last.end) {
            consider(&best, last.end, next.first,
                     last.has_memory ? free_before(extension, last.end, needed)
                                     : 0,
                     next.has_memory
                         ? free_behind(segments, extension, next.first, needed)
                         : 0,
                     needed);
        }
        last = next;
    } while (is_any);
    return best;
}

/* Where a pool has moved this part of what it has since it grew last, it has too
 * little for what the program does, and a little more costs less than to move on.
 */
static bool has_moved_much(const struct binadei_segments *segments)
{
    return segments->moved_bytes - segments->moved_at_growth >=
           binadei_segments_reserved_bytes(segments) / TIGHT_PART;
}

/* Whether it is no part of the run that grows, and wholly free in the view. */
static bool is_movable(const struct binadei_segment *segment,
                       const struct binadei_view *view,
                       const struct place *place)
{
    uint64_t start = grain_of_page(segment->info.first.index);
    uint64_t grains = grain_of_page(segment->info.page_count);
    return !segment->pin_count &&
           (start + grains <= place->run_start || start >= place->run_end) &&
           binadei_view_free_from(view, binadei_grain_at(start),
                                  binadei_grain_at(start + grains)) == grains;
}

/* What may move: what is done, and the stream's own memory if an event will tell
 * when its work is over, and half of all addresses are not waited for already. */
static struct binadei_view
movable_view(struct binadei_segments *segments,
             const struct binadei_extension *extension)
{
    struct binadei_view view = *extension->view;
    pthread_mutex_lock(&segments->lock);
    if (!extension->next_epoch ||
        segments->left_pages > segments->base_pages / 2)
        view.maps = NULL;
    pthread_mutex_unlock(&segments->lock);
    return view;
}

/* Lock held. */
static uint64_t movable_bytes(const struct binadei_segments *segments,
                              const struct binadei_view *view,
                              const struct place *place)
{
    uint64_t bytes = 0;
    for (const struct binadei_segment *at = segments->listed; at; at = at->next)
        if (is_movable(at, view, place))
            bytes += at->info.memory_bytes;
    return bytes;
}

/* The largest of at most `most` pages that may move; lock held. */
static struct binadei_segment **
largest_movable(struct binadei_segments *segments,
                const struct binadei_view *view, const struct place *place,
                uint32_t most)
{
    struct binadei_segment **found = NULL;
    for (struct binadei_segment **at = &segments->listed; *at;
         at = &(*at)->next) {
        uint32_t pages = (*at)->info.page_count;
        if (pages <= most && (!found || pages > (*found)->info.page_count) &&
            is_movable(*at, view, place))
            found = at;
    }
    return found;
}

/* A handle on its way. */
struct move {
    struct binadei_segment *segment;
    struct binadei_segment *left; /* the place that it leaves */
    bool is_own;                  /* memory of the view's stream is in it */
};

/* Out of the maps; lock held. */
static bool claim_handle(struct binadei_segments *segments,
                         const struct binadei_view *view,
                         const struct binadei_segment_info *info, bool *is_own)
{
    const struct binadei_view done = {.buddy = segments->buddy};
    binadei_grain start = binadei_grain_at(grain_of_page(info->first.index));
    uint64_t grains = grain_of_page(info->page_count);
    *is_own = !binadei_view_claim(&done, start, grains);
    return !*is_own || (view->maps && binadei_view_claim(view, start, grains));
}

static bool start_moving(struct binadei_segments *segments,
                         const struct binadei_view *view,
                         const struct place *place, uint32_t most,
                         struct move *out)
{
    struct binadei_segment *left = calloc(1, sizeof(*left));
    struct binadei_segment **at = NULL;
    if (!left)
        return false;
    pthread_mutex_lock(&segments->lock);
    at = largest_movable(segments, view, place, most);
    if (at && !claim_handle(segments, view, &(*at)->info, &out->is_own))
        at = NULL;
    if (at) {
        out->segment = binadei_segment_unlist(segments, at);
        out->left = left;
        left->info = out->segment->info;
        left->is_mapped = true;
    }
    pthread_mutex_unlock(&segments->lock);
    BINADEI_STEP("locked.mapped.claimed");
    if (!at)
        free(left);
    return at != NULL;
}

/* At a page, and into the pool; after a failure it is where it was. */
static binade_status put_at(struct binadei_segments *segments,
                            struct binadei_segment *segment, uint32_t page,
                            struct binadei_maps *own)
{
    const struct binadei_mapper *mapper = segments->mapper;
    struct binadei_segment_info before = segment->info;
    struct binadei_segment_info *info = &segment->info;
    info->first = (binadei_page){page};
    info->address = segments->base + (uint64_t)page * BINADEI_PAGE_BYTES;
    info->memory = info->address;
    binade_status status = binadei_lookup_prepare(
        &segments->lookup, info->address, info->page_count);
    if (status == BINADE_OK)
        status = mapper->map(mapper->context, info->address, info->memory_bytes,
                             segment->handle);
    if (status == BINADE_OK) {
        bool was_mapped = segment->is_mapped;
        segment->is_mapped = true;
        pthread_mutex_lock(&segments->lock);
        status = binadei_segment_publish(segments, segment, own);
        segments->grow_count += status == BINADE_OK && !was_mapped;
        pthread_mutex_unlock(&segments->lock);
        if (status == BINADE_OK)
            return status;
        segment->is_mapped = was_mapped;
        /* Nobody has used these addresses. */
        (void)mapper->unmap(mapper->context, info->address, info->memory_bytes);
    }
    *info = before;
    return status;
}

/* Back to where it was, where words for it are. */
static void undo_move(struct binadei_segments *segments,
                      const struct move *move, struct binadei_maps *own)
{
    pthread_mutex_lock(&segments->lock);
    (void)binadei_segment_publish(segments, move->segment, own);
    pthread_mutex_unlock(&segments->lock);
    free(move->left);
}

static void note_left(struct binadei_segments *segments,
                      const struct move *move, uint64_t epoch)
{
    move->left->of = move->segment;
    move->left->over_at = epoch;
    pthread_mutex_lock(&segments->lock);
    move->segment->left_count++;
    segments->move_count++;
    segments->moved_bytes += move->left->info.memory_bytes;
    segments->left_pages += move->left->info.page_count;
    binadei_segment_insert(&segments->left, move->left);
    pthread_mutex_unlock(&segments->lock);
}

/* Asked after the claim: from then on nobody queues work at the old place. */
static uint64_t over_at(const struct binadei_extension *extension,
                        const struct move *move)
{
    if (!move->is_own)
        return 0;
    return extension->epoch_by_now ? extension->epoch_by_now(extension->streams)
                                   : extension->next_epoch;
}

static binade_status finish_moving(struct binadei_segments *segments,
                                   const struct binadei_extension *extension,
                                   const struct move *move, uint32_t page)
{
    struct binadei_maps *own = move->is_own ? extension->view->maps : NULL;
    binade_status status = put_at(segments, move->segment, page, own);
    if (status != BINADE_OK) {
        undo_move(segments, move, own);
        return status;
    }
    note_left(segments, move, over_at(extension, move));
    return BINADE_OK;
}

/* Off the list, for this thread to unmap; lock held. */
static struct binadei_segment *take_over(struct binadei_segments *segments,
                                         uint64_t passed_epoch)
{
    struct binadei_segment *taken = NULL;
    for (struct binadei_segment **at = &segments->left; *at;) {
        struct binadei_segment *left = *at;
        if (left->over_at > passed_epoch) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        left->next = taken;
        taken = left;
    }
    return taken;
}

/* Back on the list if it is still mapped, or gone; lock held. */
static void end_left(struct binadei_segments *segments,
                     struct binadei_segment *left)
{
    if (left->is_mapped) {
        binadei_segment_insert(&segments->left, left);
        return;
    }
    segments->left_pages -= left->info.page_count;
    left->of->left_count--;
    free(left);
}

binade_status binadei_unmap_left(struct binadei_segments *segments,
                                 uint64_t passed_epoch)
{
    const struct binadei_mapper *mapper = segments->mapper;
    binade_status first = BINADE_OK;
    pthread_mutex_lock(&segments->lock);
    struct binadei_segment *taken = take_over(segments, passed_epoch);
    pthread_mutex_unlock(&segments->lock);
    for (struct binadei_segment *at = taken; at; at = at->next) {
        binade_status status = mapper->unmap(mapper->context, at->info.address,
                                             at->info.memory_bytes);
        at->is_mapped = !binadei_source_is_gone(status);
        if (at->is_mapped && first == BINADE_OK)
            first = status;
    }
    pthread_mutex_lock(&segments->lock);
    while (taken) {
        struct binadei_segment *left = taken;
        taken = left->next;
        end_left(segments, left);
    }
    pthread_mutex_unlock(&segments->lock);
    return first;
}

void binadei_segments_unmap_left(struct binadei_segments *segments,
                                 uint64_t passed_epoch)
{
    if (!segments->mapper)
        return;
    binadei_grower_begin(segments);
    (void)binadei_unmap_left(segments, passed_epoch);
    binadei_grower_end(segments);
}

/* Of the pages that are missing, as many as handles that are free have.
 * `may_exceed`: the last handle may have more of them, if there is room. Returns
 * the pages that are still missing. */
static uint32_t move_to(struct binadei_segments *segments,
                        const struct binadei_extension *extension,
                        const struct binadei_view *view,
                        const struct place *place, uint32_t missing,
                        bool may_exceed)
{
    struct move move;
    for (unsigned i = 0; i < MOVES_MOST && missing; i++) {
        uint32_t done = place->pages - missing;
        uint32_t at = place->first + done;
        if (!start_moving(segments, view, place,
                          may_exceed ? place->room - done : missing, &move))
            break;
        uint32_t pages = move.segment->info.page_count;
        if (finish_moving(segments, extension, &move, at) != BINADE_OK)
            break;
        missing -= pages < missing ? pages : missing;
    }
    /* What was done is over. */
    (void)binadei_unmap_left(segments, extension->passed_epoch);
    return missing;
}

static bool is_worth_moving(struct binadei_segments *segments,
                            const struct binadei_view *view,
                            const struct place *place)
{
    pthread_mutex_lock(&segments->lock);
    uint64_t bytes = movable_bytes(segments, view, place);
    pthread_mutex_unlock(&segments->lock);
    uint64_t reserved = binadei_segments_reserved_bytes(segments);
    return (bytes > reserved / MOVABLE_PART && !has_moved_much(segments)) ||
           bytes + (segments->limit_bytes - reserved) <
               (uint64_t)place->pages * BINADEI_PAGE_BYTES;
}

static uint32_t handle_pages(uint32_t pages)
{
    if (pages >= HANDLE_PAGES_MOST)
        return HANDLE_PAGES_MOST;
    return UINT32_C(1) << (31U - (unsigned)__builtin_clz(pages));
}

/* One new handle of at most `most` pages; what the driver refuses is halved. */
static binade_status create_one(struct binadei_segments *segments,
                                uint32_t most, struct binadei_segment **out)
{
    uint32_t pages = handle_pages(most);
    binade_status status;
    for (;; pages /= 2) {
        status = binadei_source_create(
            segments, (uint64_t)pages * BINADEI_PAGE_BYTES, out);
        if (status == BINADE_OK || pages == 1)
            return status;
    }
}

static void release_created(struct binadei_segments *segments,
                            struct binadei_segment *created)
{
    while (created) {
        struct binadei_segment *segment = created;
        created = segment->next;
        (void)binadei_source_release(segments, segment);
    }
}

/* `pages` pages or, if the driver has less, `least` or more: nothing that is too
 * little stays, or a pool that is out of memory would find it free again and
 * again. */
static binade_status create_all(struct binadei_segments *segments, uint32_t at,
                                uint32_t least, uint32_t pages)
{
    struct binadei_segment *created = NULL;
    struct binadei_segment **end = &created;
    uint32_t created_pages = 0;
    binade_status status = BINADE_OK;
    segments->moved_at_growth = segments->moved_bytes;
    while (created_pages < pages && status == BINADE_OK) {
        status = create_one(segments, pages - created_pages, end);
        if (status == BINADE_OK) {
            created_pages += (*end)->info.page_count;
            end = &(*end)->next;
        }
    }
    if (created_pages >= least)
        status = BINADE_OK;
    while (created && status == BINADE_OK) {
        struct binadei_segment *segment = created;
        uint32_t segment_pages = segment->info.page_count;
        created = segment->next;
        status = put_at(segments, segment, at, NULL);
        if (status != BINADE_OK) {
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
    uint64_t whole = handle_pages(missing);
    if (whole < missing)
        whole *= 2;
    if (whole > HANDLE_PAGES_MOST || whole > missing + step)
        return missing;
    return step > whole ? handle_pages((uint32_t)step) : whole;
}

/* What is created at least, if room and limit allow it. */
static uint32_t growth_step(const struct binadei_segments *segments,
                            uint32_t missing, uint32_t room)
{
    uint64_t reserved = binadei_segments_reserved_bytes(segments);
    uint64_t part = has_moved_much(segments) ? TIGHT_STEP_PART : STEP_PART;
    uint64_t pages = reserved / part / BINADEI_PAGE_BYTES;
    uint64_t left = (segments->limit_bytes - reserved) / BINADEI_PAGE_BYTES;
    if (pages > HANDLE_PAGES_MOST)
        pages = HANDLE_PAGES_MOST;
    if (pages >= WHOLE_STEP_PAGES)
        pages = whole_pages(pages, missing);
    if (pages < segments->first_bytes / BINADEI_PAGE_BYTES)
        pages = segments->first_bytes / BINADEI_PAGE_BYTES;
    if (pages > left)
        pages = left;
    if (pages > room)
        pages = room;
    return pages > missing ? (uint32_t)pages : missing;
}

static bool may_create(const struct binadei_segments *segments, uint32_t pages)
{
    return (uint64_t)pages * BINADEI_PAGE_BYTES <=
           segments->limit_bytes - binadei_segments_reserved_bytes(segments);
}

/* Returns the pages that are still missing. */
static uint32_t move_what_is_free(struct binadei_segments *segments,
                                  const struct binadei_extension *extension,
                                  const struct place *place)
{
    const struct binadei_view view = movable_view(segments, extension);
    uint32_t missing = place->pages;
    if (is_worth_moving(segments, &view, place))
        missing = move_to(segments, extension, &view, place, missing, false);
    /* The limit leaves too little: any handle will do that has room. */
    if (!may_create(segments, missing))
        missing = move_to(segments, extension, &view, place, missing, true);
    return missing;
}

static binade_status fill(struct binadei_segments *segments,
                          const struct binadei_extension *extension,
                          const struct place *place)
{
    uint32_t missing = extension->view
                           ? move_what_is_free(segments, extension, place)
                           : place->pages;
    uint32_t done = place->pages - missing;
    return missing
               ? create_all(segments, place->first + done, missing,
                            growth_step(segments, missing, place->room - done))
               : BINADE_OK;
}

binade_status binadei_extend(struct binadei_segments *segments,
                             const struct binadei_extension *extension)
{
    binade_status status =
        reserve_addresses(segments, pages_of_grains(needed_grains(extension)));
    if (status != BINADE_OK)
        return status;
    BINADEI_STEP("locked.mapped.begun");
    (void)binadei_unmap_left(segments, extension->passed_epoch);
    pthread_mutex_lock(&segments->lock);
    const struct place place = find_place(segments, extension);
    pthread_mutex_unlock(&segments->lock);
    if (!place.pages) {
        return binadei_fail(binadei_source_exhausted(segments),
                            "the pool's addresses have no room for %llu bytes "
                            "in a row",
                            (unsigned long long)extension->needed_bytes);
    }
    return fill(segments, extension, &place);
}

binade_status binadei_extend_by(struct binadei_segments *segments,
                                uint32_t page_count)
{
    const struct binadei_extension extension = {
        .needed_bytes = (uint64_t)page_count * BINADEI_PAGE_BYTES};
    return binadei_extend(segments, &extension);
}

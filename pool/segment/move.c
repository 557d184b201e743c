/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handles that move. A handle is claimed whole out of the heaps, so that only
 * one place uses it, and mapped at the new place before it is unmapped at the
 * old. If it had a stream's own memory, the old mapping stays until that
 * stream's work is over, and its pages are in no heap. The new pages belong to
 * the stream only, whose order keeps the two apart
 * (docs/dev/adr/0027-mapped-segments.md).
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/segment/mapped.h"

/* Blocks cut out of the heaps that earn one more move, which takes the driver
 * up to 80 us at any length. */
#define TAKEN_FOR_A_MOVE 128U
/* Places that one growth unmaps after its moves. */
#define UNMAPS_BEHIND 64U

/* Whether the handle is outside of the run that grows, and wholly free in the
 * view. */
static bool is_movable(const struct moietyi_segment *segment,
                       const struct moietyi_view *view,
                       const struct moietyi_place *place)
{
    uint64_t start = moietyi_grain_of_page(segment->info.first.index);
    uint64_t grains = moietyi_grain_of_page(segment->info.page_count);
    return !segment->pin_count &&
           (start + grains <= place->run_start || start >= place->run_end) &&
           moietyi_view_free_from(view, moietyi_grain_at(start),
                                  moietyi_grain_at(start + grains)) == grains;
}

struct moietyi_view
moietyi_movable_view(struct moietyi_segments *segments,
                     const struct moietyi_extension *extension)
{
    struct moietyi_view view = *extension->view;
    pthread_mutex_lock(&segments->lock);
    if (!extension->next_epoch ||
        segments->left_pages > segments->base_pages / 2)
        view.heap = NULL;
    pthread_mutex_unlock(&segments->lock);
    return view;
}

/* A handle that moves. */
struct move {
    struct moietyi_segment *segment;
    struct moietyi_segment *left; /* the place that it leaves */
    bool is_own;                  /* memory of the view's stream is in it */
};

/* Claims it out of the heaps; lock held. */
static bool claim_handle(struct moietyi_segments *segments,
                         const struct moietyi_view *view,
                         const struct moietyi_segment_info *info, bool *is_own)
{
    const struct moietyi_view done = {.space = segments->space};
    moietyi_grain start =
        moietyi_grain_at(moietyi_grain_of_page(info->first.index));
    uint64_t grains = moietyi_grain_of_page(info->page_count);
    *is_own = !moietyi_view_claim(&done, start, grains);
    return !*is_own || (view->heap && moietyi_view_claim(view, start, grains));
}

/* Takes a handle off its place, if it may move. */
static bool start_moving(struct moietyi_segments *segments,
                         const struct moietyi_view *view,
                         const struct moietyi_place *place,
                         struct moietyi_segment *segment, struct move *out)
{
    struct moietyi_segment *left = calloc(1, sizeof(*left));
    bool is_claimed = false;
    if (!left)
        return false;
    pthread_mutex_lock(&segments->lock);
    if (is_movable(segment, view, place))
        is_claimed = claim_handle(segments, view, &segment->info, &out->is_own);
    if (is_claimed) {
        out->segment = segment;
        moietyi_segment_unlist(segments, segment);
        out->left = left;
        left->info = segment->info;
        left->is_mapped = true;
    }
    pthread_mutex_unlock(&segments->lock);
    MOIETYI_STEP("locked.mapped.claimed");
    if (is_claimed)
        moietyi_segment_retract(segments, segment);
    else
        free(left);
    return is_claimed;
}

/* Sorts it into the list of places by epoch, mostly at the end; lock held. */
static void list_left(struct moietyi_segments *segments,
                      struct moietyi_segment *left)
{
    struct moietyi_segment **at = &segments->left;
    if (*at && segments->left_last->over_at <= left->over_at)
        at = &segments->left_last->next;
    while (*at && (*at)->over_at < left->over_at)
        at = &(*at)->next;
    left->next = *at;
    *at = left;
    if (!left->next)
        segments->left_last = left;
}

/* Notes a place at which a handle is still mapped until that epoch is over. */
static void note_left(struct moietyi_segments *segments,
                      struct moietyi_segment *segment,
                      struct moietyi_segment *left, uint64_t epoch)
{
    left->of = segment;
    left->over_at = epoch;
    pthread_mutex_lock(&segments->lock);
    segment->left_count++;
    segments->left_pages += left->info.page_count;
    moietyi_pages_set(segments, &left->info, NULL, true);
    list_left(segments, left);
    pthread_mutex_unlock(&segments->lock);
}

/* Maps the handle at its new place and lists it there. `left`: neither mapping
 * nor undoing it worked, so it is mapped at the new place as well. */
static moiety_status handle_map(struct moietyi_segments *segments,
                                struct moietyi_segment *segment,
                                struct moietyi_heap *own,
                                struct moietyi_segment *left)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    const struct moietyi_segment_info *info = &segment->info;
    moiety_status status =
        mapper->map(mapper->context, info->address, info->memory_bytes,
                    segment->handle, segments->peers, &left->is_mapped);
    if (status != MOIETY_OK)
        return status;
    bool was_mapped = segment->is_mapped;
    segment->is_mapped = true;
    moietyi_segment_announce(segments, segment);
    pthread_mutex_lock(&segments->lock);
    status = moietyi_segment_publish(segments, segment, own);
    segments->grow_count += status == MOIETY_OK && !was_mapped;
    pthread_mutex_unlock(&segments->lock);
    if (status == MOIETY_OK) {
        left->is_mapped = false;
        return status;
    }
    moietyi_segment_retract(segments, segment);
    segment->is_mapped = was_mapped;
    /* Nobody has used these addresses. */
    left->is_mapped = !moietyi_source_is_gone(
        mapper->unmap(mapper->context, info->address, info->memory_bytes));
    return status;
}

moiety_status moietyi_handle_put(struct moietyi_segments *segments,
                                 struct moietyi_segment *segment, uint32_t page,
                                 struct moietyi_heap *own)
{
    struct moietyi_segment *left = calloc(1, sizeof(*left));
    struct moietyi_segment_info before = segment->info;
    struct moietyi_segment_info *info = &segment->info;
    if (!left)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the record of a segment");
    info->first = (moietyi_page){page};
    info->address = segments->base + (uint64_t)page * MOIETYI_PAGE_BYTES;
    info->memory = info->address;
    moiety_status status = moietyi_lookup_prepare(
        &segments->lookup, info->address, info->page_count);
    if (status == MOIETY_OK)
        status = handle_map(segments, segment, own, left);
    if (status == MOIETY_OK) {
        free(left);
        return status;
    }
    left->info = *info;
    *info = before;
    if (left->is_mapped)
        note_left(segments, segment, left, 0);
    else
        free(left);
    return status;
}

/* Back to its old place, whose pages are covered. */
static void undo_move(struct moietyi_segments *segments,
                      const struct move *move, struct moietyi_heap *own)
{
    moietyi_segment_announce(segments, move->segment);
    pthread_mutex_lock(&segments->lock);
    (void)moietyi_segment_publish(segments, move->segment, own);
    pthread_mutex_unlock(&segments->lock);
    free(move->left);
}

/* Asked after the claim: from then on no thread queues work at the old
 * place. */
static uint64_t over_at(const struct moietyi_extension *extension,
                        const struct move *move)
{
    if (!move->is_own)
        return 0;
    return extension->next_epoch(extension->streams);
}

static moiety_status finish_moving(struct moietyi_segments *segments,
                                   const struct moietyi_extension *extension,
                                   const struct move *move, uint32_t page)
{
    struct moietyi_heap *own = move->is_own ? extension->view->heap : NULL;
    moiety_status status =
        moietyi_handle_put(segments, move->segment, page, own);
    if (status != MOIETY_OK) {
        undo_move(segments, move, own);
        return status;
    }
    pthread_mutex_lock(&segments->lock);
    segments->move_count++;
    segments->moved_bytes += move->left->info.memory_bytes;
    pthread_mutex_unlock(&segments->lock);
    note_left(segments, move->segment, move->left, over_at(extension, move));
    return MOIETY_OK;
}

/* Takes it off the list, for this thread to unmap; lock held. */
static struct moietyi_segment *take_over(struct moietyi_segments *segments,
                                         uint64_t passed_epoch, uint32_t most)
{
    struct moietyi_segment *taken = NULL;
    for (; segments->left && segments->left->over_at <= passed_epoch && most;
         most--) {
        struct moietyi_segment *left = segments->left;
        segments->left = left->next;
        left->next = taken;
        taken = left;
    }
    return taken;
}

/* Lists it again if it is still mapped, or ends it; lock held. */
static void end_left(struct moietyi_segments *segments,
                     struct moietyi_segment *left)
{
    if (left->is_mapped) {
        list_left(segments, left);
        return;
    }
    moietyi_pages_set(segments, &left->info, NULL, false);
    segments->left_pages -= left->info.page_count;
    left->of->left_count--;
    free(left);
}

moiety_status moietyi_unmap_left(struct moietyi_segments *segments,
                                 uint64_t passed_epoch, uint32_t most)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    moiety_status first = MOIETY_OK;
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *taken = take_over(segments, passed_epoch, most);
    pthread_mutex_unlock(&segments->lock);
    for (struct moietyi_segment *at = taken; at; at = at->next) {
        moiety_status status = mapper->unmap(mapper->context, at->info.address,
                                             at->info.memory_bytes);
        at->is_mapped = !moietyi_source_is_gone(status);
        if (at->is_mapped && first == MOIETY_OK)
            first = status;
    }
    pthread_mutex_lock(&segments->lock);
    while (taken) {
        struct moietyi_segment *left = taken;
        taken = left->next;
        end_left(segments, left);
    }
    pthread_mutex_unlock(&segments->lock);
    return first;
}

void moietyi_segments_unmap_left(struct moietyi_segments *segments,
                                 uint64_t passed_epoch)
{
    if (!segments->mapper)
        return;
    moietyi_grower_begin(segments);
    (void)moietyi_unmap_left(segments, passed_epoch, UINT32_MAX);
    moietyi_grower_end(segments);
}

/* Moves to one place. */
struct moving {
    struct moietyi_segments *segments;
    const struct moietyi_extension *extension;
    const struct moietyi_view *view;
    const struct moietyi_place *place;
    uint32_t done; /* pages that have memory already */
    uint32_t count;
    bool has_failed;
};

static bool moves_on(const struct moving *moving)
{
    return moving->done < moving->place->pages && !moving->has_failed;
}

static void move_one(struct moving *moving, struct moietyi_segment *segment)
{
    uint32_t pages = segment->info.page_count;
    struct move move;
    if (pages > moving->place->room - moving->done ||
        !start_moving(moving->segments, moving->view, moving->place, segment,
                      &move))
        return;
    moving->has_failed =
        finish_moving(moving->segments, moving->extension, &move,
                      moving->place->first + moving->done) != MOIETY_OK;
    if (moving->has_failed)
        return;
    moving->done += pages;
    moving->count++;
}

/* Handles in a free interval or at its ends, the last first. Only the grower,
 * which is the caller, takes segments off the list. */
static void move_of(struct moving *moving, const struct moietyi_interval *free)
{
    uint32_t first = (uint32_t)(free->start / MOIETYI_PAGE_GRAINS);
    uint32_t end = moietyi_pages_of_grains(free->start + free->grains);
    while (moves_on(moving) && end > first) {
        struct moietyi_segment *segment = moving->segments->at_page[end - 1];
        end = segment ? segment->info.first.index : end - 1;
        if (segment)
            move_one(moving, segment);
    }
}

static void move_from(struct moving *moving, struct moietyi_heap *heap)
{
    struct moietyi_long_cursor cursor = {.space = moving->view->space,
                                         .heap = heap,
                                         .least = MOIETYI_PAGE_GRAINS / 2};
    const struct moietyi_interval *free;
    while (moves_on(moving) && (free = moietyi_long_next(&cursor)))
        move_of(moving, free);
}

uint32_t moietyi_move_to(struct moietyi_segments *segments,
                         const struct moietyi_extension *extension,
                         const struct moietyi_view *view,
                         const struct moietyi_place *place)
{
    struct moving moving = {.segments = segments,
                            .extension = extension,
                            .view = view,
                            .place = place};
    uint32_t before;
    do {
        before = moving.count;
        if (!view->heap || !view->is_own_only)
            move_from(&moving, NULL);
        if (view->heap)
            move_from(&moving, view->heap);
    } while (moves_on(&moving) && moving.count != before);
    /* The moves so far stay. */
    (void)moietyi_unmap_left(segments, extension->passed_epoch, UNMAPS_BEHIND);
    segments->move_credit -= moving.count;
    if (segments->move_credit < -MOIETYI_MOVES_AT_ONCE)
        segments->move_credit = -MOIETYI_MOVES_AT_ONCE;
    return moving.done < place->pages ? place->pages - moving.done : 0;
}

bool moietyi_may_move(struct moietyi_segments *segments,
                      const struct moietyi_view *view)
{
    uint64_t taken = segments->taken_since + moietyi_view_forget_taken(view);
    segments->taken_since = taken % TAKEN_FOR_A_MOVE;
    segments->move_credit += (int64_t)(taken / TAKEN_FOR_A_MOVE);
    if (segments->move_credit > MOIETYI_MOVES_AT_ONCE)
        segments->move_credit = MOIETYI_MOVES_AT_ONCE;
    return segments->move_credit > 0;
}
